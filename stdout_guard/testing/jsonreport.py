"""The report for programs: one JSON object with ``schemaVersion``; bytes as safe literals, their head as base64."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from typing import Any

from stdout_guard.testing import explain
from stdout_guard.testing.gate import ServerResult, status
from stdout_guard.testing.records import Problem
from stdout_guard.testing.safe import SEEN, Redactor
from stdout_guard.testing.text import headline
from stdout_guard.testing.verdicts import CHECKS, Outcome

SCHEMA_VERSION = 1
HEAD = 256  # bytes of a raw line given as base64


def render(results: Sequence[ServerResult], redactor: Redactor) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "tool": "stdout-guard",
        "python": sys.version.split()[0],
        "platform": sys.platform,
        "exitStatus": status(results),
        "checks": CHECKS,
        "servers": [_server(result, redactor) for result in results],
    }


def _server(result: ServerResult, redactor: Redactor) -> dict[str, Any]:
    plan = result.plan
    return {
        "name": redactor.text(plan.server.name),
        "command": redactor.argv(plan.server.command),
        "protocol": plan.server.protocol.name,
        "framing": plan.server.protocol.framing,
        "packaged": plan.wheel or plan.package,
        "status": result.status,
        "couldNotTest": None if result.packaging is None else redactor.text(result.packaging),
        "conditions": [outcome_report(outcome, redactor) for outcome in result.outcomes],
        "skipped": list(plan.skipped),
        "staleExpected": [vars(entry) for entry in result.stale],
        "corpus": [redactor.text(line) for line in result.corpus],
        "corpusExecuted": result.corpus_executed,
    }


def outcome_report(outcome: Outcome, redactor: Redactor) -> dict[str, Any]:
    """One run."""
    run, ending = outcome.run, outcome.run.ending
    return {
        "condition": run.condition.name,
        "run": run.number,
        "teaches": run.condition.teaches,
        "status": outcome.status,
        "summary": explain.summary(outcome),
        "couldNotTest": None if outcome.untested is None else redactor.text(outcome.untested),
        "verdicts": outcome.verdicts,
        "notTested": {check: redactor.text(why) for check, why in outcome.reasons.items() if _open(outcome, check)},
        "problems": [problem_report(problem, redactor) for problem in outcome.problems],
        "expected": [
            {**problem_report(problem, redactor), "reason": redactor.text(reason)}
            for problem, reason in outcome.expected
        ],
        "toldOnly": [problem_report(problem, redactor) for problem in outcome.told],
        "notes": [redactor.text(note) for note in outcome.notes],
        "seconds": round(run.seconds, 3),
        "steps": [
            {"step": mark.step, "end": mark.end, "seconds": round(mark.seconds, 3), "answered": mark.answered}
            for mark in run.marks
        ],
        "exit": None
        if ending is None
        else {
            "status": ending.returncode,
            "how": ending.how,
            "seconds": round(ending.seconds, 3),
            "survivors": [{"pid": h.pid, "command": redactor.text(h.command)} for h in ending.survivors],
        },
        "stdoutBytes": len(run.stdout) + run.lost,
        "stderr": redactor.lines(run.stderr),
    }


def _open(outcome: Outcome, check: str) -> bool:
    return outcome.verdicts[check] == "untested"


def problem_report(problem: Problem, redactor: Redactor) -> dict[str, Any]:
    """One problem; ``message`` is the line that the text report shows."""
    raw = problem.raw
    return {
        "check": problem.check,
        "code": problem.code,
        "message": headline(problem, redactor),
        "why": redactor.text(problem.why),
        "line": problem.line,
        "offset": problem.offset,
        "step": problem.step,
        "raw": None if raw is None else redactor.show(raw),
        "rawBase64": None if raw is None else base64.b64encode(redactor.data(raw[: HEAD + SEEN])[:HEAD]).decode(),
        "rawBytes": None if raw is None else len(raw),
        "rule": problem.source,
        "writtenBy": [redactor.text(one) for one in problem.culprits],
        "at": [{"file": file, "line": line} for file, line in problem.blame],
        "fix": problem.advice,
    }
