"""The inbound boundary: bytes in, replies and authorised actions out. No I/O, no exception for anything a peer sends.

The stages, strictly in this order: frame > UTF-8 > JSON > limits > JSON-RPC > session > method > tool schema >
authorisation > `AuthorizedAction`. Early parsing is not permission: nothing about the outside world exists before the
last of them, and a refused frame leaves no state behind.
Policies: ``close`` ends the session at the first refusal; ``keep-open`` answers and goes on until its budget is used
up. A lost byte stream closes under both, a denial under neither.

Sources: JSON-RPC 2.0; MCP basic and basic/transports, 2024-11-05 to 2026-07-28.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from stdout_guard import _actions, _replies
from stdout_guard._actions import AuthorizedAction, Decision, only_authorized
from stdout_guard._authorise import Authoriser, Call, decide
from stdout_guard._inbound import BATCHES, LEGACY, Session
from stdout_guard._outcomes import Answered, Ignored, Outcome, Refused, Wanted, is_array
from stdout_guard._refusals import Policy, Refusals
from stdout_guard._released import Exchange, Released
from stdout_guard._replies import DENIED, Cancelled, Event, IdUnknown, Reply, SessionClosed
from stdout_guard._shapes import answer_shaped, misshapen, together
from stdout_guard._tools import Tool, register
from stdout_guard.compat import Allowance
from stdout_guard.framing import MAX_FRAME_TO_SERVER, Frame, Framing, FramingFault, frame_reader
from stdout_guard.jsonrpc import STRICT, Decoder, Envelope, Fault, Strictness, classify
from stdout_guard.recorder import Counts, Execution, Refusal, Sinks, Tally, fingerprint

__all__ = [
    "DENIED",
    "AuthorizedAction",
    "Boundary",
    "Call",
    "Cancelled",
    "Decision",
    "Event",
    "Reply",
    "SessionClosed",
    "Tool",
    "only_authorized",
]

MAX_BATCH: Final = 100


class Boundary:
    """One session. For one thread at a time; everything it needs from outside is given here.

    ``authorise`` sees a frozen `Call` and answers True or a `Decision`; anything else, and any exception, denies.
    ``revision`` "auto" lets the client choose by how it opens, else the one revision this server speaks.
    ``audit`` takes a `Refusal` for whatever did not reach the executor, ``executions`` an `Execution` for whatever
    did. ``answers`` are constant results for further methods (resources/list and the like): data, never code.
    ``schema_errors`` "isError" reports bad arguments as a tool result from 2025-11-25 (MCP SEP-1303), session open.
    Raises ValueError for a setting that makes no sense, a tool registered twice or an invalid schema.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        authorise: Authoriser,
        *,
        framing: Framing = "ndjson",
        revision: str = "auto",
        policy: Policy = "close",
        max_rejections: int = 100,
        strictness: Strictness = STRICT,
        id_unknown: IdUnknown = "auto",
        schema_errors: Literal["error", "isError"] = "error",
        audit: Callable[[Refusal], object] | None = None,
        executions: Callable[[Execution], object] | None = None,
        compat: Iterable[Allowance] = (),
        answers: Mapping[str, Mapping[str, Any]] | None = None,
        server: tuple[str, str] = ("stdout-guard-boundary", "1"),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if policy not in ("close", "keep-open") or max_rejections < 1:
            raise ValueError(
                f"boundary: policy {policy!r} with {max_rejections} rejections: close or keep-open, from 1"
            )
        if revision not in ("auto", *LEGACY, _replies.MODERN):
            raise ValueError(f"boundary: unknown revision {revision!r}; auto, {', '.join((*LEGACY, _replies.MODERN))}")
        if not callable(authorise):
            raise ValueError("boundary: authorise must be a callable; there is no default that allows")
        self._framing: Framing = framing
        self._options = strictness
        self._authorise = authorise
        self._sinks = Sinks(audit, executions)
        self._closed: SessionClosed | None = None
        longest = strictness.max_frame or MAX_FRAME_TO_SERVER
        self._reader = frame_reader(framing, max_frame=longest, crlf=strictness.crlf, blank=strictness.blank)
        self._decoder = Decoder(strictness, framing)
        self._session = _session(tools, revision, answers or {}, server)
        self._session.schema_errors, self._session.options = schema_errors, strictness
        self._tally = Tally()
        self._refusals = Refusals(policy, max_rejections, id_unknown, tuple(compat), self._sinks.refused, clock)
        self._released = Released(self._tally, framing, self._sinks.ended, clock, self._session.answered)

    @property
    def counts(self) -> Counts:
        """The counters now; ``counts.balanced`` holds at every moment."""
        return self._tally.snapshot()

    @property
    def closed(self) -> SessionClosed | None:
        """How the session ended, None while it is open."""
        return self._closed

    @property
    def sink_errors(self) -> int:
        """How often a sink raised; the record was lost, the verdict was not changed."""
        return self._sinks.errors

    @property
    def revision(self) -> str | None:
        """The negotiated (or pinned) protocol revision, None before the client has opened."""
        return self._session.revision

    # ------------------------------------------------------------------------------------------------------- bytes in

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take bytes as they arrive; returns replies and actions in the order they are due.

        After the session has closed: one `SessionClosed`, whatever comes. Raises TypeError for text.
        """
        if self._closed is not None:
            return [self._closed]
        out: list[Event] = []
        for event in self._reader.feed(data if isinstance(data, bytes) else bytes(memoryview(data))):
            self._take(event, out)
            if self._closed is not None:
                break
        return out

    def eof(self) -> list[Event]:
        """The peer's stream has ended: an unfinished frame is refused, never repaired. Ends with `SessionClosed`."""
        if self._closed is not None:
            return [self._closed]
        out: list[Event] = []
        for event in self._reader.close():
            self._take(event, out)
        if self._closed is None:
            self._close("end of input", False, out)
        return out

    def complete(self, action: AuthorizedAction, result: object) -> bytes:
        """The executor's result (text, or a mapping with ``content``) as the bytes to write; empty when none are due.

        Raises TypeError for what is not an action, LocalProtocolError for an action that is already answered, and for
        a result no client could read: then the action is still pending and `fail` must follow.
        """
        return self._released.complete(action, result)

    def fail(self, action: AuthorizedAction, error: BaseException | None = None) -> bytes:
        """The executor raised: the bytes to write. The error's text stays here; the sink gets its type's name."""
        return self._released.fail(action, error)

    # ------------------------------------------------------------------------------------------------- one frame, whole

    def _take(self, event: Frame | FramingFault, out: list[Event]) -> None:
        if isinstance(event, FramingFault):
            self._refuse(Refused(event.stage, event.code), event.raw, out, lost=event.fatal)
            return
        try:
            self._frame(event, out)
        except Exception:  # a validator's or our own fault must not become the peer's way through
            self._refuse(Refused("limits", "internal-error"), event.raw, out, lost=True)

    def _frame(self, frame: Frame, out: list[Event]) -> None:
        decoded = self._decoder.decode(frame.body)
        if isinstance(decoded, Fault):
            self._refuse(Refused(decoded.stage, decoded.code), frame.raw, out)
        elif is_array(value := decoded.value):
            self._take_batch(value, frame.raw, out)
        else:
            self._take_all([self._judge(value)], Exchange(False, [None]), frame.raw, out)

    def _take_batch(self, values: list[object], raw: bytes, out: list[Event]) -> None:
        """All or nothing: one member that is refused, and nothing of the batch happens."""
        if self._session.revision != BATCHES or not values:
            silent = bool(values) and all(answer_shaped(value) for value in values)
            reason = "batch-not-allowed" if values else "empty-batch"
            self._refuse(Refused("jsonrpc", reason, silent=silent), raw, out)
        elif len(values) > MAX_BATCH:
            self._refuse(Refused("limits", "batch-too-long"), raw, out)
        else:
            outcomes = [self._judge(value) for value in values]
            self._take_all(together(outcomes), Exchange(True, [None] * len(values)), raw, out)

    def _judge(self, value: object) -> Outcome:
        later = (self._session.revision or "") >= "2025-11-25"
        found = classify(value, self._options, Envelope(error_id_optional=later))
        return misshapen(value, found) if isinstance(found, Fault) else self._session.judge(found)

    def _take_all(self, outcomes: list[Outcome], exchange: Exchange, raw: bytes, out: list[Event]) -> None:
        """Everything of one frame passed every stage but the last, or none of it counts."""
        refused = next((outcome for outcome in outcomes if isinstance(outcome, Refused)), None)
        if refused is not None:
            silent = all(isinstance(one, Ignored) or (isinstance(one, Refused) and one.silent) for one in outcomes)
            self._refuse(replace(refused, silent=silent), raw, out)
            return
        calls = {slot: one for slot, one in enumerate(outcomes) if isinstance(one, Wanted)}
        decisions = {slot: decide(self._authorise, call) for slot, call in calls.items()}
        denied = next((decision for decision in decisions.values() if not decision.allowed), None)
        mark = fingerprint(raw) if calls else ""
        for slot, outcome in enumerate(outcomes):
            assert not isinstance(outcome, Refused)
            self._session.accept(outcome)
            if isinstance(outcome, Ignored):
                self._ignore(outcome, out)
            elif isinstance(outcome, Answered):
                self._tally.receive("answered")
                exchange.parts[slot] = _replies.result(outcome.request_id, outcome.result, self._session.revision)
            elif denied is not None:
                decision = decisions[slot] if not decisions[slot].allowed else denied
                exchange.parts[slot] = self._deny(outcome, decision, raw)
            else:
                out.append(self._released.release(outcome, decisions[slot], mark, exchange, slot))
        if (answer := exchange.answer()) is not None:
            self._reply(answer, out)

    # ---------------------------------------------------------------------------------------------------- what follows

    def _deny(self, wanted: Wanted, decision: Decision, raw: bytes) -> dict[str, Any]:
        self._tally.receive("denied")
        self._session.answered(wanted.request_id)
        return self._refusals.deny(wanted, decision.reason, raw)

    def _ignore(self, ignored: Ignored, out: list[Event]) -> None:
        self._tally.receive("ignored")
        if ignored.cancels is not None:
            cancelled, rest = self._released.cancel(ignored.cancels)
            out.extend([cancelled] if cancelled else [])
            out.extend([Reply(rest)] if rest else [])

    def _refuse(self, refused: Refused, raw: bytes, out: list[Event], *, lost: bool = False) -> None:
        self._tally.reject(refused.stage)
        revision, client = refused.revision or self._session.revision, self._session.client
        reply, closes = self._refusals.refuse(refused, raw, lost=lost, revision=revision, client=client)
        if reply is not None:
            self._reply(reply, out)
        if closes:
            self._close(f"refused at stage {refused.stage}: {refused.reason}", True, out)

    def _reply(self, message: dict[str, Any] | list[Any], out: list[Event]) -> None:
        out.append(Reply(_replies.pack(message, self._framing)))

    def _close(self, reason: str, refused: bool, out: list[Event]) -> None:
        self._closed = SessionClosed(reason, refused)
        out.append(self._closed)


def _session(
    tools: Iterable[Tool],
    revision: str,
    answers: Mapping[str, Mapping[str, Any]],
    server: tuple[str, str],
) -> Session:
    identity = {"name": server[0], "version": server[1]}
    extra = {method: _actions.thaw(value) for method, value in answers.items()}
    _replies.pack(_replies.result(0, {"answers": extra, "server": identity}, None), "ndjson")
    return Session(register(tools), identity, extra, None if revision == "auto" else revision)
