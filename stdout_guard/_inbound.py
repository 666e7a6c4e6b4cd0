"""The MCP session as the boundary sees it: what may come now, and what each well-formed message asks for.

`Session.judge` changes nothing: it says what a message is (an `Outcome`); `Session.accept` then makes it so. So a batch
can be judged whole before any of it counts, and a refused message leaves nothing behind.

Sources: MCP basic/lifecycle (initialize, ping, initialized), 2025-03-26 basic (batches, ids never reused), 2026-07-28
basic (``_meta`` in every request, server/discover, ids that differ from those in flight).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from stdout_guard._actions import freeze
from stdout_guard._outcomes import (
    EXPLAINED,
    Answered,
    IdMemory,
    Ignored,
    Outcome,
    Phase,
    Refused,
    Wanted,
    as_object,
    id_type,
)
from stdout_guard._replies import MODERN
from stdout_guard._tools import Tool
from stdout_guard.jsonrpc import STRICT, Fault, Message, Strictness
from stdout_guard.revisions import META, check_message, revision_named

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCHES: Final = "2025-03-26"
_CAPABILITIES: Final[Mapping[str, Any]] = {"tools": {}}
_CALL_MEMBERS: Final = frozenset(("name", "arguments", "_meta"))


@dataclass(slots=True)
class Session:
    """State and rules of one session. ``pinned`` None: the client chooses the revision by how it opens."""

    tools: Mapping[str, Tool]
    identity: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]
    pinned: str | None
    schema_errors: Literal["error", "isError"] = "error"
    options: Strictness = STRICT
    phase: Phase = "new"
    revision: str | None = None
    client: tuple[str, str] | None = None
    in_flight: set[int | str] = field(default_factory=set[int | str])  # 7 and "7" are not equal
    _ids: IdMemory = field(default_factory=IdMemory)

    def __post_init__(self) -> None:
        self.revision = self.pinned
        if self.pinned == MODERN:
            self.phase = "modern"

    # ------------------------------------------------------------------------------------------------ what it asks for

    def judge(self, message: Message) -> Outcome:
        """What this message is, in the state the session is in now."""
        if message.kind == "request":
            return self._request(message, cast("int | str", message.id))
        if message.kind == "notification":
            return self._notification(message)
        answer = Refused("session", "unsolicited-response", silent=True, id_type=id_type(message.id))
        fault = self._check(message, self.revision)
        return answer if fault is None else replace(answer, stage="method", reason=fault.code)

    def accept(self, outcome: Answered | Ignored | Wanted) -> None:
        """Let a judged message count: its id is used up, and the session moves on."""
        self.phase = outcome.phase or self.phase
        if isinstance(outcome, Ignored):
            return
        self._ids.add(outcome.request_id)
        self.revision = outcome.revision or self.revision
        if isinstance(outcome, Wanted):
            self.in_flight.add(outcome.request_id)
        else:
            self.client = outcome.client or self.client

    def answered(self, request_id: int | str) -> None:
        """A released call has its answer, or needs none: its id is no longer in flight."""
        self.in_flight.discard(request_id)

    # ------------------------------------------------------------------------------------------------------- requests

    def _request(self, message: Message, request_id: int | str) -> Outcome:
        refused = Refused("session", "", request_id, id_type(request_id))
        version = as_object(_params(message).get("_meta")).get(META + "protocolVersion")
        opens_modern = self.phase == "new" and self.pinned is None and version is not None and version not in LEGACY
        modern = self.phase == "modern" or opens_modern
        if request_id in self.in_flight or (not modern and request_id in self._ids):
            return replace(refused, reason="id-reused", request_id=None)
        if not modern:
            return self._not_now(message.method, refused) or self._method(message, refused, self.revision)
        if isinstance(version, str) and version != MODERN:
            data = {"supported": self._versions(), "requested": version[:64]}
            return replace(refused, reason="unsupported-version", gentle=True, data=data)
        outcome = self._method(message, replace(refused, revision=MODERN), MODERN)
        if opens_modern and message.method != "server/discover" and not isinstance(outcome, Refused | Ignored):
            return replace(outcome, phase="modern", revision=MODERN)
        return outcome

    def _not_now(self, method: str, refused: Refused) -> Refused | None:
        """Why a legacy session is not ready for this request, or None."""
        if self.phase == "new" and method == "server/discover":
            return replace(refused, stage="method", reason="not-in-revision", gentle=True)  # how newer clients probe
        if self.phase == "new":
            return None if method in ("initialize", "ping") else replace(refused, reason="before-initialize")
        if method == "initialize":
            return replace(refused, reason="initialize-twice")
        if method == "tools/call" and self.phase == "greeted":
            return replace(refused, reason="before-initialized")
        return None

    def _method(self, message: Message, refused: Refused, revision: str | None) -> Outcome:
        refused = replace(refused, stage="method")
        method, params = message.method, _params(message)
        if fault := self._check(message, revision):
            return replace(refused, reason=fault.code)
        if method == "tools/call":
            return self._call(params, refused, revision)
        if method == "initialize":
            return self._initialize(params, refused)
        if method == "tools/list" and "cursor" in params:
            return replace(refused, reason="params-member")  # we never gave one out
        answer = self._answer(method, revision)
        if answer is None:
            return replace(refused, reason="not-offered", gentle=True)
        return Answered(_known(refused), answer)

    def _answer(self, method: str, revision: str | None) -> Mapping[str, Any] | None:
        caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if revision == MODERN else {}
        if method in ("ping", "logging/setLevel"):
            return {}
        if method == "tools/list":
            return {"tools": [tool.listed() for tool in self.tools.values()], **caching}
        if method == "server/discover":
            said = {META + "serverInfo": dict(self.identity)}
            return {"supportedVersions": self._versions(), "capabilities": _CAPABILITIES, "_meta": said, **caching}
        return self.answers.get(method)

    def _versions(self) -> list[str]:
        return [*LEGACY, MODERN] if self.pinned is None else [self.pinned]

    def _initialize(self, params: Mapping[str, Any], refused: Refused) -> Outcome:
        wanted, info = params.get("protocolVersion"), as_object(params.get("clientInfo"))
        client = (info.get("name"), info.get("version"))
        if not isinstance(client[0], str) or not isinstance(client[1], str):
            return replace(refused, reason="params-member")
        revision = self.pinned or (wanted if wanted in LEGACY else LEGACY[-1])
        answer = {"protocolVersion": revision, "capabilities": _CAPABILITIES, "serverInfo": dict(self.identity)}
        return Answered(_known(refused), answer, "greeted", revision, (client[0], client[1]))

    def _call(self, params: Mapping[str, Any], refused: Refused, revision: str | None) -> Outcome:
        """tools/call: shape and name at stage method; members nobody knows and the arguments at stage schema."""
        name, arguments = params["name"], params.get("arguments", {})
        tool = self.tools.get(name)
        if tool is None:
            return replace(refused, reason="unknown-tool")
        refused = replace(refused, stage="schema", tool=name)
        if not params.keys() <= _CALL_MEMBERS:
            return replace(refused, reason="unknown-params-member")
        frozen = freeze(arguments)
        if not tool.accepts(frozen):
            explained = self.schema_errors == "isError" and (revision or "") >= "2025-11-25"
            return replace(refused, reason="arguments", gentle=explained, data=EXPLAINED if explained else None)
        info = as_object(as_object(params.get("_meta")).get(META + "clientInfo"))
        said = (info.get("name"), info.get("version"))
        client = (said[0], said[1]) if isinstance(said[0], str) and isinstance(said[1], str) else self.client
        return Wanted(_known(refused), tool, frozen, revision or LEGACY[-1], client)

    # -------------------------------------------------------------------------------------------------- notifications

    def _notification(self, message: Message) -> Outcome:
        refused = Refused("session", "", silent=True)
        method, params = message.method, _params(message)
        if self.phase == "new":
            return replace(refused, reason="before-initialize")
        if fault := self._check(message, self.revision):
            return replace(refused, stage="method", reason=fault.code)
        if method == "notifications/initialized":
            return Ignored("ready" if self.phase == "greeted" else None)
        if method != "notifications/cancelled":
            return Ignored()
        return Ignored(cancels=params.get("requestId"))

    def _check(self, message: Message, revision: str | None) -> Fault | None:
        """The tables of the revision: method, direction, members of params, ``_meta``."""
        return check_message(message, revision_named(revision or LEGACY[-1]), "client-to-server", self.options, [])


def _params(message: Message) -> Mapping[str, Any]:
    return as_object(message.params)


def _known(refused: Refused) -> int | str:
    assert refused.request_id is not None
    return refused.request_id
