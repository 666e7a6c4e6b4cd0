"""The report for people: what is wrong, the bytes, who wrote them, what to change. Safe on any terminal and CI log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stdout_guard.testing import explain
from stdout_guard.testing.gate import ServerResult
from stdout_guard.testing.records import Problem
from stdout_guard.testing.safe import Redactor, cut, plain, quote
from stdout_guard.testing.verdicts import CHECKS, Outcome

WIDTH = 14
SHOWN = 10  # problems shown for one condition
ALIKE = 5  # of them with the same words and the same culprit


def headline(problem: Problem, redactor: Redactor) -> str:
    """One line for one problem: the article's wording where there are bytes to show."""
    where = f" during {problem.step}" if problem.step else ""
    if problem.raw is None or problem.line is None:
        shown = "" if problem.raw is None else f": {redactor.show(problem.raw)}"
        return safe(redactor, f"{problem.why}{where}") + shown
    place = f"non-protocol stdout on line {problem.line}: {redactor.show(problem.raw)}"
    offset = "" if problem.offset is None else f"offset {problem.offset},"
    return place + safe(redactor, f" ({offset}{where}: {problem.why})")


def culprit_line(problem: Problem, redactor: Redactor) -> str:
    """``line 1, offset 0: b'loading...' — written by dep/__init__.py:12 in <module>, from server.py:3``."""
    place = f"line {problem.line}, offset {problem.offset}: {redactor.show(problem.raw or b'')}"
    return place + safe(redactor, f" — {'; or '.join(problem.culprits)}")


def safe(redactor: Redactor, text: str) -> str:
    """Our own words around foreign names: redacted, escaped, no CI command."""
    return quote(plain(redactor.text(text)))


def render(results: Sequence[ServerResult], redactor: Redactor) -> str:
    """The whole report."""
    return "".join(line + "\n" for result in results for line in _server(result, redactor))


def _server(result: ServerResult, redactor: Redactor) -> Iterator[str]:
    server = result.plan.server
    yield safe(redactor, f"{server.name}: {result.status}")
    yield safe(redactor, f"  command: {' '.join(redactor.argv(server.command))}")
    if result.packaging:
        yield safe(redactor, f"  could not be tested: {result.packaging}")
        return
    seen: dict[object, str] = {}
    for outcome in result.outcomes:
        yield from _outcome(outcome, redactor, seen)
    for name in result.plan.skipped:
        yield f"  {name:<{WIDTH}} skipped: it needs a part that only you can supply (start_failure)"
    for entry in result.stale:
        words = f"{entry.code} under {entry.condition} did not happen: take it out ({entry.reason})"
        yield safe(redactor, f"  stale expected failure: {words}")
    for line in result.corpus:
        yield safe(redactor, f"  corpus {line}")
    if result.corpus_executed:
        yield f"  corpus: {len(result.corpus_executed)} of {len(result.corpus)} refused frames were executed"
    yield from _contract(result, redactor)


def _outcome(outcome: Outcome, redactor: Redactor, seen: dict[object, str]) -> Iterator[str]:
    run = outcome.run
    name = run.condition.name + (f" #{run.number}" if run.condition.runs > 1 else "")
    summary = explain.summary(outcome)
    told = summary if outcome.told or summary == outcome.status else f"{outcome.status}: {summary}"
    yield safe(redactor, f"  {name:<{WIDTH}} {told} ({run.seconds:.1f} s)")
    yield f"      teaches: {run.condition.teaches}"
    if outcome.untested:
        yield safe(redactor, f"      could not be tested: {outcome.untested}")
    shown, again, kinds = 0, Counter[str](), Counter[tuple[str, ...]]()
    for problem in outcome.problems:
        key = (problem.code, problem.raw, problem.why if problem.raw is None else "")
        if key in seen:
            again[f"{problem.code}: the same {'again' if seen[key] == name else f'as under {seen[key]}'}"] += 1
            continue
        seen[key] = name
        kinds[alike := (problem.code, problem.why, *problem.culprits)] += 1
        if kinds[alike] > ALIKE:
            again[f"{problem.code}: more like it, from the same place"] += 1
            continue
        shown += 1
        if shown <= SHOWN:
            yield from _problem(problem, redactor)
    for words, times in again.items():
        yield safe(redactor, f"      {words}" + (f" ({times} times)" if times > 1 else ""))
    if shown > SHOWN:
        yield f"      ... and {shown - SHOWN} more"
    for problem, reason in outcome.expected:
        yield safe(redactor, f"      expected failure {problem.code}: {reason}")
    for note in dict.fromkeys(outcome.notes):
        if note not in seen:  # each note once, where it came up first
            seen[note] = name
            yield safe(redactor, f"      note: {cut(note)}")
    if (outcome.untested or shown) and run.stderr:
        yield from _stderr(run.stderr, redactor)


def _problem(problem: Problem, redactor: Redactor) -> Iterator[str]:
    yield f"      {problem.check}/{problem.code}: {headline(problem, redactor)}"
    if problem.culprits and problem.line is not None:
        yield f"        {culprit_line(problem, redactor)}"
    elif problem.culprits:
        yield safe(redactor, f"        {'; or '.join(problem.culprits)}")
    if problem.source:
        yield safe(redactor, f"        rule: {problem.source}")
    if problem.advice:
        yield safe(redactor, f"        fix: {problem.advice}")


def _stderr(data: bytes, redactor: Redactor) -> Iterator[str]:
    lines = redactor.lines(data, 1500).splitlines()[-8:]
    yield "      end of stderr:"
    for line in lines:
        yield f"        | {cut(line, 300)}"


WORDS = {"pass": "pass", "fail": "fail", "told": "told only", "untested": "not tested", "not asked": "not asked"}


def _contract(result: ServerResult, redactor: Redactor) -> Iterator[str]:
    """Each check by name, over all conditions: passed where one run at least gave it occasion to fail."""
    for check, meaning in CHECKS.items():
        verdicts = [outcome.verdicts[check] for outcome in result.outcomes]
        order = ("fail", *(["untested"] if result.status == "untested" else []), "pass", "untested", "told")
        worst = next((one for one in order if one in verdicts), "not asked")
        why = [outcome.reasons.get(check) for outcome in result.outcomes if outcome.verdicts[check] == "untested"]
        reason = f" ({why[0]})" if worst == "untested" and why and why[0] else ""
        yield safe(redactor, f"  [{WORDS[worst]}] {check}: {meaning}{reason}")
