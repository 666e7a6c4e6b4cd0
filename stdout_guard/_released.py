"""Actions between release and answer: who is owed what, at most once each, and the log of executions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stdout_guard import _actions, _replies
from stdout_guard._actions import AuthorizedAction, Decision
from stdout_guard._outcomes import Wanted
from stdout_guard._replies import Cancelled
from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import Frame, Framing
from stdout_guard.recorder import Execution, Sinks, Tally, fingerprint


@dataclass(slots=True)
class Batch:
    """The answers to one batch, in its order: sent when all of it is settled."""

    parts: list[dict[str, Any] | None]
    waiting: int = 0

    def answer(self) -> list[Any] | None:
        """What to send when nothing is waiting any more; None when nothing is owed, or not yet."""
        owed = [part for part in self.parts if part is not None]
        return None if self.waiting or not owed else owed


class _Pending:
    """One action that is out. ``batch`` is what its answer waits with, in place ``slot``; None: it goes by itself."""

    __slots__ = ("action", "batch", "cancelled", "mark", "slot")

    def __init__(self, action: AuthorizedAction, mark: str, batch: Batch | None, slot: int) -> None:
        self.action = action
        self.mark = mark
        self.batch = batch
        self.slot = slot
        self.cancelled = False


class Released:
    """Every action that is out, by the id of its request: one id is in flight once."""

    def __init__(
        self,
        tally: Tally,
        framing: Framing,
        sinks: Sinks,
        clock: Callable[[], float],
        forget: Callable[[int | str], None],
    ) -> None:
        self._tally = tally
        self._framing: Framing = framing
        self._sinks = sinks
        self._clock = clock
        self._forget = forget
        self._serial = 0
        self._pending: dict[int | str, _Pending] = {}

    def release(
        self, wanted: Wanted, decision: Decision, frame: Frame, batch: Batch | None = None, slot: int = 0
    ) -> AuthorizedAction:
        """Make the action of an authorised call."""
        request_id, tool, arguments, revision, client, _phase = wanted
        self._serial += 1
        action = _actions.issue(tool.name, arguments, decision, request_id, revision, client, self._serial)
        mark = fingerprint(frame.raw) if self._sinks.hear_executions else ""
        self._pending[request_id] = _Pending(action, mark, batch, slot)
        if batch is not None:
            batch.waiting += 1
        self._tally.receive("pending")
        return action

    def complete(self, action: AuthorizedAction, result: object) -> bytes:
        """Answer with the executor's result; see `Boundary.complete`."""
        pending = self._own(action)
        message = _replies.result(action.request_id, _replies.tool_result(result), action.revision)
        reply = _replies.pack(message, self._framing)
        return self._settle(pending, message, reply, "executed", len(reply))

    def fail(self, action: AuthorizedAction, error: BaseException | None) -> bytes:
        """Answer that it failed; see `Boundary.fail`."""
        pending = self._own(action)
        message = _replies.error(-32603, action.request_id)
        kind = None if error is None else type(error).__name__
        return self._settle(pending, message, _replies.pack(message, self._framing), "failed", error=kind)

    def cancel(self, request_id: int | str) -> tuple[Cancelled | None, bytes]:
        """The client takes a call back: its answer is dropped, and if it has not started it never will.

        Returns the event for the loop, and the rest of its batch when that was all it waited for.
        """
        pending = self._pending.get(request_id)
        if pending is None or pending.cancelled:
            return None, b""
        pending.cancelled = True
        started = not _actions.revoke(pending.action)
        rest = b"" if started else self._settle(pending, None, b"", "cancelled")
        return Cancelled(pending.action, started), rest

    def _own(self, action: object) -> _Pending:
        if type(action) is not AuthorizedAction:
            raise TypeError(
                f"boundary: takes back the AuthorizedAction that feed gave out, not {type(action).__name__}"
            )
        known: Any = getattr(action, "request_id", None)  # one made by hand may have none
        pending = self._pending.get(known)
        if pending is None or pending.action is not action:
            raise LocalProtocolError(
                f"boundary: action {getattr(action, 'name', None)!r} is not pending here: it is answered or cancelled "
                "already, or another boundary released it; nothing was written"
            )
        return pending

    def _settle(
        self,
        pending: _Pending,
        message: dict[str, Any] | None,
        reply: bytes,
        outcome: str,
        size: int = 0,
        error: str | None = None,
    ) -> bytes:
        """The action is over: ``message``, and ``reply``, its bytes, unless it was cancelled meanwhile."""
        action, batch = pending.action, pending.batch
        _actions.revoke(action)  # answered: whoever still holds it can no longer execute it
        del self._pending[action.request_id]
        self._forget(action.request_id)
        self._tally.settle(outcome)
        if self._sinks.hear_executions:
            done = Execution(self._clock(), action.name, action.serial, pending.mark, outcome, size, error)
            self._sinks.ended(done)
        if batch is None:
            return b"" if pending.cancelled else reply
        batch.waiting -= 1
        batch.parts[pending.slot] = None if pending.cancelled else message
        answer = batch.answer()
        return b"" if answer is None else _replies.pack(answer, self._framing)
