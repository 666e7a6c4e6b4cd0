"""From a run to verdicts: five checks, each with its own, never one for all.

The wire is judged whatever the exit status; a clean wire with a bad exit is not a dirty wire; what could not be tested
is never called clean, and a check that was not exercised is never called passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stdout_guard.testing import happenings, wirecheck
from stdout_guard.testing.hostile import can_be_hostile
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run
from stdout_guard.testing.steps import CHOOSE, Session, chosen_calls

# told: found, and told only; untested: never exercised in this run; not asked: no part of its script
Verdict = Literal["pass", "fail", "told", "untested", "not asked"]
Status = Literal["clean", "broken", "untested"]
CHECKS = {
    "framing": "contract 1: every complete line is UTF-8 and one JSON value",
    "shape": "contract 2: every value is a message allowed in this direction",
    "effects": "contract 3: nothing runs before framing, JSON, protocol, schema and authorisation have passed",
    "session": "each request is answered once and in time, and nothing else is",
    "exit": "the server ends by itself, with the right status, and lets the wire go",
}


@dataclass
class Outcome:
    """A run and what was found.

    ``untested`` says why the run could not be judged, if so; ``reasons`` why a single check could not be. ``told`` are
    findings that do not count: those of an advisory condition.
    """

    run: Run
    problems: list[Problem]
    notes: list[str]
    verdicts: dict[str, Verdict]
    untested: str | None = None
    expected: list[tuple[Problem, str]] = field(default_factory=list[tuple[Problem, str]])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    told: list[Problem] = field(default_factory=list[Problem])

    @property
    def status(self) -> Status:
        """Broken before untested before clean."""
        if self.problems:
            return "broken"
        return "untested" if self.untested else "clean"


def evaluate(run: Run) -> Outcome:
    """Judge one run."""
    session = run.session
    if session is None:
        return Outcome(run, [], [], dict.fromkeys(CHECKS, "untested"), run.error or "it was not run")
    problems, notes = wirecheck.problems(run)
    problems += [
        *happenings.merged(run, session), *happenings.answers(run, session, problems),
        *happenings.on_stderr(run, session), *happenings.effects(session),
    ]  # fmt: skip
    untested = happenings.untested(run, session)
    blocked = any(problem.code == "blocked-on-stderr" for problem in problems)  # then it cannot leave either
    if untested is None and not blocked:
        problems += happenings.ending(run, session)
    notes += session.notes
    if session.closed_after_hostile:
        notes.append("the session ended with the hostile lines (a server may close after what it refuses)")
    if untested is not None and run.condition.answers == "optional":
        notes.append(f"{untested} (allowed here)")
        untested = None
    told: list[Problem] = []
    if run.condition.advisory:
        told, problems, untested = problems, [], None
        found = Counter((problem.check, problem.code) for problem in told)
        notes += [f"{check}/{code}: {number} times, told only" for (check, code), number in found.items()]
    reasons = dict.fromkeys(CHECKS, untested) if untested else _unexercised(run, session, blocked)
    verdicts = _verdicts(run, problems, told, reasons)
    return Outcome(run, problems, notes, verdicts, untested, reasons=reasons, told=told)


def _verdicts(
    run: Run, problems: Sequence[Problem], told: Sequence[Problem], reasons: Mapping[str, str]
) -> dict[str, Verdict]:
    """The verdict of each check: the first rule that fits."""
    script = run.condition.script
    asked = {"framing", "shape", "exit"}
    asked |= {"session"} if "handshake" in script else set()
    asked |= {"effects"} if "hostile" in script and can_be_hostile(run.protocol) else set()
    rules: tuple[tuple[Verdict, Collection[str]], ...] = (
        ("fail", {problem.check for problem in problems}),
        ("told", {problem.check for problem in told}),
        ("not asked", CHECKS.keys() - asked),
        ("untested", reasons),
        ("pass", CHECKS),
    )
    return {check: next(verdict for verdict, checks in rules if check in checks) for check in CHECKS}


def _unexercised(run: Run, session: Session, blocked: bool) -> dict[str, str]:
    """The checks that this run gave no occasion to fail, and why: they are not called passed."""
    answered = any("method" not in message.content for message in session.dialogue.messages)
    rules = (
        ("shape", not run.stdout, "nothing was written to stdout"),
        ("session", not answered, "no request was answered"),
        ("exit", blocked, "it hung, and was ended from outside"),
        ("effects", not session.hostile, "the session was over before malformed lines could be sent"),
        ("effects", not (session.alive_after_hostile or session.closed_after_hostile), "no answer after them"),
        ("effects", not (session.effects or chosen_calls(session)), f"no tool was called: {CHOOSE}"),
        ("effects", not (session.effects or session.called), "the well-formed call got no result either"),
    )
    return {check: why for check, so, why in reversed(rules) if so}
