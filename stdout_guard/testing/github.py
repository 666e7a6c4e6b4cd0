"""Annotations and the job summary when the gate runs inside GitHub Actions.

Only these lines may be workflow commands; their data is escaped as the runner wants it, so that what a server printed
cannot add one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from stdout_guard.testing import explain
from stdout_guard.testing.gate import ServerResult
from stdout_guard.testing.records import Problem
from stdout_guard.testing.safe import Redactor, cut
from stdout_guard.testing.text import headline, safe

MOST = 10  # annotations GitHub shows for one step


def commands(results: Sequence[ServerResult], redactor: Redactor) -> Iterator[str]:
    """``::error`` lines, one for each distinct problem, at the line of its culprit."""
    seen: set[tuple[object, ...]] = set()
    for result in results:
        if result.packaging:
            yield _command(result.plan.server.name, result.packaging, None, redactor)
        for outcome in result.outcomes:
            for problem in outcome.problems:
                key = (problem.code, problem.raw, problem.why if problem.raw is None else "")
                if key not in seen and len(seen) < MOST:
                    seen.add(key)
                    title = f"{result.plan.server.name}: {problem.code}"
                    yield _command(title, _message(problem, redactor), problem, redactor)


def _message(problem: Problem, redactor: Redactor) -> str:
    by = f" — {'; or '.join(problem.culprits)}" if problem.culprits else ""
    return headline(problem, redactor) + safe(redactor, by)


def _command(title: str, message: str, problem: Problem | None, redactor: Redactor) -> str:
    place = ""
    if problem is not None and problem.blame:
        file, line = problem.blame[0]
        place = f"file={_property(file)},line={line},"
    return f"::error {place}title={_property(safe(redactor, title))}::{_data(cut(safe(redactor, message), 2000))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(results: Sequence[ServerResult], redactor: Redactor) -> str:
    """A table in Markdown for the job's page."""
    lines = ["### stdout-guard", "", "| server | condition | result | what |", "| --- | --- | --- | --- |"]
    for result in results:
        name = _cell(safe(redactor, result.plan.server.name))
        if result.packaging:
            lines.append(f"| {name} | packaged | untested | {_cell(safe(redactor, result.packaging))} |")
        for outcome in result.outcomes:
            what = [headline(problem, redactor) for problem in outcome.problems[:3]] or [explain.summary(outcome)]
            lines.append(f"| {name} | {outcome.run.condition.name} | {outcome.status} | {_cell('; '.join(what))} |")
    return "\n".join(lines) + "\n\n"


def _cell(text: str) -> str:
    """Text that stays inside its cell: no table, markup, link or mention of it survives."""
    text = " ".join(cut(text, 600).split())
    return "".join(f"&#{ord(char)};" if char in "|<>&`*_[]()@#\\~!" else char for char in text)


def write_summary(results: Sequence[ServerResult], redactor: Redactor) -> None:
    """Append the table to the file that the job names."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary(results, redactor))
