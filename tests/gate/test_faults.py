"""Each kind of fault is caught for its own reason, with the bytes and who wrote them, within ten seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import pytest

SECONDS = 10.0


@dataclass(frozen=True)
class Fault:
    """A faulty server, the check and code it must fail, what its raw bytes begin or end with, and who wrote them."""

    server: str
    check: str
    code: str
    raw: bytes | None = None
    step: str | None = None
    culprit: str | None = None
    others: frozenset[str] = frozenset()  # checks that fail with it, rightly


FAULTS = [
    Fault("print_in_tool", "framing", "not-json", b"listing tables\n", "call get_answer", "print_in_tool.py:7 in tool"),
    Fault(
        "banner_at_import", "framing", "not-json", b"loading optional", "start-up", "noisydep/__init__.py:3 in <module>"
    ),
    Fault("child_prints", "framing", "not-json", b"Already up to date.\n", "call get_answer", "child_prints.py:9"),
    Fault("native", "framing", "not-json", b"ggml_init", "call get_answer", "no line to name"),
    Fault("noise_at_exit", "framing", "not-json", b"Goodbye, 3 documents", "exit", "noise_at_exit.py:7 in <lambda>"),
    Fault(
        "crash_handler",
        "framing",
        "not-json",
        b"Oops, something went wrong: no such table\n",
        "call get_answer",
        "crash_handler.py:9 in hook",
        frozenset({"session", "exit"}),
    ),
    Fault("glued_at_import", "framing", "not-json", b'Loading model... {"jsonrpc"', "start-up", "glued_at_import.py:7"),
    Fault(
        "glued_in_tool", "framing", "not-json", b'working...{"jsonrpc"', "call get_answer", "glued_in_tool.py:7 in tool"
    ),
    Fault("invalid_utf8", "framing", "not-utf-8", b"Z\xfcrich", "call get_answer", "protocol writer itself"),
    Fault("not_jsonrpc", "shape", "version", b'{"level": "info"', "call get_answer", "not_jsonrpc.py:9 in tool"),
    Fault("nan", "framing", "not-a-number", b"NaN", "call get_answer", "protocol writer itself"),
    Fault("no_newline", "framing", "no-final-newline", b'"data": "bye"}}', "exit", "protocol writer itself"),
    Fault("lenient", "effects", "executed-refused-frame", b'"jsonrpc": "1.0"', "hostile lines"),
    Fault("unflushed", "session", "unflushed", None, "exit"),
    Fault("answers_notification", "session", "answered-notification", b'"id": null', "initialized"),
    Fault("two_answers", "session", "answered-twice", b'"id": 5', "call get_answer"),
    Fault("survivor", "exit", "survivor"),
    Fault("ignores_eof", "exit", "does-not-exit"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.server)
def test_a_fault_is_caught_for_its_own_reason(check, fault):
    """Check, code, bytes, step and culprit are those of the fault, and no other check is blamed for it."""
    began = time.monotonic()
    result = check(fault.server)
    seconds = time.monotonic() - began
    (outcome,) = result.outcomes
    assert result.status == "broken"
    assert {name for name, verdict in outcome.verdicts.items() if verdict == "fail"} == {fault.check, *fault.others}
    found = [problem for problem in outcome.problems if problem.code == fault.code and problem.check == fault.check]
    assert found, outcome.problems
    problem = found[0]
    assert fault.raw is None or fault.raw in (problem.raw or b"")
    assert fault.step is None or problem.step == fault.step
    assert fault.culprit is None or fault.culprit in "; ".join(problem.culprits)
    assert problem.advice
    assert seconds < SECONDS


def test_a_clean_server_has_no_finding_and_no_note(check):
    """Silence is what a clean server gets: no problem, no note, five checks passed."""
    result = check("clean")
    (outcome,) = result.outcomes
    assert result.status == "clean"
    assert outcome.problems == [] and outcome.notes == []
    assert set(outcome.verdicts.values()) == {"pass"}


def test_a_server_of_the_revision_without_initialize_is_clean(check):
    """The era is found out: a refused initialize is followed by server/discover (MCP 2026-07-28)."""
    result = check("modern_only")
    assert result.status == "clean"
    run = result.outcomes[0].run
    assert run.protocol.revision == "2026-07-28" and b"server/discover" in run.stdin


def test_a_wrapper_that_prints_is_told_from_the_server(check, command_of, servers):
    """What a shell script prints before the server is not blamed on any line of the server."""
    result = check([str(servers / "wrapper_version.sh"), *command_of("clean")])
    (problem,) = result.outcomes[0].problems
    assert problem.raw == b"acme-runner 2.1.0\n" and problem.step == "start-up"
    assert "by a wrapper" in problem.culprits[0] and problem.blame == []


def test_a_wrapper_that_merges_stderr_is_named(check, command_of):
    """2>&1 in the command is proven by the descriptors, and the log line is not blamed on print()."""
    result = check(["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *command_of("chatty_stderr")])
    codes = {problem.code: problem for problem in result.outcomes[0].problems}
    assert set(codes) == {"not-json", "merged-streams"}
    assert codes["not-json"].raw == b"INFO serving get_answer\n"
    assert "2>&1" in codes["merged-streams"].advice and "wrapper" in codes["not-json"].culprits[0]


def test_importing_the_package_without_installing_is_explained(check):
    """`import stdout_guard` alone does nothing; the report names the line and the cure."""
    (outcome,) = check("imported_only").outcomes
    assert "imported_only.py:5 imports stdout_guard without installing it" in outcome.problems[0].advice


def test_an_effect_that_no_answer_shows_is_caught(check, tmp_path):
    """A server that refuses politely but acts first changes a watched path: contract 3 is broken."""
    effect = tmp_path / "deployed"
    result = check("hidden_effect", env={"EFFECT_FILE": str(effect)}, effects=(str(effect),))
    (problem,) = result.outcomes[0].problems
    assert (problem.check, problem.code) == ("effects", "effects-changed")
    assert effect.read_text() == "deployed\n" * 2


def test_a_server_that_dies_at_start_is_untested_and_not_clean(check):
    """Nothing was proved about it: exit status 3, with the end of stderr, and no condition is called clean."""
    from stdout_guard.testing import gate

    result = check("dies_at_start", conditions=["plain", "eof", "verbose"])
    assert [outcome.status for outcome in result.outcomes] == ["untested"] * 3
    assert result.outcomes[0].untested == "exited before answering, exit 1"
    assert b"ModuleNotFoundError" in result.outcomes[0].run.stderr
    assert gate.status([result]) == 3
    assert set(result.outcomes[0].verdicts.values()) == {"untested"}


def test_a_silent_server_is_untested(check):
    """Reading without ever answering is no clean wire; a second, patient try comes before the verdict."""
    result = check("silent", limits={"start": 2.0, "quiet": 0.5})
    assert result.status == "untested"
    assert "no answer to the first request within" in result.outcomes[0].untested
    assert "had nothing to do" in result.outcomes[0].untested


def test_a_slow_start_is_not_called_a_buffer(check, servers, tmp_path):
    """An answer that comes after the deadline of a server that was at work is slow, not unflushed: untested."""
    script = tmp_path / "slow.py"
    script.write_text(
        f"import sys, time\nsys.path.insert(1, {str(servers)!r})\nend = time.process_time() + 2\n"
        "while time.process_time() < end: pass\nimport mcpbase\nmcpbase.serve()\n"
    )
    result = check([sys.executable, str(script)], limits={"start": 1.0, "quiet": 0.5, "grace": 5.0})
    assert result.status == "untested" and "still at work" in result.outcomes[0].untested


def test_a_command_that_does_not_exist_is_untested(check):
    """A typing error in the command is not a clean server."""
    result = check(["no-such-program-anywhere"])
    assert result.status == "untested" and "no-such-program-anywhere" in result.outcomes[0].untested
