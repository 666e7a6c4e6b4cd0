"""Frames for boundary tests, and a session that is already open."""

from __future__ import annotations

import json
from typing import Any

from boundary_adapter import messages

from stdout_guard.boundary import AuthorizedAction, Boundary, Event, Reply, SessionClosed, Tool
from stdout_guard.recorder import Recorder

META = "io.modelcontextprotocol/"
SCHEMA = {
    "type": "object",
    "properties": {"target": {"type": "string"}, "tags": {"type": "array"}, "more": {"type": "object"}},
    "required": ["target"],
    "additionalProperties": False,
}
TOOLS = (Tool("deploy", schema=SCHEMA), Tool("other", schema=SCHEMA))
MODERN_META = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def line(value: Any) -> bytes:
    """One newline-delimited frame."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def request(method: str, request_id: Any = 1, **params: Any) -> bytes:
    """A request; ``meta`` becomes ``_meta``."""
    if "meta" in params:
        params["_meta"] = params.pop("meta")
    return line({"jsonrpc": "2.0", "id": request_id, "method": method, **({"params": params} if params else {})})


def notification(method: str, **params: Any) -> bytes:
    """A notification."""
    return line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def initialize(revision: str = "2025-11-25", request_id: Any = "init", client: tuple[str, str] = ("c", "1.0")) -> bytes:
    """The first request of a legacy session."""
    info = {"name": client[0], "version": client[1]}
    return request("initialize", request_id, protocolVersion=revision, capabilities={}, clientInfo=info)


def call(name: str = "deploy", request_id: Any = 7, **members: Any) -> bytes:
    """A tools/call with a valid target, unless ``arguments`` says otherwise."""
    members.setdefault("arguments", {"target": "t"})
    return request("tools/call", request_id, name=name, **members)


INITIALIZED = notification("notifications/initialized")


class Talk:
    """One session with a recorder; ``say`` runs what is released at once unless ``hold`` is set."""

    def __init__(self, *, handshake: str | None = "2025-11-25", authorise: Any = None, **settings: Any) -> None:
        self.recorder = Recorder()
        self.held: list[AuthorizedAction] = []
        self.hold = False
        settings.setdefault("audit", self.recorder.refused)
        settings.setdefault("executions", self.recorder.ended)
        tools = settings.pop("tools", TOOLS)
        self.boundary = Boundary(tools, authorise or (lambda call: True), **settings)
        if handshake is not None:
            self.say(initialize(handshake) + INITIALIZED)

    def events(self, *frames: bytes) -> list[Event]:
        """What feed returns for these bytes."""
        return self.boundary.feed(b"".join(frames))

    def say(self, *frames: bytes) -> list[dict[str, Any]]:
        """Feed, run what is released, and return everything that was written back."""
        written = b""
        for event in self.events(*frames):
            if isinstance(event, Reply):
                written += event.data
            elif isinstance(event, AuthorizedAction):
                self.held.append(event)
                if not self.hold:
                    written += self.boundary.complete(event, self.recorder.execute(event))
        return messages(written)

    def code(self, *frames: bytes) -> int | None:
        """The code of the only reply; None when there was none."""
        replies = self.say(*frames)
        assert len(replies) <= 1, replies
        return replies[0]["error"]["code"] if replies else None

    @property
    def reasons(self) -> list[str]:
        """The reason of every refusal."""
        return [refusal.reason for refusal in self.recorder.refusals]

    @property
    def closed(self) -> SessionClosed | None:
        """How the session ended."""
        return self.boundary.closed
