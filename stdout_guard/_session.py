"""What one side owes the other: answers to the ids that were sent, in the order that MCP's life cycle allows. No I/O.

Rules: every request is answered once, with its own id (type included), and nothing else is answered. MCP until
2025-11-25: initialize is answered before anything else; the server only pings and logs before that; its own ids are
never used twice. Progress belongs to a token of a request still open, and increases. From 2026-07-28: logs only when a
request asked for them, list changes only under a subscription. What was sent and cannot be read earns one answer
without an id.

Sources: JSON-RPC 2.0 sections 4.1 and 5, MCP basic/lifecycle, basic/utilities (progress, cancellation, logging),
2026-07-28 basic/patterns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast

from stdout_guard import framing as _framing
from stdout_guard.jsonrpc import Decoder, Fault, Message, RequestId, classify
from stdout_guard.revisions import MCP_2026_07_28, MCP_REVISIONS, META, Revision

Severity: TypeAlias = Literal["error", "warning"]
_Key: TypeAlias = tuple[bool, RequestId]
_UNLIMITED = 1 << 62
_NUMBER = re.compile("-?[0-9]{1,19}")
_EARLY = ("ping", "notifications/message")
_REQUEST_BOUND = ("notifications/progress", "notifications/cancelled")
_SUBSCRIBED = (
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/subscriptions/acknowledged",
)


class Breach(NamedTuple):
    """A session rule that a message breaks."""

    code: str
    severity: Severity
    why: str


@dataclass
class _Request:
    method: str
    modern: Revision | None = None  # set when the request itself names its revision
    sent: int = 0
    answered: int = 0
    owed: bool = True
    outlives_answer: bool = False  # a task: progress goes on after the first answer
    wants_logs: bool = False
    identity: RequestId = None


def _key(value: RequestId) -> _Key:
    return isinstance(value, str), value


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


class Session:
    """What was sent, and what has come back so far.

    ``revision``: the one that is judged by, None for auto. ``from_server=False``: only the accounts of ids are kept.
    """

    def __init__(
        self, sent: bytes, framing: _framing.Framing, revision: Revision | None, *, from_server: bool = True
    ) -> None:
        self._from_server = from_server
        self.initialize: _Request | None = None
        self.plain = False  # the client's initialize is not MCP's: some other protocol on JSON-RPC
        self.modern = False
        self.capabilities: dict[str, object] | None = None
        self.negotiated: Revision | None = None
        self.unreadable = 0
        self._fixed = revision
        self._requests: dict[_Key, _Request] = {}
        self._tokens: dict[_Key, _Request] = {}
        self._progress: dict[_Key, float] = {}
        self._own_ids: set[_Key] = set()
        self._initialized = False
        self._read(sent, framing)

    # ---------------------------------------------------------------------------------------------- what was sent

    def _read(self, sent: bytes, framing: _framing.Framing) -> None:
        reader = _framing.frame_reader(framing, max_frame=_UNLIMITED, blank="allow")
        decoder = Decoder()
        for event in (*reader.feed(sent), *reader.close()):
            decoded = decoder.decode(event.body if isinstance(event, _framing.Frame) else event.raw)
            if isinstance(event, _framing.FramingFault) or isinstance(decoded, Fault):
                self.unreadable += 1
                self._salvage(event.raw)
                continue
            value = decoded.value
            for member in cast("list[object]", value) if isinstance(value, list) else [value]:
                self._take(member)

    def _salvage(self, raw: bytes) -> None:
        """A lenient server may run what a strict one refuses: its answer, too, belongs to something."""
        try:
            value: object = json.loads(raw)
        except (ValueError, RecursionError):
            return
        self._optional(_mapping(value).get("id"))

    def _optional(self, identity: object) -> None:
        if type(identity) is int or type(identity) is str:
            request = self._requests.setdefault(_key(identity), _Request("", owed=False, identity=identity))
            request.sent += 1

    def _take(self, value: object) -> None:
        message = classify(value)
        if isinstance(message, Fault):
            self.unreadable += 1
            self._optional(_mapping(value).get("id"))
        elif message.kind == "request":
            self._take_request(message)
        elif message.method == "notifications/cancelled":
            cancelled = self._find(_mapping(message.params).get("requestId"))
            if cancelled is not None:
                cancelled.owed = False
        elif message.method == "notifications/initialized":
            self._initialized = True

    def _take_request(self, message: Message) -> None:
        params = _mapping(message.params)
        meta = _mapping(params.get("_meta"))
        request = self._requests.setdefault(_key(message.id), _Request(message.method, identity=message.id))
        request.sent += 1
        request.method, request.owed = message.method, message.method != "subscriptions/listen"
        request.outlives_answer = "task" in params
        request.wants_logs = META + "logLevel" in meta
        if META + "protocolVersion" in meta:
            version = meta[META + "protocolVersion"]
            request.modern = MCP_REVISIONS.get(version, MCP_2026_07_28) if isinstance(version, str) else None
            self.modern = True
        token = meta.get("progressToken")
        if type(token) is int or type(token) is str:
            self._tokens[_key(token)] = request
        if message.method == "initialize" and self.initialize is None:
            self.initialize = request
            self.plain = not isinstance(params.get("protocolVersion"), str)

    # ------------------------------------------------------------------------------------------- what comes back

    def request_of(self, message: Message) -> _Request | None:
        """The request that an answer carries the id of."""
        return self._requests.get(_key(message.id)) if message.has_id else None

    def receive(self, message: Message, revision: Revision) -> Iterator[Breach]:
        """The rules that this message breaks, given all before it."""
        if message.kind in ("response", "error"):
            yield from self._answer(message, revision)
        elif revision.mcp and self._from_server:
            yield from self._call(message, revision)

    def _answer(self, message: Message, revision: Revision) -> Iterator[Breach]:
        if message.id is None:
            yield from self.answer_without_id()
            return
        request = self._requests.get(_key(message.id))
        if request is None:
            yield Breach("unknown-id", "error", self._unknown_id(message.id))
            return
        request.answered += 1
        if request.answered > request.sent:
            yield Breach("answered-twice", "error", f"id {_show(message.id)} has been answered before")
        elif revision.mcp and self._from_server and message.kind == "response":
            yield from self._result(message, request)

    def answer_without_id(self) -> Iterator[Breach]:
        """An answer to nothing that can be named: owed only for what could not be read."""
        if self.unreadable <= 0:
            why = (
                "nothing is owed an answer without an id: no unreadable input was sent, notifications are not answered"
            )
            yield Breach("unowed-answer", "error", why)
        self.unreadable -= 1

    def _unknown_id(self, identity: RequestId) -> str:
        other: RequestId = None
        if isinstance(identity, str) and _NUMBER.fullmatch(identity):
            other = int(identity)
        elif isinstance(identity, int) and abs(identity) < 1 << 64:
            other = str(identity)
        if other is not None and _key(other) in self._requests:
            return f"id {_show(identity)} was sent as {_show(other)}: an answer carries the id unchanged, type included"
        return f"no request has the id {_show(identity)}"

    def _result(self, message: Message, request: _Request) -> Iterator[Breach]:
        result = _mapping(message.value["result"])
        if request is self.initialize:
            self.capabilities = _mapping(result.get("capabilities"))
            version = result.get("protocolVersion")
            found = MCP_REVISIONS.get(version) if isinstance(version, str) else None
            if found is None or found.result_type:
                why = f"initialize was answered with the protocol version {_show(version)}, which no revision has"
                yield Breach("unknown-revision", "error", why)
            else:
                self.negotiated = found
        elif self._needs_initialize(request):
            why = f"{request.method} was carried out before initialize was answered"
            yield Breach("answer-before-initialize", "error", why)

    def _needs_initialize(self, request: _Request) -> bool:
        free = request.modern is not None or request.method in ("ping", "initialize", "")
        return self.capabilities is None and not free and self._legacy()

    def _legacy(self) -> bool:
        """Whether the life cycle with initialize applies."""
        if self._fixed is not None:
            return not self._fixed.result_type
        return self.initialize is not None or not self.modern

    def _call(self, message: Message, revision: Revision) -> Iterator[Breach]:
        params = _mapping(message.params)
        if self._legacy():
            yield from self._legacy_call(message)
        if message.method == "notifications/progress":
            yield from self._progressed(params)
        if revision.result_type and self.capabilities is None:
            yield from self._modern_call(message, params)

    def _legacy_call(self, message: Message) -> Iterator[Breach]:
        if message.kind == "request":
            if _key(message.id) in self._own_ids:
                why = f"the id {_show(message.id)} is used a second time for a request of the server's own"
                yield Breach("reused-id", "error", why)
            self._own_ids.add(_key(message.id))
        early = self.capabilities is None or (not self._initialized and message.method not in _REQUEST_BOUND)
        if self.modern and self.capabilities is None:
            early = False  # both eras at once: the modern one has no such rule
        if early and message.method not in _EARLY:
            why = f"{message.method} before notifications/initialized: only ping and notifications/message may come"
            yield Breach("before-initialized", "warning", why)
        unlogged = self.capabilities is not None and "logging" not in self.capabilities
        if message.method == "notifications/message" and unlogged:
            why = "a log message, and the capability logging was not declared"
            yield Breach("undeclared-logging", "warning", why)

    def _progressed(self, params: dict[str, object]) -> Iterator[Breach]:
        key = _key(cast("RequestId", params["progressToken"]))
        value = cast("float", params["progress"])
        request = self._tokens.get(key)
        if request is None:
            yield Breach("progress-unknown-token", "error", f"no request has the progress token {_show(key[1])}")
        elif request.answered >= request.sent and not request.outlives_answer:
            yield Breach("progress-after-end", "error", "progress goes on after the request was answered")
        elif key in self._progress and value <= self._progress[key]:
            why = f"progress went from {_show(self._progress[key])} to {_show(value)}"
            yield Breach("progress-not-increasing", "error", why)
        self._progress[key] = value

    def _modern_call(self, message: Message, params: dict[str, object]) -> Iterator[Breach]:
        if message.method == "notifications/message":
            if not any(request.wants_logs and not request.answered for request in self._requests.values()):
                yield Breach("unasked-log", "error", "no open request asked for logs (logLevel in its _meta)")
        elif message.method in _SUBSCRIBED:
            name = META + "subscriptionId"
            if not self._listens(_mapping(params.get("_meta")).get(name)):
                why = f"{message.method} outside a subscription: _meta[{name!r}] must be the id of subscriptions/listen"
                yield Breach("no-subscription", "error", why)
        elif message.method == "notifications/cancelled" and not self._listens(params.get("requestId")):
            yield Breach("cancelled-not-own", "error", "a server cancels nothing but a subscription")

    def _find(self, identity: object) -> _Request | None:
        """The request with this id, whatever the other side put in the place of an id."""
        if type(identity) is not int and type(identity) is not str:
            return None
        return self._requests.get(_key(identity))

    def _listens(self, identity: object) -> bool:
        request = self._find(identity)
        return request is not None and request.method == "subscriptions/listen"

    def close(self) -> Iterator[Breach]:
        """What is still owed now that the stream has ended."""
        for request in self._requests.values():
            if request.owed and request.answered < request.sent:
                why = f"the request {request.method} (id {_show(request.identity)}) was never answered"
                yield Breach("no-answer", "error", why)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
