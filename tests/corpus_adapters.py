"""Adapters between the package and tables of cases: each takes a row's own words and answers with a plain verdict."""

from __future__ import annotations

from boundary_adapter import boundary as boundary

from stdout_guard.jsonrpc import Decoder, Fault
from stdout_guard.revisions import Direction
from stdout_guard.transcript import Report, judge

DIRECTIONS: dict[str, Direction] = {"s2c": "server-to-client", "c2s": "client-to-server"}
_text = Decoder(framing="content-length")  # a JSON text may hold newlines; a line of ndjson may not


def reason_class(report: Report) -> str | None:
    """The class of the first finding: framing, encoding, json, limits, jsonrpc, mcp, direction or session."""
    if report.ok:
        return None
    first = report.findings[0]
    if first.code == "wrong-direction":
        return "direction"
    return "mcp" if first.stage == "method" else first.stage


def validate(data: bytes, *, framing: str, direction: str, revision: str) -> tuple[bool, str | None]:
    """Whether a whole channel is clean, and why not."""
    report = judge(data, framing=framing, direction=DIRECTIONS.get(direction, direction), revision=revision)  # type: ignore[arg-type]
    return report.ok, reason_class(report)


def is_json(data: bytes) -> bool:
    """Whether these bytes are one JSON text."""
    return not isinstance(_text.decode(data), Fault)


def session(stdout: bytes, sent: bytes, exit_status: int, revision: str = "auto") -> tuple[bool, str | None]:
    """Whether a recorded run is clean: the wire first, then how the process ended, then what was owed."""
    report = judge(stdout, sent=sent, revision=revision)
    reason = reason_class(report)
    if exit_status and reason in (None, "session"):
        return False, "exit"
    return report.ok, reason
