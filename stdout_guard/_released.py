"""Actions between release and answer: who is owed what, at most once each, and the log of executions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stdout_guard import _actions, _replies
from stdout_guard._actions import AuthorizedAction, Decision
from stdout_guard._outcomes import Wanted
from stdout_guard._replies import Cancelled
from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import Framing
from stdout_guard.recorder import Execution, Tally


@dataclass(slots=True)
class Exchange:
    """The answers to one frame, in its order: one message, or a batch that is answered when all of it is settled."""

    is_batch: bool
    parts: list[dict[str, Any] | None]
    waiting: int = 0

    def answer(self) -> dict[str, Any] | list[Any] | None:
        """What to send when nothing is waiting any more; None when nothing is owed, or not yet."""
        owed = [part for part in self.parts if part is not None]
        if self.waiting or not owed:
            return None
        return owed if self.is_batch else owed[0]


@dataclass(slots=True)
class _Pending:
    action: AuthorizedAction
    fingerprint: str
    exchange: Exchange
    slot: int
    cancelled: bool = field(default=False)


class Released:
    """Every action that is out: by itself for the executor's answer, by request id for the client's cancellation."""

    def __init__(
        self,
        tally: Tally,
        framing: Framing,
        log: Callable[[Execution], None],
        clock: Callable[[], float],
        forget: Callable[[int | str], None],
    ) -> None:
        self._tally = tally
        self._framing: Framing = framing
        self._log = log
        self._clock = clock
        self._forget = forget
        self._serial = 0
        self._pending: dict[AuthorizedAction, _Pending] = {}

    def release(self, wanted: Wanted, decision: Decision, mark: str, exchange: Exchange, slot: int) -> AuthorizedAction:
        """Make the action of an authorised call."""
        self._serial += 1
        action = _actions.issue(
            name=wanted.tool.name,
            arguments=wanted.arguments,
            decision=decision,
            request_id=wanted.request_id,
            revision=wanted.revision,
            client=wanted.client,
            serial=self._serial,
        )
        self._pending[action] = _Pending(action, mark, exchange, slot)
        exchange.waiting += 1
        self._tally.receive("pending")
        return action

    def complete(self, action: AuthorizedAction, result: object) -> bytes:
        """Answer with the executor's result; see `Boundary.complete`."""
        pending = self._own(action)
        message = _replies.result(action.request_id, _replies.tool_result(result), action.revision)
        size = len(_replies.pack(message, self._framing))
        return self._settle(pending, message, "executed", size, None)

    def fail(self, action: AuthorizedAction, error: BaseException | None) -> bytes:
        """Answer that it failed; see `Boundary.fail`."""
        pending = self._own(action)
        message = _replies.error(-32603, action.request_id)
        return self._settle(pending, message, "failed", 0, None if error is None else type(error).__name__)

    def cancel(self, request_id: int | str) -> tuple[Cancelled | None, bytes]:
        """The client takes a call back: its answer is dropped, and if it has not started it never will.

        Returns the event for the loop, and the rest of its batch when that was all it waited for.
        """
        for pending in self._pending.values():
            if pending.action.request_id == request_id and not pending.cancelled:
                pending.cancelled = True
                started = not _actions.revoke(pending.action)
                rest = b"" if started else self._settle(pending, None, "cancelled", 0, None)
                return Cancelled(pending.action, started), rest
        return None, b""

    def _own(self, action: object) -> _Pending:
        if type(action) is not AuthorizedAction:
            raise TypeError(
                f"boundary: takes back the AuthorizedAction that feed gave out, not {type(action).__name__}"
            )
        pending = self._pending.get(action)
        if pending is None:
            raise LocalProtocolError(
                f"boundary: action {action.name!r} is not pending here: it is answered or cancelled already, or "
                "another boundary released it; nothing was written"
            )
        return pending

    def _settle(
        self, pending: _Pending, message: dict[str, Any] | None, outcome: str, size: int, error: str | None
    ) -> bytes:
        action, exchange = pending.action, pending.exchange
        _actions.revoke(action)  # answered: whoever still holds it can no longer execute it
        del self._pending[action]
        self._forget(action.request_id)
        self._tally.settle(outcome)
        exchange.waiting -= 1
        exchange.parts[pending.slot] = None if pending.cancelled else message
        self._log(Execution(self._clock(), action.name, action.serial, pending.fingerprint, outcome, size, error))
        answer = exchange.answer()
        return b"" if answer is None else _replies.pack(answer, self._framing)
