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
from typing import Any, Literal

from stdout_guard import _actions, _replies
from stdout_guard._actions import AuthorizedAction, Decision, only_authorized
from stdout_guard._authorise import Authoriser, Call
from stdout_guard._inbound import LEGACY, Session
from stdout_guard._passage import Passage
from stdout_guard._refusals import Policy, Refusals
from stdout_guard._released import Released
from stdout_guard._replies import DENIED, Cancelled, Event, IdUnknown, Reply, SessionClosed
from stdout_guard._tools import Tool, register
from stdout_guard.compat import Allowance
from stdout_guard.framing import MAX_FRAME_TO_SERVER, Frame, Framing, FramingFault, frame_reader
from stdout_guard.jsonrpc import STRICT, Strictness
from stdout_guard.recorder import Counts, Execution, Refusal, Sinks, Tally

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
        self._closed: SessionClosed | None = None
        longest = strictness.max_frame or MAX_FRAME_TO_SERVER
        self._reader = frame_reader(framing, max_frame=longest, crlf=strictness.crlf, blank=strictness.blank)
        self._session = _session(tools, revision, answers or {}, server)
        self._session.schema_errors, self._session.options = schema_errors, strictness
        self._tally, self._sinks = Tally(), Sinks(audit, executions)
        self._released = Released(self._tally, framing, self._sinks, clock, self._session.answered)
        refusals = Refusals(policy, max_rejections, id_unknown, tuple(compat), self._sinks, clock)
        self._passage = Passage(self._session, authorise, self._tally, refusals, self._released, strictness, framing)

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
        return self._through(self._reader.feed, data if isinstance(data, bytes) else bytes(memoryview(data)))

    def eof(self) -> list[Event]:
        """The peer's stream has ended: an unfinished frame is refused, never repaired. Ends with `SessionClosed`."""
        out = self._through(self._reader.close)
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

    def _through(self, read: Callable[..., list[Frame | FramingFault]], *data: bytes) -> list[Event]:
        if self._closed is not None:
            return [self._closed]
        out: list[Event] = []
        take = self._passage.take
        try:
            for frame in read(*data):
                if (reason := take(frame, out)) is not None and self._closed is None:
                    self._close(reason, True, out)
                if self._closed is not None:  # a callable of the user's may have ended it too
                    break
        except BaseException:  # an interrupt inside a callable of the user's: what was read after it is lost
            self._closed = SessionClosed("interrupted", False)
            raise
        return out

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
