"""What a refusal leads to: the bounded reply, the audit record, and whether the session goes on."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from stdout_guard import _replies
from stdout_guard._outcomes import EXPLAINED, Refused, Wanted, id_type
from stdout_guard._replies import DENIED, IdUnknown
from stdout_guard.compat import Allowance, covering
from stdout_guard.framing import Frame, FramingFault
from stdout_guard.recorder import Refusal, Sinks, fingerprint

Policy = Literal["close", "keep-open"]
MAX_ECHOED_ID = 1024  # characters: a refusal stays small whatever was refused
_NOTE_LIMIT = 200
_EXPLANATION = "the arguments do not match the tool's input schema"


@dataclass(slots=True)
class Refusals:
    """Policy, budget and compatibility rows of one session, and the sink of its audit."""

    policy: Policy
    budget: int
    id_unknown: IdUnknown
    compat: tuple[Allowance, ...]
    sinks: Sinks
    clock: Callable[[], float]

    def refuse(
        self, refused: Refused, frame: Frame | FramingFault, revision: str | None, client: tuple[str, str] | None
    ) -> tuple[dict[str, Any] | None, bool]:
        """Record one refusal; returns the reply owed, if any, and whether the session ends.

        After a fatal fault nobody knows where the next frame starts, so no policy keeps the session open.
        """
        now = self.clock()
        allowance: Allowance | None = None
        closes = lost = isinstance(frame, FramingFault) and frame.fatal
        if not refused.gentle and not lost:
            self.budget -= 1
            if self.compat:
                today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
                allowance = covering(self.compat, refused.reason, client, today)
            closes = self.budget < 1 or (self.policy == "close" and allowance is None)
        if self.sinks.hear_refusals:
            raw = frame.raw
            self.sinks.refused(
                Refusal(
                    time=now,
                    stage=refused.stage,
                    reason=refused.reason,
                    fingerprint=fingerprint(raw),
                    size=len(raw),
                    id_type=refused.id_type,
                    tool=refused.tool,
                    closed=closes,
                    compat=None if allowance is None else allowance.ref,
                )
            )
        return self._reply(refused, refused.revision or revision), closes

    def _reply(self, refused: Refused, revision: str | None) -> dict[str, Any] | None:
        if refused.silent:
            return None
        code = _replies.code_for(refused.stage, refused.reason)
        if refused.request_id is None or len(str(refused.request_id)) > MAX_ECHOED_ID:
            return _replies.error_without_id(code, revision, self.id_unknown)
        if refused.data == EXPLAINED:
            explained = {"content": [{"type": "text", "text": _EXPLANATION}], "isError": True}
            return _replies.result(refused.request_id, explained, revision)
        return _replies.error(code, refused.request_id, data=refused.data)

    def deny(self, wanted: Wanted, note: str, frame: Frame) -> dict[str, Any]:
        """Record one denial; returns its reply. The session stays open: the frame was in order."""
        if self.sinks.hear_refusals:
            raw = frame.raw
            self.sinks.refused(
                Refusal(
                    time=self.clock(),
                    stage="authorisation",
                    reason="denied",
                    fingerprint=fingerprint(raw),
                    size=len(raw),
                    id_type=id_type(wanted.request_id),
                    tool=wanted.tool.name,
                    note=note[:_NOTE_LIMIT],
                )
            )
        return _replies.error(DENIED, wanted.request_id)
