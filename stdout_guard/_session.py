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

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, cast

from stdout_guard._sent import Key, Request, Sent, key_of, mapping
from stdout_guard.framing import Framing
from stdout_guard.jsonrpc import Message, RequestId
from stdout_guard.revisions import MCP_REVISIONS, META, Revision

Severity: TypeAlias = Literal["error", "warning"]
_NUMBER = re.compile("-?[0-9]{1,19}")
_EARLY = ("ping", "notifications/message")
_OPENING = ("initialize", "ping", "notifications/cancelled")
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


class Session:
    """What was sent, and what has come back so far.

    ``revision``: the one that is judged by, None for auto. ``from_server=False``: it is the client that is judged.
    """

    def __init__(self, sent: bytes, framing: Framing, revision: Revision | None, *, from_server: bool = True) -> None:
        self.sent = Sent(sent, framing)
        self._from_server = from_server
        self._fixed = revision
        self._capabilities: dict[str, object] | None = None
        self._negotiated: Revision | None = None
        self._unowed = self.sent.unreadable + (0 if revision is not None and revision.batches else self.sent.batches)
        self._progress: dict[Key, float] = {}
        self._opened = False  # the judged client has asked to initialize
        self._own: dict[Key, str] = {}  # the methods of the judged side's own requests

    def request_of(self, message: Message) -> Request | None:
        """The request that an answer carries the id of."""
        return self.sent.find(message.id)

    @property
    def owes_nameless(self) -> bool:
        """Whether an answer without an id may still come: something unreadable was sent."""
        return self._unowed > 0

    def receive(self, message: Message, revision: Revision) -> Iterator[Breach]:
        """The rules that this message breaks, given all before it."""
        if message.kind in ("response", "error"):
            yield from self._answer(message, revision)
        elif revision.mcp:
            yield from self._call(message, revision) if self._from_server else self._client_call(message, revision)
            if message.kind == "request":
                self._own[key_of(message.id)] = message.method

    def _answer(self, message: Message, revision: Revision) -> Iterator[Breach]:
        if message.id is None:
            yield from self.answer_without_id()
            return
        request = self.request_of(message)
        if request is None:
            yield Breach("unknown-id", "error", self._unknown_id(message.id))
            return
        request.answered += 1
        self.sent.log_readers -= request.wants_logs and request.answered == 1
        if request.answered > request.sent:
            yield Breach("answered-twice", "error", f"id {_show(message.id)} has been answered before")
        elif revision.mcp and self._from_server and message.kind == "response":
            yield from self._result(message, request)

    def answer_without_id(self) -> Iterator[Breach]:
        """An answer to nothing that can be named: owed only for what could not be read."""
        if not self.owes_nameless:
            why = (
                "nothing is owed an answer without an id: no unreadable input was sent, notifications are not answered"
            )
            yield Breach("unowed-answer", "error", why)
        self._unowed -= 1

    def _unknown_id(self, identity: RequestId) -> str:
        other: RequestId = None
        if isinstance(identity, str) and _NUMBER.fullmatch(identity):
            other = int(identity)
        elif isinstance(identity, int) and abs(identity) < 1 << 64:
            other = str(identity)
        if other is not None and key_of(other) in self.sent.requests:
            return f"id {_show(identity)} was sent as {_show(other)}: an answer carries the id unchanged, type included"
        return f"no request has the id {_show(identity)}"

    def _result(self, message: Message, request: Request) -> Iterator[Breach]:
        result = mapping(message.value["result"])
        if request.method == "initialize":
            self._capabilities = mapping(result.get("capabilities"))
            version = result.get("protocolVersion")
            found = MCP_REVISIONS.get(version) if isinstance(version, str) else None
            if found is None or found.result_type:
                why = f"initialize was answered with the protocol version {_show(version)}, which no revision has"
                yield Breach("unknown-revision", "error", why)
            else:
                self._negotiated = found
        elif self._needs_initialize(request):
            why = f"{request.method} was carried out before initialize was answered"
            yield Breach("answer-before-initialize", "error", why)

    def _needs_initialize(self, request: Request) -> bool:
        free = request.modern is not None or request.method in ("ping", "initialize", "")
        return self._capabilities is None and not free and self._legacy()

    def _legacy(self) -> bool:
        """Whether the life cycle with initialize applies."""
        if self._fixed is not None:
            return not self._fixed.result_type
        return self.sent.initializes or not self.sent.modern

    def _call(self, message: Message, revision: Revision) -> Iterator[Breach]:
        params = mapping(message.params)
        if self._legacy():
            yield from self._legacy_call(message)
        if message.method == "notifications/progress":
            yield from self._progressed(params)
        if revision.result_type and self._capabilities is None:
            yield from self._modern_call(message, params)

    def _legacy_call(self, message: Message) -> Iterator[Breach]:
        yield from self._reused(message)
        early = self._capabilities is None or (not self.sent.initialized and message.method not in _REQUEST_BOUND)
        if self.sent.modern and self._capabilities is None:
            early = False  # both eras at once: the modern one has no such rule
        if early and message.method not in _EARLY:
            why = f"{message.method} before notifications/initialized: only ping and notifications/message may come"
            yield Breach("before-initialized", "warning", why)
        unlogged = self._capabilities is not None and "logging" not in self._capabilities
        if message.method == "notifications/message" and unlogged:
            why = "a log message, and the capability logging was not declared"
            yield Breach("undeclared-logging", "warning", why)
        yield from self._cancelled(message)

    def _client_call(self, message: Message, revision: Revision) -> Iterator[Breach]:
        if not revision.result_type:
            yield from self._reused(message)
            self._opened = self._opened or message.method == "initialize"
            if not self._opened and message.method not in _OPENING:
                why = f"{message.method} before initialize: only ping may come"
                yield Breach("before-initialize", "error", why)
        yield from self._cancelled(message)

    def _reused(self, message: Message) -> Iterator[Breach]:
        if message.kind == "request" and key_of(message.id) in self._own:
            why = f"the id {_show(message.id)} is used a second time for a request in the same direction"
            yield Breach("reused-id", "error", why)

    def _cancelled(self, message: Message) -> Iterator[Breach]:
        if message.method != "notifications/cancelled":
            return
        identity = mapping(message.params).get("requestId")
        method = self._own.get(key_of(cast("RequestId", identity)))
        if method == "initialize":
            yield Breach("cancelled-initialize", "error", "initialize must not be cancelled")
        elif method is None and identity is not None:
            why = f"no request in the same direction has the id {_show(identity)}"
            yield Breach("cancelled-not-own", "error", why)

    def _progressed(self, params: dict[str, object]) -> Iterator[Breach]:
        key = key_of(cast("RequestId", params["progressToken"]))
        value = cast("float", params["progress"])
        request = self.sent.tokens.get(key)
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
            if self.sent.log_readers <= 0:
                yield Breach("unasked-log", "error", "no open request asked for logs (logLevel in its _meta)")
        elif message.method in _SUBSCRIBED:
            name = META + "subscriptionId"
            if not self._listens(mapping(params.get("_meta")).get(name)):
                why = f"{message.method} outside a subscription: _meta[{name!r}] must be the id of subscriptions/listen"
                yield Breach("no-subscription", "error", why)
        elif message.method == "notifications/cancelled" and not self._listens(params.get("requestId")):
            yield Breach("cancelled-not-own", "error", "a server cancels nothing but a subscription")

    def _listens(self, identity: object) -> bool:
        request = self.sent.find(identity)
        return request is not None and request.method == "subscriptions/listen"

    def close(self) -> Iterator[Breach]:
        """What is still owed now that the stream has ended."""
        revision = self._fixed or self._negotiated
        batches = self.sent.plain or (revision is not None and revision.batches)
        for request in self.sent.requests.values():
            owed = request.owed and (batches or not request.batched)
            if owed and request.answered < request.sent:
                why = f"the request {request.method} (id {_show(request.identity)}) was never answered"
                yield Breach("no-answer", "error", why)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
