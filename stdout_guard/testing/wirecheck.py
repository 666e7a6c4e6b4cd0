"""The judge of the wire, asked about a run: its findings, each blamed on the step during which the bytes came."""

from __future__ import annotations

from dataclasses import dataclass

from stdout_guard.testing.run import Run
from stdout_guard.testing.steps import HOSTILE
from stdout_guard.transcript import Finding, judge

STAGES = {"framing": "framing", "encoding": "framing", "json": "framing", "limits": "framing", "session": "session"}
MOST = 50  # findings kept of one run


@dataclass(frozen=True)
class Found:
    """A finding of the judge in the gate's words; ``check`` is one of the gate's five."""

    check: str
    code: str
    why: str
    line: int | None
    offset: int | None
    raw: bytes | None
    step: str | None
    source: str


def problems(run: Run) -> tuple[list[Found], list[str]]:
    """What the judge finds wrong with the run's stdout, and its notes."""
    report = judge(run.stdout, framing=run.protocol.framing, revision=run.protocol.revision, sent=_sent(run))
    opened = run.session is not None and run.session.opened
    found = [_found(run, finding) for finding in report.findings if opened or not _owed(finding)]
    notes = [f"{note.code}: {note.why}" for note in report.notes]
    if len(found) > MOST:
        notes.append(f"{len(found) - MOST} more findings on this stdout are not shown")
    if run.lost:
        notes.append(f"{run.lost} bytes of stdout behind the first {len(run.stdout)} were not kept")
    return found[:MOST], notes


def _found(run: Run, finding: Finding) -> Found:
    step = None if finding.offset is None or not run.stdout else run.step_at(finding.offset)
    check = STAGES.get(finding.stage, "shape")
    return Found(check, finding.code, finding.why, finding.line, finding.offset, finding.raw, step, finding.source)


def _owed(finding: Finding) -> bool:
    """A missing answer; when the session never began this is said in another way."""
    return finding.stage == "session" and not finding.raw


def _sent(run: Run) -> bytes:
    """What the client sent, for pairing: a refused line that was answered by its id stands there as a request."""
    if run.session is None:
        return run.sent
    answered = {m.content.get("id") for m in run.session.dialogue.messages if "method" not in m.content}
    stand_ins = [
        run.session.dialogue.encode({"jsonrpc": "2.0", "id": identifier, "method": "tools/list", "params": {}})
        for identifier in sorted(str(one) for one in answered if isinstance(one, str) and one.startswith(HOSTILE))
    ]
    return b"".join((run.sent, *stand_ins))
