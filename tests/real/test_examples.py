"""The SDK examples on the published SDKs: every answer on a clean wire, the print of the handler named."""

from __future__ import annotations

import environments
import pytest
from real import conversations, drive

from stdout_guard.transcript import judge

EXAMPLES = environments.ROOT / "examples"
ADD = conversations.mcp(("add", {"a": 2, "b": 40}))
HOVER = conversations.lsp(conversations.HOVER)


@pytest.mark.parametrize(
    ("environment", "example", "talk", "framing", "said"),
    [
        ("newest", "mcp_server.py", ADD, "ndjson", "adding 2 and 40"),
        ("mcp1", "mcp_server.py", ADD, "ndjson", "adding 2 and 40"),
        ("newest", "lsp_server.py", HOVER, "content-length", "hover at"),
    ],
)
def test_an_example_answers_on_a_clean_wire(environment: str, example: str, talk, framing, said: str) -> None:
    """What the example's first line promises, on the real SDK; stderr names the example's own line."""
    command = [environments.python(environment), example]
    done = drive.exchange(command, talk, cwd=EXAMPLES, framing=framing, env=drive.environment())
    revision = "lsp" if framing == "content-length" else "auto"
    report = judge(done.stdout, framing=framing, revision=revision, sent=done.sent)
    assert report.ok, (report.findings, done)
    text = (EXAMPLES / example).read_text().splitlines()
    line = next(number for number, code in enumerate(text, 1) if "print(" in code)
    assert f"stdout-guard: {example}:{line} in" in done.report and said in done.report, done
