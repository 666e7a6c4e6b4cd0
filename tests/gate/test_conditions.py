"""What each condition brings to light, and that a clean server passes them all."""

from __future__ import annotations

import time

import pytest

from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import choose

SUPPLIED = {name for name, condition in CONDITIONS.items() if condition.supplied}


def test_the_default_table_holds_every_condition_once_and_says_what_it_teaches():
    """The list of conditions is part of the contract: one sentence each, no name twice."""
    assert set(CONDITIONS) == {
        "plain", "eof", "idle", "verbose", "no-home", "missing-home", "read-only-cwd", "empty-cwd", "warnings",
        "dev-mode", "ascii", "latin-1", "unbuffered", "buffered", "bad-argument", "start-failure", "stderr-closed",
        "stderr-unread", "merged", "terminal", "sigterm", "repeat",
    }  # fmt: skip
    assert all(condition.teaches and "." not in condition.teaches[-1] for condition in CONDITIONS.values())


def test_a_clean_server_is_clean_under_every_condition_within_a_minute(check):
    """No condition invents a finding; the supplied one is named as skipped; cold and warm start are two runs."""
    began = time.monotonic()
    result = check("clean", conditions=None)
    assert time.monotonic() - began < 60
    assert [(o.run.condition.name, o.status) for o in result.outcomes if o.status != "clean"] == []
    assert len(result.outcomes) == len(CONDITIONS) - len(SUPPLIED) + 1
    assert result.plan.skipped == tuple(SUPPLIED)


@pytest.mark.parametrize(
    ("server", "condition", "raw"),
    [
        ("usage_on_stdout", "bad-argument", b"usage: usage_on_stdout.py [stdio|sse]\n"),
        ("stderr_fallback", "stderr-closed", b"no stderr, logging to stdout\n"),
        ("noise_at_exit", "eof", b"Goodbye, 3 documents saved\n"),
        ("noise_at_exit", "merged", None),
        ("terminal_greeting", "terminal", b"\x1b[1mWelcome\x1b[0m\n"),
        ("goodbye_on_sigterm", "sigterm", b"terminated, bye\n"),
        ("debug_on_stdout", "verbose", b"DEBUG: 2 tools registered\n"),
        ("late_notice", "idle", b"A newer version is available\n"),
        ("home_notice", "missing-home", b"no home, settings are not kept\n"),
        ("home_notice", "no-home", b"no home, settings are not kept\n"),
        ("log_fallback", "read-only-cwd", b"cannot write server.log, logging here\n"),
        ("latin1_answer", "latin-1", b'{"jsonrpc": "2.0", "id": 5, "result": "Z\xfcrich"}\n'),
        ("first_start", "repeat", b"first start: building the cache\n"),
    ],
)
def test_a_condition_brings_its_fault_to_light(check, server, condition, raw):
    """The fault shows under its condition and not in the plain run; an advisory condition tells and does not fail."""
    result = check(server, conditions=[condition], find_culprits=False)
    found = [problem.raw for outcome in result.outcomes for problem in outcome.problems]
    if raw is None:
        assert result.status == "clean" and any("not-json" in note for note in result.outcomes[0].notes)
    else:
        assert found == [raw]


@pytest.mark.parametrize(
    "server",
    ["usage_on_stdout", "stderr_fallback", "terminal_greeting", "goodbye_on_sigterm", "debug_on_stdout", "home_notice",
     "log_fallback"],
)  # fmt: skip
def test_those_faults_do_not_show_in_the_plain_run(check, server, tmp_path):
    """Without its condition the fault stays hidden: this is why the table exists."""
    assert check(server, env={"HOME": str(tmp_path)}, cwd=str(tmp_path)).status == "clean"


def test_a_forced_start_up_failure_is_judged_on_its_bytes_only(check):
    """The user's own failure: the exit status is free, the report must not be on stdout."""
    result = check("usage_on_stdout", conditions=["start-failure"], start_failure={"arguments": ["--broken"]})
    (problem,) = result.outcomes[0].problems
    assert (problem.check, problem.raw) == ("framing", b"usage: usage_on_stdout.py [stdio|sse]\n")


def test_a_server_that_blocks_on_an_unread_stderr_is_named(check):
    """A client need not read stderr: the answers must come all the same."""
    result = check("fills_stderr", conditions=["stderr-unread"])
    (problem,) = result.outcomes[0].problems
    assert (problem.check, problem.code) == ("session", "blocked-on-stderr")
    assert check("fills_stderr").status == "clean"


def test_sigterm_that_is_ignored_is_named(check):
    """SIGTERM with stdin open must end the server within its grace."""
    (outcome,) = check("ignores_eof", conditions=["sigterm"]).outcomes
    assert [(p.code, "after SIGTERM" in p.why) for p in outcome.problems] == [("does-not-exit", True)]
    assert outcome.run.ending.how == "SIGKILL"


def test_sigterm_meets_a_server_at_rest(check):
    """The signal is not sent on the heels of an answer, when the write that brought it may not have returned."""
    assert check("works_after_answer", conditions=["sigterm"]).status == "clean"


def test_own_values_reach_the_server_in_every_condition():
    """The user's part of a start-up failure replaces the placeholder, nothing else."""
    chosen, skipped = choose(CONDITIONS, ["plain", "start-failure"], {"env": {"KEY": ""}, "unset": ["OTHER"]})
    assert skipped == ()
    assert [dict(one.env) for one in chosen] == [{}, {"KEY": "", "OTHER": None}]
