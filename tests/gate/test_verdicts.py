"""What is called passed, not tested and told only; and that a report says a thing once."""

from __future__ import annotations

import sys
import time
import xml.etree.ElementTree as ET

import pytest

from stdout_guard.testing import jsonreport, junit, text
from stdout_guard.testing.safe import Redactor


def _line(report: str, check: str) -> str:
    (line,) = [line for line in report.splitlines() if f"] {check}: " in line]
    return line.strip()


@pytest.mark.parametrize(
    ("server", "condition", "name", "reason"),
    [
        ("usage_on_stdout", "bad-argument", "session", "no request was answered"),
        ("usage_on_stdout", "bad-argument", "effects", "the session was over before malformed lines could be sent"),
        ("crash_handler", "plain", "effects", "the session was over before malformed lines could be sent"),
        ("no_safe_tool", "plain", "effects", "no tool was called: choose one (--call 'NAME={...}')"),
        ("refuses_calls", "plain", "effects", "the well-formed call got no result either"),
        ("clean", "eof", "shape", "nothing was written to stdout"),
    ],
)
def test_what_was_not_exercised_is_not_called_passed(check, server, condition, name, reason):
    """A check that a run gave no occasion to fail is "not tested", with its reason, in every report."""
    result = check(server, conditions=[condition], find_culprits=False)
    (outcome,) = result.outcomes
    assert (outcome.verdicts[name], outcome.reasons[name]) == ("untested", reason)
    assert _line(text.render([result], Redactor()), name).startswith(f"[not tested] {name}: ")
    assert reason in _line(text.render([result], Redactor()), name)
    (run,) = jsonreport.render([result], Redactor())["servers"][0]["conditions"]
    assert run["notTested"][name] == reason
    (case,) = ET.fromstring(junit.render([result], Redactor())).findall(f"testsuite/testcase[@name='{name}']")
    assert case.find("skipped").get("message") == f"not tested: {reason}" and case.find("error") is None


def test_one_run_that_exercised_a_check_is_enough_to_call_it_passed(check):
    """Not tested under one condition, passed under another: passed."""
    result = check("clean", conditions=["plain", "eof"])
    assert _line(text.render([result], Redactor()), "shape").startswith("[pass] ")


def test_a_watched_path_is_a_recorder(check, tmp_path):
    """Where no call can show an execution, a path that must not change does."""
    result = check("no_safe_tool", effects=(str(tmp_path),))
    assert result.outcomes[0].verdicts["effects"] == "pass"


def test_an_advisory_condition_is_told_only_and_never_called_clean(check):
    """The log lines that a merging supervisor would send to the client: told, not failed, and no "clean" beside it."""
    result = check("chatty_stderr", conditions=["merged"])
    (outcome,) = result.outcomes
    assert (outcome.verdicts["framing"], outcome.status, result.status) == ("told", "clean", "clean")
    assert [problem.raw for problem in outcome.told] == [b"INFO serving get_answer\n"]
    report = text.render([result], Redactor())
    (line,) = [line for line in report.splitlines() if line.startswith("  merged ")]
    assert "told only: dirty" in line and "clean" not in line
    assert _line(report, "framing").startswith("[told only] ")
    (case,) = ET.fromstring(junit.render([result], Redactor())).findall("testsuite/testcase[@name='framing']")
    assert case.find("skipped").get("message").startswith("told only: non-protocol stdout on line ")


def test_a_server_that_is_silent_on_stderr_is_clean_when_merged(check):
    """The wrapper of the condition itself is no finding."""
    result = check("clean", conditions=["merged"])
    assert result.outcomes[0].told == [] and result.outcomes[0].notes == []
    assert set(result.outcomes[0].verdicts.values()) == {"pass"}


def test_an_expected_failure_is_not_called_passed(check):
    """It failed, as was expected: told only."""
    from stdout_guard.testing import gate
    from stdout_guard.testing.config import Expected

    result = check("print_in_tool", find_culprits=False)
    assert gate._take_expected(result.outcomes, [Expected("plain", "not-json", "known")]) == []
    assert result.outcomes[0].verdicts["framing"] == "told"
    assert _line(text.render([result], Redactor()), "framing").startswith("[told only] ")


def test_a_report_says_a_note_and_a_problem_once(check):
    """The same under every condition is written where it came up first; repetitions are counted."""
    result = check("no_safe_tool", conditions=["plain", "no-home", "empty-cwd"])
    assert text.render([result], Redactor()).count("note: no tool was called") == 1
    result = check("lenient", conditions=["plain", "no-home"])
    report = text.render([result], Redactor())
    assert report.count("it got a result") == 2
    assert report.count("executed-refused-frame: the same as under plain (2 times)") == 1


def test_a_server_that_ignores_unknown_requests_is_told_so_and_not_waited_for_again(check, servers):
    """A ping without an answer is a finding in each condition; only the first is awaited for the whole quiet time."""
    quiet = 3.0
    waiting = (
        "threading.Thread(target=lambda: select.select([], [], [], 600), daemon=True).start()"  # for who knows what
    )
    script = str(servers / "ignores_unknown.py")
    code = f"import runpy, select, threading; {waiting}; runpy.run_path({script!r}, run_name='__main__')"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(1, {str(servers)!r}); {code}"]
    result = check(command, conditions=["plain", "no-home"], limits={"quiet": quiet})
    for outcome in result.outcomes:
        assert [(p.code, p.why) for p in outcome.problems] == [("no-answer", "no answer to 'ping'")]
    plain, again = (outcome.run for outcome in result.outcomes)
    waits = [[mark.seconds for mark in run.marks if not mark.answered] for run in (plain, again)]
    assert [len(times) for times in waits] == [1, 1]
    assert waits[0][0] >= quiet > waits[1][0]


def test_a_tool_that_waits_for_long_is_slow_and_not_broken(check, servers, tmp_path):
    """Waiting for a clock or a network inside a call is work: the answer is awaited, and no buffer is blamed."""
    script = tmp_path / "sleepy.py"
    script.write_text(
        f"import sys, time\nsys.path.insert(1, {str(servers)!r})\nimport mcpbase\n"
        "mcpbase.serve(lambda name, arguments: time.sleep(3) or '42')\n"
    )
    began = time.monotonic()
    result = check([sys.executable, str(script)], limits={"quiet": 0.5})
    assert result.status == "clean" and time.monotonic() - began > 3
