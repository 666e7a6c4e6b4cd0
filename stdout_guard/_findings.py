"""The verdict on a channel: findings, notes, and how they are told to a person.

Bytes of the channel are only ever shown as repr or hex: they may hold terminal or CI commands.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
_SHOWN: Final = 2000  # bytes of a line in a failure message
_SAVED: Final = 1 << 16  # bytes of it in a JSON report, which may tell a thousand findings of one line
_WIRE_STAGES: Final = ("framing", "encoding", "json", "limits")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (or, as a note, worth knowing).

    ``line`` is 1-based; ``offset`` counts bytes from the start; ``raw`` is exactly what stood there, empty when the
    fault is that nothing did. ``stage``: framing, encoding, json, limits, jsonrpc, method or session.
    """

    code: str
    stage: str
    line: int
    offset: int
    raw: bytes
    why: str
    rule: str = ""
    cause: str = ""
    severity: Severity = "error"

    def as_dict(self) -> dict[str, object]:
        """JSON-ready; the head of the bytes as base64 and as Python's repr, and how many there are."""
        own: dict[str, object] = {name: getattr(self, name) for name in self.__slots__ if name != "raw"}
        head = base64.b64encode(self.raw[:_SAVED]).decode("ascii")
        return own | {"raw": repr(self.raw[:_SHOWN]), "raw_base64": head, "raw_size": len(self.raw)}


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one channel. ``ok`` means no finding at all; notes do not count."""

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    frames: int
    size: int
    revision: str
    omitted: int = 0  # findings beyond the first MAX_FINDINGS
    unread: int = 0  # bytes after a fault that lost the framing

    @property
    def ok(self) -> bool:
        """Whether the channel holds whole, allowed messages and nothing else."""
        return not self.findings

    @property
    def checks(self) -> dict[str, bool]:
        """Three verdicts: every line is one JSON value; every value an allowed message; the session is in order."""
        stages = {finding.stage for finding in self.findings}
        return {
            "wire": not stages & set(_WIRE_STAGES),
            "shape": not stages & {"jsonrpc", "method"},
            "session": "session" not in stages,
        }

    def as_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "schemaVersion": 1,
            "ok": self.ok,
            "checks": self.checks,
            "revision": self.revision,
            "frames": self.frames,
            "bytes": self.size,
            "omitted": self.omitted,
            "unread": self.unread,
            "findings": [finding.as_dict() for finding in self.findings],
            "notes": [finding.as_dict() for finding in self.notes],
        }


def explain(report: Report) -> str:
    """The report as text: the first finding in full, the others in a line each (ten at most)."""
    if report.ok:
        return f"clean: {report.frames} frames, {report.size} bytes, revision {report.revision}"
    first, *others = report.findings
    lines = [headline(first), *_details(first)]
    lines += [f"also: {headline(finding)} ({finding.code})" for finding in others[:9]]
    left = len(others[9:]) + report.omitted
    if left > 0:
        lines.append(f"and {left} more")
    if report.unread:
        lines.append(f"{report.unread} bytes after it were not read: the framing is lost")
    return "\n".join(lines)


def headline(finding: Finding) -> str:
    """Where and what, in one line; the bytes only ever as repr."""
    if not finding.raw:
        return f"protocol broken at end of output: {finding.why}"
    raw = finding.raw
    shown = repr(raw) if len(raw) <= _SHOWN else f"{raw[:_SHOWN]!r}... ({len(raw)} bytes)"
    kind = "non-protocol stdout" if finding.stage != "session" else "message out of place"
    return f"{kind} on line {finding.line}: {shown}"


def _details(finding: Finding) -> list[str]:
    lines = [f"  at byte {finding.offset}, {finding.stage} ({finding.code}): {finding.why}"]
    if finding.cause:
        lines.append(f"  likely cause: {finding.cause}")
    if finding.rule:
        lines.append(f"  rule: {finding.rule}")
    if finding.stage == "encoding":
        lines.append(f"  hex: {finding.raw[:64].hex(' ')}{' ...' if len(finding.raw) > 64 else ''}")
    return lines
