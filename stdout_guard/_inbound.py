"""The MCP session as the boundary sees it: what may come now, and what each well-formed message asks for.

`Session.judge` changes nothing: it says what a message is (an `Outcome`); `Session.accept` then makes it so. So a batch
can be judged whole before any of it counts, and a refused message leaves nothing behind.
`Session.ordinary` is a shorter way to the same answer, for the call that makes up most of what is fed.
(Beyond 250 lines by that way, which reads best beside the long one.)

Sources: MCP basic/lifecycle (initialize, ping, initialized), 2025-03-26 basic (batches, ids never reused), 2026-07-28
basic (``_meta`` in every request, server/discover, ids that differ from those in flight).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    make_wanted,
)
from stdout_guard._replies import MODERN
from stdout_guard._tools import Tool
from stdout_guard.jsonrpc import JSONRPC, STRICT, Envelope, Fault, Message, Strictness
from stdout_guard.revisions import MCP_REVISIONS, META, Revision, check_message

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCHES: Final = "2025-03-26"
_RULES: Final[Mapping[str | None, Revision]] = {None: MCP_REVISIONS[LEGACY[-1]]} | MCP_REVISIONS
_DATED = re.compile(r"(?:DRAFT-)?20\d\d-[0-9A-Za-z.-]{1,24}", re.ASCII)  # anything else of the peer's is not repeated
_CAPABILITIES: Final[Mapping[str, Any]] = {"tools": {}}
_ID_TYPES: Final = (int, str)  # exactly: true is no id
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

    @property
    def envelope(self) -> Envelope:
        """Where the session's revision differs about the envelope; before there is one, as JSON-RPC has it."""
        return JSONRPC if self.revision is None else _RULES[self.revision].envelope

    # ------------------------------------------------------------------------------------------------ what it asks for

    def ordinary(self, message: Any) -> Outcome | None:
        """What `judge` would say of the call that clients send all day, in one pass; None for everything else."""
        if message.__class__ is not dict or self.phase != "ready":
            return None
        params, request_id = message.get("params"), message.get("id")
        if params.__class__ is not dict or request_id.__class__ not in _ID_TYPES or len(message) != 4:
            return None
        if message.get("method") != "tools/call" or message.get("jsonrpc") != "2.0" or len(params) != 2:
            return None
        name, arguments = params.get("name"), params.get("arguments")
        if name.__class__ is not str or arguments.__class__ is not dict:
            return None
        tool = self.tools.get(name)
        if tool is None or request_id in self.in_flight or request_id in self._ids:
            return None
        return self._admit(request_id, tool, arguments, self.client, self.revision)

    def judge(self, message: Message) -> Outcome:
        """What this message is, in the state the session is in now."""
        if message.kind == "request":
            return self._request(message, _params(message))
        if message.kind == "notification":
            return self._notification(message, _params(message))
        fault = self._check(message, self.revision)
        stage, reason = ("session", "unsolicited-response") if fault is None else ("method", fault.code)
        return Refused(stage, reason, silent=True, id_type=id_type(message.id))

    def accept(self, outcome: Answered | Ignored | Wanted) -> None:
        """Let a judged message count: its id is used up, and the session moves on."""
        if isinstance(outcome, Wanted):
            request_id, _tool, _arguments, self.revision, _client, phase = outcome
            self.in_flight.add(request_id)
            self._ids.add(request_id)
        else:
            phase = outcome.phase
        if phase is not None:
            self.phase = phase
        if isinstance(outcome, Answered):
            self.revision = outcome.revision or self.revision
            self.client = outcome.client or self.client
            self._ids.add(outcome.request_id)

    def answered(self, request_id: int | str) -> None:
        """A released call has its answer, or needs none: its id is no longer in flight."""
        self.in_flight.discard(request_id)

    # ------------------------------------------------------------------------------------------------------- requests

    def _request(self, message: Message, params: Mapping[str, Any]) -> Outcome:
        request_id: Any = message.id
        opens_modern = self.phase == "new" and self._opens_modern(params)
        modern = opens_modern or self.phase == "modern"
        if request_id in self.in_flight or (not modern and request_id in self._ids):
            return Refused("session", "id-reused", None, id_type(request_id))
        if not modern:
            return self._not_now(message) or self._method(message, params, self.revision)
        version = _version(params)
        if isinstance(version, str) and version != MODERN:
            data = {"supported": self._versions(), "requested": version if _DATED.fullmatch(version) else ""}
            return _refused(message, "session", "unsupported-version", gentle=True, data=data)
        outcome = self._method(message, params, MODERN)
        if opens_modern and message.method != "server/discover" and isinstance(outcome, Answered | Wanted):
            outcome = outcome._replace(phase="modern", revision=MODERN)
        return outcome

    def _opens_modern(self, params: Mapping[str, Any]) -> bool:
        """Whether this first request names a revision of the kind that has no handshake."""
        version = _version(params)
        return self.pinned is None and version is not None and version not in LEGACY

    def _not_now(self, message: Message) -> Refused | None:
        """Why a legacy session is not ready for this request, or None."""
        method = message.method
        if self.phase == "new":
            if method == "server/discover":  # how newer clients probe
                return _refused(message, "method", "not-in-revision", gentle=True)
            return None if method in ("initialize", "ping") else _refused(message, "session", "before-initialize")
        if method == "initialize":
            return _refused(message, "session", "initialize-twice")
        if self.phase == "greeted" and method == "tools/call":
            return _refused(message, "session", "before-initialized")
        return None

    def _method(self, message: Message, params: Mapping[str, Any], revision: str | None) -> Outcome:
        method = message.method
        if fault := self._check(message, revision):
            return _refused(message, "method", fault.code, revision=revision)
        if method == "tools/call":
            return self._call(message, params, revision)
        if method == "initialize" and revision != MODERN:  # with unknown_methods="note" the table lets it pass
            return self._initialize(message, params)
        if method == "tools/list" and "cursor" in params:
            return _refused(message, "method", "params-member", revision=revision)  # we never gave one out
        answer = self._answer(method, revision)
        if answer is None:
            return _refused(message, "method", "not-offered", gentle=True, revision=revision)
        return Answered(_id(message), answer)

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

    def _initialize(self, message: Message, params: Mapping[str, Any]) -> Outcome:
        wanted, client = params.get("protocolVersion"), _client(params.get("clientInfo"))
        if client is None:
            return _refused(message, "method", "params-member")
        revision = self.pinned or (wanted if wanted in LEGACY else LEGACY[-1])
        answer = {"protocolVersion": revision, "capabilities": _CAPABILITIES, "serverInfo": dict(self.identity)}
        return Answered(_id(message), answer, "greeted", revision, client)

    def _call(self, message: Message, params: Mapping[str, Any], revision: str | None) -> Outcome:
        """tools/call: shape and name at stage method; members nobody knows and the arguments at stage schema."""
        name, arguments, client = params["name"], params.get("arguments"), self.client
        tool = self.tools.get(name)
        if tool is None:
            return _refused(message, "method", "unknown-tool", revision=revision)
        if not params.keys() <= _CALL_MEMBERS:
            return _refused(message, "schema", "unknown-params-member", tool=name, revision=revision)
        if "_meta" in params:
            client = _client(params["_meta"].get(META + "clientInfo")) or client
        return self._admit(_id(message), tool, {} if arguments is None else arguments, client, revision)

    def _admit(
        self,
        request_id: int | str,
        tool: Tool,
        given: dict[str, Any],
        client: tuple[str, str] | None,
        revision: str | None,
    ) -> Wanted | Refused:
        """The last question about a call that is otherwise in order: its arguments.

        They are frozen first: whatever a validator does to the dict it is given, the executor gets these.
        """
        frozen = freeze(given)
        if tool.accepts(given):
            return make_wanted((request_id, tool, frozen, revision or LEGACY[-1], client, None))
        gentle = self.schema_errors == "isError" and (revision or "") >= "2025-11-25"
        data = EXPLAINED if gentle else None
        return Refused("schema", "arguments", request_id, id_type(request_id), False, gentle, tool.name, data, revision)

    # -------------------------------------------------------------------------------------------------- notifications

    def _notification(self, message: Message, params: Mapping[str, Any]) -> Outcome:
        if self.phase == "new":
            return Refused("session", "before-initialize", silent=True)
        if fault := self._check(message, self.revision):
            return Refused("method", fault.code, silent=True)
        if message.method == "notifications/initialized":
            return Ignored("ready" if self.phase == "greeted" else None)
        if message.method != "notifications/cancelled":
            return Ignored()
        return Ignored(cancels=params.get("requestId"))

    def _check(self, message: Message, revision: str | None) -> Fault | None:
        """The tables of the revision: method, direction, members of params, ``_meta``."""
        return check_message(message, _RULES[revision], "client-to-server", self.options, [])


def _refused(
    message: Message,
    stage: str,
    reason: str,
    *,
    gentle: bool = False,
    tool: str | None = None,
    data: object = None,
    revision: str | None = None,
) -> Refused:
    """A request that is not taken, to be answered under its own id."""
    return Refused(stage, reason, message.id, id_type(message.id), False, gentle, tool, data, revision)


def _params(message: Message) -> Mapping[str, Any]:
    return as_object(message.params)


def _id(message: Message) -> int | str:
    return cast("int | str", message.id)


def _version(params: Mapping[str, Any]) -> object:
    return as_object(params.get("_meta")).get(META + "protocolVersion")


def _client(value: object) -> tuple[str, str] | None:
    """Name and version that a peer gives of itself; None when it does not."""
    info = as_object(value)
    name, version = info.get("name"), info.get("version")
    return (name, version) if isinstance(name, str) and isinstance(version, str) else None
