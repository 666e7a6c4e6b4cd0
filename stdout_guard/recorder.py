"""What came in and what became of it: received, rejected, denied, executed and failed, each counted apart.

Rules: one shared success counter cannot tell a clean refusal from a failure after the start, so there is none.
At every moment (`Counts.balanced`):
received = rejected + denied + answered + ignored + executed + failed + cancelled + pending.
A record for a sink is data only: no arguments, no text of the peer, nothing that could act. A refusal carries a keyed
fingerprint with a random key of this process: a plain hash of a short frame that holds a secret can be guessed.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stdout_guard._actions import AuthorizedAction, claim, thaw

STAGES = (
    "framing",
    "encoding",
    "json",
    "limits",
    "jsonrpc",
    "session",
    "method",
    "schema",
    "authorisation",
)
_FATES = ("denied", "answered", "ignored", "executed", "failed", "cancelled", "pending")
_KEY = os.urandom(32)


def fingerprint(raw: bytes) -> str:
    """32 hex digits of HMAC-SHA-256 over the raw frame: equal frames match within one process, and nowhere else."""
    return hmac.digest(_KEY, raw, "sha256").hex()[:32]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One message that never reached the executor. ``reason`` is a stable code of ours, never the peer's words.

    ``time`` in seconds since the epoch, ``size`` in bytes as received, ``tool`` only if it is registered,
    ``id_type`` one of integer, string, none, ``closed`` whether this refusal ended the session,
    ``compat`` the compatibility rule that kept the session open, ``note`` the authoriser's own words for a denial.
    """

    time: float
    stage: str
    reason: str
    fingerprint: str
    size: int
    id_type: str
    tool: str | None = None
    closed: bool = False
    compat: str | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a log line."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Execution:
    """One action that was started and ended: the log of external operations, apart from refused attempts.

    ``outcome`` is executed, failed or cancelled; ``error`` the type name of what was raised, never its text.
    """

    time: float
    tool: str
    serial: int
    fingerprint: str
    outcome: str
    size: int = 0
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a log line."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Counts:
    """A snapshot of the counters. Messages are counted; a refused frame, batch or unfinished tail counts once.

    answered: requests that need no executor (ping, initialize, tools/list); ignored: notifications;
    cancelled: released, and taken back by the client; pending: released to the executor, not yet completed.
    """

    received: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict[str, int])
    denied: int = 0
    answered: int = 0
    ignored: int = 0
    executed: int = 0
    failed: int = 0
    cancelled: int = 0
    pending: int = 0

    @property
    def refused(self) -> int:
        """All rejections, whatever their stage; denials are counted apart."""
        return sum(self.rejected.values())

    @property
    def balanced(self) -> bool:
        """True when every received message has exactly one fate."""
        fates = self.denied + self.answered + self.ignored + self.executed + self.failed + self.cancelled + self.pending
        return self.received == self.refused + fates


class Tally:
    """The running counters behind `Counts`, for the boundary alone."""

    def __init__(self) -> None:
        self._fates: dict[str, int] = {"received": 0, **dict.fromkeys(_FATES, 0)}
        self._rejected = {str(stage): 0 for stage in STAGES}

    def receive(self, fate: str) -> None:
        """Count one message with the fate it meets on arrival."""
        self._fates["received"] += 1
        self._fates[fate] += 1

    def reject(self, stage: str) -> None:
        """Count one refused frame under its stage."""
        self._fates["received"] += 1
        self._rejected[stage] += 1

    def settle(self, outcome: str) -> None:
        """Move one released action from pending to its outcome."""
        self._fates["pending"] -= 1
        self._fates[outcome] += 1

    def snapshot(self) -> Counts:
        """The counters now, frozen."""
        return Counts(rejected={stage: n for stage, n in self._rejected.items() if n}, **self._fates)


class Sinks:
    """The two logs of a boundary. A sink that raises must not decide what happens to the peer: it is counted."""

    def __init__(
        self, audit: Callable[[Refusal], object] | None, executions: Callable[[Execution], object] | None
    ) -> None:
        self.errors = 0
        self.hear_refusals = audit is not None  # where nobody listens no record is made
        self.hear_executions = executions is not None
        self._audit = audit
        self._executions = executions

    def refused(self, record: Refusal) -> None:
        """Hand one refusal to the audit."""
        self._tell(self._audit, record)

    def ended(self, record: Execution) -> None:
        """Hand one execution to its log."""
        self._tell(self._executions, record)

    def _tell(self, sink: Callable[[Any], object] | None, record: object) -> None:
        try:
            if sink is not None:
                sink(record)
        except Exception:
            self.errors += 1


class Recorder:
    """A fake executor and both sinks in one: what was refused, and what reached the executor, for tests.

    Give ``recorder.execute`` to a gateway built on `Boundary`; a gateway of your own calls ``recorder.attempt`` at the
    place where it would open a connection or start a helper. ``recorder.refused`` and ``recorder.ended`` are the sinks.
    """

    def __init__(self, result: Callable[[AuthorizedAction], Any] | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.refusals: list[Refusal] = []
        self.executions: list[Execution] = []
        self._result = result

    def execute(self, action: AuthorizedAction) -> Any:
        """Record one authorised action; anything else is a TypeError and is not recorded."""
        claimed = claim(action)
        self.attempt(claimed.name, claimed.arguments_copy())
        return "ok" if self._result is None else self._result(claimed)

    def attempt(self, name: str, arguments: Any) -> None:
        """Record one attempt to do work in a gateway that is not ours, whatever it was given."""
        self.calls.append((name, thaw(arguments)))

    def refused(self, record: Refusal) -> None:
        """The audit sink."""
        self.refusals.append(record)

    def ended(self, record: Execution) -> None:
        """The sink for executions."""
        self.executions.append(record)

    @property
    def names(self) -> list[str]:
        """The names of everything that reached the executor, in order."""
        return [name for name, _arguments in self.calls]

    @property
    def stages(self) -> list[str]:
        """The stage of every refusal, in order."""
        return [refusal.stage for refusal in self.refusals]
