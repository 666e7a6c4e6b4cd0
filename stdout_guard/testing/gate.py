"""The gate: every condition of a plan run and judged, the culprits found, the expected failures taken out.

The plain run comes first and alone; when it cannot be tested, the others are not run either, and are not called clean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from stdout_guard.testing.conditions import Condition
from stdout_guard.testing.config import Expected, Plan
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run, Server, execute
from stdout_guard.testing.steps import chosen_calls

if TYPE_CHECKING:  # the judge and the reports are loaded while the server starts
    from stdout_guard.testing.verdicts import Outcome, Status

Progress = Callable[[str, int, int], None]
LATER = 12.0  # seconds of idleness for an answer that seemed to have waited for the end of the input
EXIT_STATUS: dict[Status, int] = {"clean": 0, "broken": 1, "untested": 3}


@dataclass
class ServerResult:
    """All outcomes of one plan. ``stale`` are expected failures that did not happen; they count as broken."""

    plan: Plan
    outcomes: list[Outcome]
    stale: list[Expected] = field(default_factory=list[Expected])
    packaging: str | None = None
    corpus: list[str] = field(default_factory=list[str])
    corpus_executed: list[str] = field(default_factory=list[str])

    @property
    def status(self) -> Status:
        """Broken before untested before clean."""
        statuses = {outcome.status for outcome in self.outcomes}
        if self.stale or self.corpus_executed or "broken" in statuses:
            return "broken"
        return "untested" if self.packaging or "untested" in statuses or not self.outcomes else "clean"


def check(plan: Plan, *, jobs: int = 0, progress: Progress | None = None, find_culprits: bool = True) -> ServerResult:
    """Run one plan; ``jobs`` conditions at a time (0: one more than there are processors, as each also waits)."""
    with ExitStack() as stack:
        server = plan.server
        if plan.wheel or plan.package:
            from stdout_guard.testing.packaged import PackagingError, installed

            try:
                server = stack.enter_context(installed(server, wheel=plan.wheel, package=plan.package))
            except PackagingError as error:
                return ServerResult(plan, [], packaging=str(error))
        Thread(target=import_module, args=("stdout_guard.testing.text",), daemon=True).start()
        outcomes = _conditions(server, plan.conditions, jobs or (os.cpu_count() or 1) + 1, progress or _silent)
        if find_culprits and any(outcome.problems for outcome in outcomes):
            from stdout_guard.testing import culprit

            culprit.investigate(server, outcomes)
        from stdout_guard.testing import explain

        explain.compare(outcomes)
        for outcome in outcomes:
            for problem in outcome.problems:
                problem.advice = problem.advice or explain.advice(problem, outcome)
        result = ServerResult(replace(plan, server=server), outcomes)
        if plan.corpus:
            from stdout_guard.testing import inbound

            session = outcomes[0].run.session
            calls = [] if session is None else chosen_calls(session)
            if session is not None and session.opened:
                result.corpus, result.corpus_executed = inbound.put(server, calls[0] if calls else None, jobs)
    result.stale = _take_expected(outcomes, plan.expected)
    return result


def status(results: Sequence[ServerResult]) -> int:
    """The exit status for all servers together: 1 before 3 before 0."""
    found = {result.status for result in results}
    return next((EXIT_STATUS[one] for one in ("broken", "untested") if one in found), 0)


def _silent(name: str, done: int, total: int) -> None:
    return


def _conditions(server: Server, conditions: Sequence[Condition], jobs: int, progress: Progress) -> list[Outcome]:
    total = len(conditions)
    outcomes: list[Outcome] = []
    rest = list(conditions)
    if rest and rest[0].name == "plain":
        progress("plain", 0, total)
        outcomes += _judged(server, rest.pop(0), patient=True)
        if outcomes[-1].status == "untested" and not outcomes[-1].problems:
            why = f"not run, because the plain run could not be tested: {outcomes[-1].untested}"
            return outcomes + [_unrun(server, condition, why) for condition in rest]
        plain = outcomes[-1].run
        if plain.session is not None and plain.session.opened and not plain.session.unanswered:
            server = replace(server, limits=plain.server.limits)  # it may have taken patience
        server = plain.learnt(server)
    if not rest:
        return outcomes
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, min(jobs, len(rest)))) as pool:
        waiting = [(condition, pool.submit(_judged, server, condition)) for condition in _longest_first(rest)]
        found: dict[str, list[Outcome]] = {}
        try:
            for number, (condition, future) in enumerate(waiting):
                progress(condition.name, total - len(rest) + number, total)
                found[condition.name] = future.result()
        except BaseException:  # interrupted: start no more; those that run are ended by their own limits
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcomes + [outcome for condition in rest for outcome in found[condition.name]]


def _longest_first(conditions: Sequence[Condition]) -> list[Condition]:
    def waiting(condition: Condition) -> float:
        return sum(float(word.partition(":")[2] or 0) for word in condition.script) + condition.runs

    return sorted(conditions, key=waiting, reverse=True)


def _judged(server: Server, condition: Condition, patient: bool = False) -> list[Outcome]:
    runs = execute(server, condition)
    from stdout_guard.testing.verdicts import evaluate

    outcomes = [evaluate(run) for run in runs]
    if patient and any(_silent_and_alive(outcome) for outcome in outcomes):
        # it looked idle, but may be waiting for a network: once more, with the whole time
        slow = replace(server, limits=replace(server.limits, quiet=server.limits.start))
        outcomes = [evaluate(run) for run in execute(slow, condition)]
    elif patient and any(_late_and_not_stuck(outcome) for outcome in outcomes):
        # its answer came just after the end of the input: from a buffer, or in its own time
        slow = replace(server, limits=replace(server.limits, quiet=max(server.limits.quiet, LATER)))
        outcomes = [evaluate(run) for run in execute(slow, condition)]
    return outcomes


def _late_and_not_stuck(outcome: Outcome) -> bool:
    session = outcome.run.session
    stuck = session is None or session.stuck
    return not stuck and any(problem.code == "unflushed" for problem in outcome.problems)


def _silent_and_alive(outcome: Outcome) -> bool:
    session = outcome.run.session
    if outcome.status != "untested" or session is None or session.ended_in:
        return False
    return bool(session.unanswered) and not session.dialogue.process.was_stuck


def _unrun(server: Server, condition: Condition, why: str) -> Outcome:
    from stdout_guard.testing.verdicts import CHECKS, Outcome

    run = Run(server, condition, server.command, server.cwd or os.getcwd(), {}, error=why)
    return Outcome(run, [], [], dict.fromkeys(CHECKS, "untested"), why)


def _take_expected(outcomes: Sequence[Outcome], expected: Sequence[Expected]) -> list[Expected]:
    """Move expected failures aside; the entries that met none."""
    met: set[Expected] = set()
    for outcome in outcomes:
        kept: list[Problem] = []
        for problem in outcome.problems:
            entry = next((one for one in expected if _meets(one, outcome, problem)), None)
            if entry is None:
                kept.append(problem)
            else:
                met.add(entry)
                outcome.expected.append((problem, entry.reason))
        outcome.problems = kept
        failing = {problem.check for problem in kept}
        for check_name, verdict in outcome.verdicts.items():
            if verdict == "fail" and check_name not in failing:
                outcome.verdicts[check_name] = "told"
    return [one for one in expected if one not in met]


def _meets(entry: Expected, outcome: Outcome, problem: Problem) -> bool:
    return entry.condition in ("*", outcome.run.condition.name) and entry.code in ("*", problem.code)
