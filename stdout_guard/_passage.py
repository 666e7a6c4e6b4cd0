"""One frame through the stages: judged whole, then all of it counts or none of it does.

Order of one frame: JSON, shape, session, method and schema for every message in it; then authorisation, of every call,
before anything is released. So nothing of a batch happens when one member is refused or denied, and no permission is
consumed for a frame that does not pass.
"""

from __future__ import annotations

from typing import Any, Final, cast

from stdout_guard import _replies
from stdout_guard._actions import Decision
from stdout_guard._authorise import Authoriser, decide
from stdout_guard._inbound import BATCHES, Session
from stdout_guard._outcomes import Answered, Ignored, Outcome, Refused, Wanted, is_array
from stdout_guard._refusals import Refusals
from stdout_guard._released import Batch, Released
from stdout_guard._replies import Event, Reply
from stdout_guard._shapes import answer_shaped, misshapen, together
from stdout_guard.framing import Frame, Framing, FramingFault
from stdout_guard.jsonrpc import Decoder, Fault, Strictness, classify
from stdout_guard.recorder import Tally

MAX_BATCH: Final = 100


class Passage:
    """The way of every frame of one session, from its bytes to events."""

    def __init__(
        self,
        session: Session,
        authorise: Authoriser,
        tally: Tally,
        refusals: Refusals,
        released: Released,
        strictness: Strictness,
        framing: Framing,
    ) -> None:
        self._session = session
        self._authorise = authorise
        self._tally = tally
        self._refusals = refusals
        self._released = released
        self._options = strictness
        self._framing: Framing = framing
        self._scan = Decoder(strictness, framing).scan

    def take(self, event: Frame | FramingFault, out: list[Event]) -> str | None:
        """Judge one frame and put what follows into ``out``; returns why the session ends, if it does."""
        try:
            if type(event) is Frame:
                return self._frame(event, out)
        except Exception:  # a validator's or our own fault must not become the peer's way through
            fault = FramingFault("internal-error", "limits", "", event.raw, event.line, event.offset, True)
            return self._refuse(Refused(fault.stage, fault.code), fault, out)
        lost = cast("FramingFault", event)
        return self._refuse(Refused(lost.stage, lost.code), lost, out)

    def _frame(self, frame: Frame, out: list[Event]) -> str | None:
        found = self._scan(frame.body)
        if type(found) is Fault:
            return self._refuse(Refused(found.stage, found.code), frame, out)
        value, decision = found[0], None
        outcome = self._session.ordinary(value)
        if outcome is None:
            if is_array(value):
                return self._batch(value, frame, out)
            outcome = self._judge(value)
        if type(outcome) is Wanted:
            decision = decide(self._authorise, outcome)
            if decision.allowed:
                self._session.accept(outcome)
                out.append(self._released.release(outcome, decision, frame))
                return None
        elif isinstance(outcome, Refused):
            return self._refuse(outcome, frame, out)
        self._session.accept(outcome)
        if (message := self._settled(outcome, decision, frame, out)) is not None:
            self._reply(message, out)
        return None

    def _judge(self, value: object) -> Outcome:
        found = classify(value, self._options, self._session.envelope)
        return misshapen(value, found) if isinstance(found, Fault) else self._session.judge(found)

    # ------------------------------------------------------------------------------------------------------- batches

    def _batch(self, values: list[object], frame: Frame, out: list[Event]) -> str | None:
        if self._session.revision != BATCHES or not values:
            silent = bool(values) and all(answer_shaped(value) for value in values)
            reason = "batch-not-allowed" if values else "empty-batch"
            return self._refuse(Refused("jsonrpc", reason, silent=silent), frame, out)
        if len(values) > MAX_BATCH:
            return self._refuse(Refused("limits", "batch-too-long"), frame, out)
        outcomes = together([self._judge(value) for value in values])
        refused = next((outcome for outcome in outcomes if isinstance(outcome, Refused)), None)
        if refused is not None:
            silent = all(isinstance(one, Ignored) or (isinstance(one, Refused) and one.silent) for one in outcomes)
            return self._refuse(refused._replace(silent=silent), frame, out)
        self._accept(outcomes, frame, out)
        return None

    def _accept(self, outcomes: list[Outcome], frame: Frame, out: list[Event]) -> None:
        """A batch of which nothing was refused: one denial denies all its calls."""
        decisions = [decide(self._authorise, one) if isinstance(one, Wanted) else None for one in outcomes]
        denied = next((decision for decision in decisions if decision is not None and not decision.allowed), None)
        batch = Batch([None] * len(outcomes))
        for slot, (outcome, decision) in enumerate(zip(outcomes, decisions, strict=True)):
            assert not isinstance(outcome, Refused)
            self._session.accept(outcome)
            if isinstance(outcome, Wanted) and decision is not None and denied is None:
                out.append(self._released.release(outcome, decision, frame, batch, slot))
            else:
                mine = decision if decision is None or not decision.allowed else denied
                batch.parts[slot] = self._settled(outcome, mine, frame, out)
        if (answer := batch.answer()) is not None:
            self._reply(answer, out)

    # ---------------------------------------------------------------------------------------------------- what follows

    def _settled(
        self, outcome: Answered | Ignored | Wanted, decision: Decision | None, frame: Frame, out: list[Event]
    ) -> dict[str, Any] | None:
        """What is over at once: an answer of ours, a notification, or a call that is denied; returns the reply."""
        if isinstance(outcome, Answered):
            self._tally.receive("answered")
            return _replies.result(outcome.request_id, outcome.result, self._session.revision)
        if isinstance(outcome, Wanted):
            self._tally.receive("denied")
            self._session.answered(outcome.request_id)
            return self._refusals.deny(outcome, "" if decision is None else decision.reason, frame)
        self._tally.receive("ignored")
        if outcome.cancels is not None:
            cancelled, rest = self._released.cancel(outcome.cancels)
            out.extend([cancelled] if cancelled else [])
            out.extend([Reply(rest)] if rest else [])
        return None

    def _refuse(self, refused: Refused, frame: Frame | FramingFault, out: list[Event]) -> str | None:
        self._tally.reject(refused.stage)
        reply, closes = self._refusals.refuse(refused, frame, self._session.revision, self._session.client)
        if reply is not None:
            self._reply(reply, out)
        return f"refused at stage {refused.stage}: {refused.reason}" if closes else None

    def _reply(self, message: dict[str, Any] | list[Any], out: list[Event]) -> None:
        out.append(Reply(_replies.pack(message, self._framing)))
