"""Other protocols than MCP: Content-Length framing, ACP's opening, and plain JSON-RPC."""

from __future__ import annotations

import sys

from stdout_guard.testing.hostile import Call
from stdout_guard.testing.scanner import Scanner

HOVER = Call("textDocument/hover", {"textDocument": {"uri": "file:///a"}, "position": {"line": 0, "character": 0}})


def test_a_language_server_is_driven_and_judged(check, command_of):
    """initialize, initialized, a request of the user's, shutdown, exit: clean under Content-Length framing."""
    (outcome,) = check(command_of("lsp"), protocol="lsp", calls=(HOVER,)).outcomes
    assert outcome.status == "clean" and outcome.verdicts["effects"] == "not asked"
    steps = [mark.step for mark in outcome.run.marks]
    assert steps == ["start-up", "initialized", "call textDocument/hover", "idle", "shutdown", "exit"]


def test_a_line_between_the_frames_of_a_language_server_is_caught_and_named(check, command_of):
    """The next frame is still found, so that the session goes on; the second run lets its frames pass."""
    (outcome,) = check([*command_of("lsp"), "noisy"], protocol="lsp", calls=(HOVER,)).outcomes
    problem = outcome.problems[0]
    assert problem.check == "framing" and b"indexing workspace" in problem.raw
    assert problem.step == "call textDocument/hover" and "lsp.py:26 in <module>" in problem.culprits[0]


def test_plain_json_rpc_needs_no_handshake(check, servers, tmp_path):
    """A server of one's own protocol: the user's calls are all that is sent."""
    script = tmp_path / "plain.py"
    script.write_text(
        "import json, sys\nfor line in sys.stdin:\n    m = json.loads(line)\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': m['params']}), flush=True)\n"
    )
    result = check([sys.executable, str(script)], protocol="jsonrpc", calls=(Call("work", {"n": 1}),))
    assert result.status == "clean"
    assert [mark.step for mark in result.outcomes[0].run.marks] == ["call work", "idle", "exit"]


def test_an_answer_glued_to_noise_is_still_found():
    """A dirty server is driven to its end: its answers are read wherever they stand."""
    lines = Scanner(content_length=False)
    assert lines.feed(b'Loading {x} ... {"jsonrpc":"2.0","id":1,"res', 0.0) == []
    (message,) = lines.feed(b'ult":{}} trailing\nmore', 0.5)
    assert message.content == {"jsonrpc": "2.0", "id": 1, "result": {}} and message.at == 0.5
    bodies = Scanner(content_length=True)
    (message,) = bodies.feed(b'banner\nContent-Length: 8\r\nX: y\r\n\r\n{"id":1}tail', 0.0)
    assert message.content == {"id": 1}
