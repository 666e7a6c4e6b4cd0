"""The boundary behind the two methods that a corpus run drives: feed bytes, end the input, and report what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stdout_guard.boundary import DENIED, AuthorizedAction, Boundary, Call, Event, Reply, Tool
from stdout_guard.recorder import Recorder
from stdout_guard.testing.corpus.adding import DEFAULT_SCHEMA

DEFAULT = Tool("default", schema=DEFAULT_SCHEMA)  # its schema is checked once, not once a case


def _tool(name: str, schema: Any) -> Tool:
    if schema == "default":
        return Tool(name, schema=DEFAULT_SCHEMA, validate=DEFAULT.validate)
    return Tool(name, schema={"type": "object", **schema})


class Gateway:
    """A gateway made of the boundary and a fake executor; ``output`` is everything it wrote to the wire."""

    def __init__(self, case: Mapping[str, Any], recorder: Recorder | None = None) -> None:
        self.recorder = recorder or Recorder()
        self.output = b""
        self._tools = case["tools"]
        tools = [_tool(name, tool["schema"]) for name, tool in self._tools.items() if tool["registered"]]
        self.boundary = Boundary(
            tools,
            self._authorise,
            framing=case["framing"],
            revision=case["revision"],
            policy=case["policy"],
            audit=self.recorder.refused,
            executions=self.recorder.ended,
        )

    def _authorise(self, call: Call) -> bool:
        verdict = self._tools[call.name]["authorised"]
        if verdict == "raise":
            raise RuntimeError("no decision tok_SECRET_hx")
        return bool(verdict)

    def feed(self, data: bytes) -> bytes:
        """What is written to the wire because of these bytes."""
        return self._handle(self.boundary.feed(data))

    def eof(self) -> bytes:
        """What is written to the wire because the input ended."""
        return self._handle(self.boundary.eof())

    @property
    def closed(self) -> bool:
        """Whether the session ended because of what came in."""
        return self.boundary.closed is not None and self.boundary.closed.refused

    def _handle(self, events: list[Event]) -> bytes:
        written = b""
        for event in events:
            if isinstance(event, Reply):
                written += event.data
            elif isinstance(event, AuthorizedAction):
                written += self.boundary.complete(event, self.recorder.execute(event))
        self.output += written
        return written

    def report(self) -> dict[str, Any]:
        """Calls, arguments, stages, replies and audit, as plain data."""
        return {
            "calls": self.recorder.names,
            "args": [arguments for _name, arguments in self.recorder.calls],
            "stages": self.recorder.stages,
            "closed": self.closed,
            "replies": [_reply(message) for message in messages(self.output)],
            "audit": [refusal.as_dict() for refusal in self.recorder.refusals],
        }


def messages(output: bytes) -> list[dict[str, Any]]:
    """The messages written to the wire, in either framing, batches laid flat."""
    found: list[dict[str, Any]] = []
    while output:
        if output.startswith(b"Content-Length: "):
            header, _, rest = output.partition(b"\r\n\r\n")
            size = int(header.removeprefix(b"Content-Length: "))
            body, output = rest[:size], rest[size:]
        else:
            body, _, output = output.partition(b"\n")
        value = json.loads(body)
        found += value if isinstance(value, list) else [value]
    return found


def _reply(message: dict[str, Any]) -> dict[str, Any]:
    reply = {"id": message["id"]} if "id" in message else {}
    if "error" in message:
        code = message["error"]["code"]
        reply["code"] = "denied" if code == DENIED else code
    elif message["result"].get("isError"):
        reply["code"] = "isError"
    return reply


def boundary(case: Mapping[str, Any]) -> Gateway:
    """The factory a corpus run asks for."""
    return Gateway(case)
