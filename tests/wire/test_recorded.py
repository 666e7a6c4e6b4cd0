"""Traffic recorded from real servers on the published SDKs is clean: no false finding."""

import pytest
from wire.tables import DATA, rows

from stdout_guard.framing import encode
from stdout_guard.transcript import explain, judge

# server -> what is rightly found: these SDKs send log messages without declaring the capability
KNOWN = {
    "mcp-1.30.0-logs": ["undeclared-logging"],
    "mcp-1.30.0-bad": ["undeclared-logging"],
    "mcp-2.3.0-logs": ["undeclared-logging"],
}
NAMES = sorted(path.stem for path in (DATA / "recorded").glob("*.jsonl"))


def replay(name):
    """(meta, what the client sent, what the server wrote) of one recording."""
    meta, *frames = rows(f"recorded/{name}.jsonl")
    sides = {"client": b"", "server": b""}
    for frame in frames:
        sides[frame["from"]] += encode(meta["framing"], frame["text"].encode())
    return meta, sides["client"], sides["server"]


def test_there_are_recordings():
    """Every family is there: mcp 1 and 2, fastmcp, LSP, ACP."""
    families = ("mcp-1.", "mcp-2.", "fastmcp-4.", "pygls-2.", "agent-client-protocol-0.")
    assert all(any(name.startswith(family) for name in NAMES) for family in families)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_session(name):
    """With what the client sent: wire, shapes and session are in order, or break exactly the rule they break."""
    meta, sent, stdout = replay(name)
    report = judge(stdout, framing=meta["framing"], sent=sent)
    assert [finding.code for finding in report.findings] == KNOWN.get(name, []), explain(report)
    assert all(finding.severity == "warning" for finding in report.findings)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_stdout_alone(name):
    """Without it, and in auto: nothing is found in the server's output by itself."""
    meta, _, stdout = replay(name)
    report = judge(stdout, framing=meta["framing"])
    assert report.ok, explain(report)


@pytest.mark.parametrize("answered", [False, True], ids=["alone", "with the server's side"])
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("-bad")])
def test_recorded_client(name, answered):
    """The client's side is clean in its own direction, unknown methods and probes of the other era apart."""
    meta, sent, stdout = replay(name)
    report = judge(sent, framing=meta["framing"], direction="client-to-server", sent=stdout if answered else None)
    assert {finding.code for finding in report.findings} <= {"unknown-method", "not-in-revision"}, explain(report)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("mcp")])
def test_an_echo_is_found(name):
    """The same client's bytes, on stdout, are refused: that is an echo."""
    meta, sent, _ = replay(name)
    assert "wrong-direction" in {finding.code for finding in judge(sent, framing=meta["framing"]).findings}
