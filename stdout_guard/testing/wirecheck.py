"""The judge of the wire, asked about a run: its findings, each blamed on the step during which the bytes came."""

from __future__ import annotations

from collections import Counter

from stdout_guard.testing import happenings
from stdout_guard.testing.hostile import HOSTILE, HOSTILE_STEP
from stdout_guard.testing.joined import joined
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run
from stdout_guard.transcript import Finding, judge

STAGES = {"framing": "framing", "encoding": "framing", "json": "framing", "limits": "framing", "session": "session"}
_TOLD_ELSEWHERE = {"no-answer"}  # the gate's client knows which answers were there, though in a dirty line
_CONSEQUENCES = {"answer-before-initialize"}  # of a dirty line that held the answer
MOST = 50  # findings of one run carried one by one
SAME = 3  # of them with the same bytes


def problems(run: Run) -> tuple[list[Problem], list[str]]:
    """What the judge finds wrong with the run's stdout, and its notes."""
    report = judge(run.stdout, framing=run.protocol.framing, revision=run.protocol.revision, sent=_sent(run))
    opened = run.session is not None and run.session.opened
    found: list[Problem] = []
    notes = [f"{note.code}: {note.why}" for note in report.notes]
    for finding in report.findings:
        step = run.step_at(finding.offset) if finding.raw else None
        if finding.severity == "warning" and step == HOSTILE_STEP:
            continue  # how mcp 1.x tells of what it refused
        if finding.code not in _TOLD_ELSEWHERE and not (finding.code in _CONSEQUENCES and opened):
            found.append(_found(finding, step))
    judged = {problem.offset for problem in found}
    found += [] if run.session is None else [p for p in happenings.unasked(run, run.session) if p.offset not in judged]
    found, more = _limited(joined(run, found), report.omitted, run.stdout)
    if run.lost:
        more.append(f"{run.lost} bytes of stdout behind the first {len(run.stdout)} were not kept")
    return found, notes + more


def _limited(found: list[Problem], omitted: int, stdout: bytes) -> tuple[list[Problem], list[str]]:
    """A few of those with the same bytes, the first of each kind, ``MOST`` in all; and what the others were."""
    kept: list[Problem] = []
    first: dict[object, Problem] = {}
    shown, left, kinds = Counter[object](), Counter[object](), set[tuple[str, str]]()
    for problem in found:
        key, kind = (problem.code, problem.raw, problem.step), (problem.check, problem.code)
        if kind not in kinds or (shown[key] < SAME and len(kept) < MOST):
            kinds.add(kind)
            first.setdefault(key, problem)
            shown[key] += 1
            kept.append(problem)
        else:
            left[key] += 1
    notes: list[str] = []
    if left or omitted:
        lines = Counter(stdout.split(b"\n"))
        again = {one.raw.rstrip(b"\n"): one for key, one in first.items() if key in left and one.raw}
        notes += [f"{p.code}: the bytes of line {p.line} came {lines[raw]} times" for raw, p in again.items()]
        notes.append(f"{left.total() + omitted} more findings on this stdout are not shown one by one")
    return kept, notes


def _found(finding: Finding, step: str | None) -> Problem:
    guess = finding.cause and not finding.raw.lstrip().startswith(b'{"jsonrpc"')
    why = f"{finding.why}; probably {finding.cause}" if guess else finding.why
    check = STAGES.get(finding.stage, "shape")
    if not finding.raw:
        return Problem(check, finding.code, why, None, None, None, step, finding.rule)
    return Problem(check, finding.code, why, finding.line, finding.offset, finding.raw, step, finding.rule)


def _sent(run: Run) -> bytes:
    """What the client sent, for pairing: a refused line that was answered by its id stands there as a request."""
    if run.session is None:
        return run.sent
    answered = {m.content.get("id") for m in run.session.dialogue.messages if "method" not in m.content}
    stand_ins = [
        run.session.dialogue.encode({"jsonrpc": "2.0", "id": identifier, "method": "tools/list", "params": {}})
        for identifier in sorted(one for one in answered if isinstance(one, str) and one.startswith(HOSTILE))
    ]
    # that an invalid request is refused may be told with its id, or with null
    nameless = [b"{\n" for _ in run.session.hostile[4 + len(stand_ins) :]]
    return b"".join((run.sent, *run.session.hostile[:4], *nameless, *stand_ins))
