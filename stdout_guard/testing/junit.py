"""JUnit XML as Jenkins, GitLab and the others read it: a case for each condition and check.

Order and attributes follow the schema of Jenkins' xunit plugin (junit-10.xsd). Text arrives redacted; what XML 1.0
cannot hold is spelled out, never dropped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from stdout_guard.testing.gate import ServerResult
from stdout_guard.testing.records import Problem
from stdout_guard.testing.safe import Redactor, plain
from stdout_guard.testing.text import culprit_line, headline
from stdout_guard.testing.verdicts import CHECKS, Outcome

Attachments = Mapping[int, Sequence[str]]  # id() of an outcome's run: paths of its artefacts


def render(results: Sequence[ServerResult], redactor: Redactor, attachments: Attachments | None = None) -> bytes:
    """The document, UTF-8, with its declaration."""
    root = ET.Element("testsuites", name="stdout-guard")
    for result in results:
        _suite(root, result, redactor, attachments or {})
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def write(
    path: str, results: Sequence[ServerResult], redactor: Redactor, attachments: Attachments | None = None
) -> None:
    """The document into a file, its folder made if it is missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(render(results, redactor, attachments))


def _suite(root: ET.Element, result: ServerResult, redactor: Redactor, attachments: Attachments) -> None:
    name = plain(redactor.text(result.plan.server.name))
    suite = ET.SubElement(root, "testsuite", name=name)
    for outcome in result.outcomes:
        for check in CHECKS:
            if outcome.verdicts[check] != "not asked":
                _case(suite, name, outcome, check, redactor, attachments.get(id(outcome.run), ()))
    for condition in result.plan.skipped:
        case = ET.SubElement(suite, "testcase", classname=f"{name}.{condition}", name="start-up", time="0")
        ET.SubElement(case, "skipped", message="needs a part that only you can supply (start_failure)")
    if result.packaging:
        case = ET.SubElement(suite, "testcase", classname=f"{name}.packaged", name="install", time="0")
        _verdict(case, "error", "untested", redactor.text(result.packaging), "")
    for entry in result.stale:
        case = ET.SubElement(
            suite, "testcase", classname=f"{name}.expected", name=f"{entry.condition} {entry.code}", time="0"
        )
        _verdict(case, "failure", "stale-expected", "an expected failure did not happen: take it out", entry.reason)
    for line in result.corpus:
        case = ET.SubElement(
            suite, "testcase", classname=f"{name}.corpus", name=plain(redactor.text(line))[:200], time="0"
        )
        if line.split(":")[0] in result.corpus_executed:
            _verdict(case, "failure", "executed-refused-frame", redactor.text(line), "")
    for tag, kind in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(tag, str(sum(1 for _ in suite.iter(kind))))
    suite.set("time", f"{sum(outcome.run.seconds for outcome in result.outcomes):.3f}")


def _case(
    suite: ET.Element, name: str, outcome: Outcome, check: str, redactor: Redactor, attached: Sequence[str]
) -> None:
    run = outcome.run
    number = f".{run.number}" if run.condition.runs > 1 else ""
    share = f"{run.seconds / len(CHECKS):.3f}"
    case = ET.SubElement(suite, "testcase", classname=f"{name}.{run.condition.name}{number}", name=check, time=share)
    problems = [problem for problem in outcome.problems if problem.check == check]
    verdict = outcome.verdicts[check]
    if problems:
        body = "\n".join(_lines(problem, redactor) for problem in problems)
        _verdict(case, "failure", problems[0].code, headline(problems[0], redactor), body)
    elif verdict == "untested" and outcome.untested is None and outcome.run.session is not None:
        ET.SubElement(case, "skipped", message=plain(redactor.text(f"not tested: {outcome.reasons.get(check, '')}")))
    elif verdict == "untested":
        _verdict(case, "error", "untested", redactor.text(outcome.untested or "could not be tested"), "")
    elif verdict == "told" and outcome.told:
        told = next(problem for problem in outcome.told if problem.check == check)
        ET.SubElement(case, "skipped", message=plain(f"told only: {headline(told, redactor)}"))
    expected = [f"expected failure {p.code}: {redactor.text(why)}" for p, why in outcome.expected if p.check == check]
    out = [*expected, *(f"[[ATTACHMENT|{plain(path)}]]" for path in attached)]
    if out:
        ET.SubElement(case, "system-out").text = plain("\n".join(out))
    if (problems or (verdict == "untested" and outcome.untested)) and run.stderr:
        ET.SubElement(case, "system-err").text = redactor.lines(run.stderr)


def _verdict(case: ET.Element, tag: str, kind: str, message: str, body: str) -> None:
    ET.SubElement(case, tag, type=kind, message=plain(message)).text = plain(body or message)


def _lines(problem: Problem, redactor: Redactor) -> str:
    lines = [headline(problem, redactor)]
    if problem.culprits:
        lines.append(
            culprit_line(problem, redactor) if problem.line is not None else redactor.text("; ".join(problem.culprits))
        )
    lines += [f"{word}: {value}" for word, value in (("rule", problem.source), ("fix", problem.advice)) if value]
    return "\n".join(lines)
