"""What has been found so far: findings and notes in wire order, each with its rule and likely cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stdout_guard._causes import likely_cause, rule_of
from stdout_guard._findings import Finding, Severity
from stdout_guard._frames import Frame
from stdout_guard._session import Breach
from stdout_guard._strictness import Fault, Note
from stdout_guard.framing import Framing

MAX_FINDINGS: Final = 1000  # of each kind; what comes after is counted


class Records:
    """The findings and notes of one channel."""

    def __init__(self, framing: Framing, to_client: bool) -> None:
        self._framing: Framing = framing
        self._to_client = to_client
        self.findings: list[Finding] = []
        self.notes: list[Finding] = []
        self.omitted = 0
        self._codes = set[str]()

    def fault(self, fault: Fault, line: int, offset: int, raw: bytes) -> None:
        """Something that is no message, or one that may not be sent."""
        code, stage, why = fault
        self._add(code, stage, line, offset, raw, why, "error")

    def breaches(self, breaches: Iterable[Breach], line: int, offset: int, raw: bytes) -> None:
        """Rules of the session that these bytes break (none, at the end: what is missing)."""
        for code, severity, why in breaches:
            self._add(code, "session", line, offset, raw, why, severity)

    def note(self, frame: Frame, notes: Iterable[Note]) -> None:
        """What is legal, but worth knowing."""
        for code, why in notes:
            if code == "line-separator" and not self._to_client:
                continue
            if len(self.notes) < MAX_FINDINGS:
                self.notes.append(Finding(code, "note", frame.line, frame.offset, frame.raw, why, severity="note"))

    def _add(self, code: str, stage: str, line: int, offset: int, raw: bytes, why: str, severity: Severity) -> None:
        if len(self.findings) >= MAX_FINDINGS and code in self._codes:  # the first of each kind is always told
            self.omitted += 1
            return
        self._codes.add(code)
        rule, cause = rule_of(code, stage, self._framing), likely_cause(code, stage, raw)
        self.findings.append(Finding(code, stage, line, offset, raw, why, rule, cause, severity))
