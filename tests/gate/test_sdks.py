"""The same faults on real SDKs: each is caught for its own reason, and a clean server on each passes in silence."""

from __future__ import annotations

import sys

import environments
import pytest

from stdout_guard.testing.hostile import Call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LIMITS = {"start": 90.0, "answer": 60.0, "quiet": 8.0, "grace": 5.0}  # for a machine that does other things too
SDKS = {
    "mcp 1": ("mcp1", "sdk_mcp1"),
    "mcp 2": ("newest", "sdk_mcp2"),
    "fastmcp": ("newest", "sdk_fastmcp"),
    "fastmcp 2": ("fastmcp2", "sdk_fastmcp"),
}
# fault: check, code, bytes, step, who (None: not asked)
FAULTS = {
    "print": ("framing", "not-json", b"listing tables\n", "call get_answer", None),
    "raw": ("framing", "not-json", b"listing tables\n", "call get_answer", "no line to name"),
    "banner": ("framing", "not-json", b"loading optional extension\n", "start-up", "faults.py:"),
    "child": ("framing", "not-json", b"Already up to date.\n", "call get_answer", None),
    "exit": ("framing", "not-json", b"Goodbye, 3 documents saved\n", "exit", "faults.py:"),
    "crash": ("framing", "not-json", b"Oops, something went wrong", "exit", "faults.py:"),
    "glued-import": ("framing", "not-json", b'Loading model... {"jsonrpc"', "start-up", "no line to name"),
    "glued-tool": ("framing", "not-json", b'working...{"jsonrpc"', "call get_answer", "no line to name"),
    "utf8": ("framing", "not-utf-8", b"Z\xfcrich\n", "call get_answer", "no line to name"),
    "json": ("shape", "version", b'{"level": "info"', "call get_answer", "no line to name"),
    "nan": ("framing", "not-a-number", b"NaN", "call get_answer", None),
    "waits": ("framing", "not-json", b"text that waits\n", None, None),
    "no-id": ("session", "answered-notification", b'"id": null', "call get_answer", None),
    "twice": ("session", "answered-twice", b'"id": 1', "call get_answer", None),
    "no-newline": ("framing", "no-final-newline", b"list_changed", "exit", None),
}


@pytest.fixture(params=list(SDKS))
def sdk(request, servers):
    """The command of a server on each SDK."""
    environment, script = SDKS[request.param]
    return request.param, [str(environments.python(environment)), str(servers / f"{script}.py")]


def test_a_clean_server_on_each_sdk_has_no_finding_and_no_note(check, sdk):
    """The whole default table: nothing is found, nothing is remarked."""
    _, command = sdk
    result = check(command, conditions=None, calls=(Call("get_answer"),), limits=LIMITS)
    assert [(o.run.condition.name, o.status) for o in result.outcomes if o.status != "clean"] == []
    assert [o.notes for o in result.outcomes if o.run.condition.name == "plain"] == [[]]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_on_each_sdk_is_caught_for_its_own_reason(check, sdk, fault):
    """Check, code, bytes, step, and who wrote them."""
    _, command = sdk
    check_name, code, raw, step, culprit = FAULTS[fault]
    (outcome,) = check([*command, fault], calls=(Call("get_answer"),), limits=LIMITS).outcomes
    found = [p for p in outcome.problems if (p.check, p.code) == (check_name, code) and raw in (p.raw or b"")]
    assert found, outcome.problems
    assert step is None or found[0].step == step
    assert culprit is None or culprit in "; ".join(found[0].culprits)
    assert {p.check for p in outcome.problems} <= {check_name, "exit"}


def test_a_shim_that_mends_requests_is_caught(check, sdk, servers):
    """A tool that runs on a malformed request, whoever mended it."""
    _, command = sdk
    result = check(
        [sys.executable, str(servers / "lenient_shim.py"), *command], calls=(Call("get_answer"),), limits=LIMITS
    )
    codes = [problem.code for problem in result.outcomes[0].problems]
    assert codes == ["executed-refused-frame"]


def test_a_wrapper_that_prints_or_merges_is_caught(check, sdk, servers):
    """The version line of a wrapper, and 2>&1 in it."""
    _, command = sdk
    (printed,) = check(
        [str(servers / "wrapper_version.sh"), *command], calls=(Call("get_answer"),), limits=LIMITS
    ).outcomes
    assert [p.raw for p in printed.problems] == [b"acme-runner 2.1.0\n"]
    (merged,) = check(
        ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *command], calls=(Call("get_answer"),), limits=LIMITS
    ).outcomes
    assert "merged-streams" in {p.code for p in merged.problems}
