"""The official MCP clients, Python and TypeScript, versions 1 and 2 of each, against noisy servers on Python SDKs."""

from __future__ import annotations

from pathlib import Path

import environments
import pytest
from real import expect, talk

CLIENTS = {
    "python 2": ("mcp_client.py", "newest"),
    "python 1": ("mcp_client.py", "mcp1"),
    "python 1.9": ("mcp_client.py", "oldest"),
    "typescript 1": ("mcp_client.mjs", "npm 1"),
    "typescript 2": ("mcp_client.mjs", "npm 2"),
}
SERVERS = {
    "mcp 2.3": ("newest", "mcp2", "mcp.server.stdio"),
    "mcp 1.30": ("mcp1", "mcp1", "mcp.server.stdio"),
    "fastmcp 4.2": ("newest", "fastmcp_any", "fastmcp"),
    "fastmcp 3.4": ("mcp1", "fastmcp_any", "fastmcp"),
    "fastmcp 2.14": ("fastmcp2", "fastmcp_any", "fastmcp"),
    "mcp 1.9": ("oldest", "mcp1", "mcp.server.stdio"),
}
QUICK = {
    ("python 2", "mcp 2.3"),
    ("python 2", "mcp 1.30"),
    ("python 1", "mcp 1.30"),
    ("typescript 1", "mcp 2.3"),
    ("typescript 1", "mcp 1.30"),
    ("typescript 2", "mcp 2.3"),
}
PAIRS = [
    pytest.param(client, server, marks=[pytest.mark.slow] * ((client, server) not in QUICK))
    for client in CLIENTS
    for server in SERVERS
]
CALLS = [("shout", {"text": "hello"}), ("whisper", {"text": "HELLO"})]
ANSWERS = ["initialized", ["shout", "whisper"], "HELLO", "hello"]


def converse(client: str, server: str, order: str, folder: Path, **how: object) -> tuple[Path, talk.Seen]:
    environment, source, sdk = SERVERS[server]
    path = expect.stage(folder, source, order, sdk)
    program, home = CLIENTS[client]
    return path, talk.client(program, home, [environments.python(environment), path.name], folder, CALLS, **how)


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_every_answer_arrives_and_the_client_logs_no_error(client: str, server: str, tmp_path: Path) -> None:
    """A client of a guarded noisy server gets each answer, meets no line it cannot parse, and stderr names them all.

    The import order and Python's buffering alternate from pair to pair.
    """
    odd = (list(CLIENTS).index(client) + list(SERVERS).index(server)) % 2 == 1
    path, seen = converse(client, server, "sdk first" if odd else "guard first", tmp_path, unbuffered=not odd)
    assert seen.answers == ANSWERS, str(seen)
    assert not seen.complaints, str(seen)
    # this client kills its server with the last answer, and a line still without its newline goes with it
    patient = client != "python 1.9"
    missing = expect.unnamed(seen.report, path, expect.HEARD, own=patient)
    assert not missing, "\n".join([*missing, str(seen)])


@pytest.mark.parametrize("client", ["python 2", "python 1", "typescript 1", "typescript 2"])
def test_without_the_guard_the_client_complains(client: str, tmp_path: Path) -> None:
    """The same client does notice stray lines: its silence in the guarded run means something."""
    _, seen = converse(client, "mcp 1.30", "bare", tmp_path, unbuffered=True, deadline=talk.LOST)
    assert seen.complaints, str(seen)
    assert seen.answers != ANSWERS, str(seen)
