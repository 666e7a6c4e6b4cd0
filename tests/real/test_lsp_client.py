"""An LSP client (pytest-lsp) against noisy language servers on pygls, and python-lsp-server with a noisy plugin."""

from __future__ import annotations

from pathlib import Path

import environments
import pytest
from real import conversations, drive, expect, talk

SERVERS = {"pygls 2.1": ("newest", "pygls2"), "pygls 1.3": ("oldest", "pygls1")}
NAMES = [pytest.param("pygls 2.1"), pytest.param("pygls 1.3", marks=pytest.mark.slow)]
CALLS = ["hover", "command"]
ANSWERS = ["initialized", "HELLO", "hello", 0]


def converse(name: str, order: str, folder: Path, **how: object) -> tuple[Path, talk.Seen]:
    environment, source = SERVERS[name]
    path = expect.stage(folder, source, order, "pygls.server")
    command = [environments.python(environment), path.name]
    return path, talk.client("lsp_client.py", "newest", command, folder, CALLS, **how)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("order", "unbuffered"), [("guard first", True), ("sdk first", False)])
def test_every_answer_arrives(name: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """The client gets each answer and meets nothing it cannot parse; stderr names what strayed while it listened."""
    path, seen = converse(name, order, tmp_path, unbuffered=unbuffered)
    assert seen.answers == ANSWERS, str(seen)
    assert not seen.complaints, str(seen)
    missing = expect.unnamed(seen.report, path, expect.HEARD)
    assert not missing, "\n".join([*missing, str(seen)])


@pytest.mark.parametrize(("order", "unbuffered"), [("guard first", False), ("sdk first", True)])
def test_python_lsp_server_in_a_script(order: str, unbuffered: bool, tmp_path: Path) -> None:
    """pylsp's `main` binds the function that serves by name: it gets the wire even when it was imported first."""
    path = expect.stage(tmp_path, "pylsp_main", order, "pylsp.__main__")
    expect.stage_pylsp_plugin(tmp_path)
    symbols = ("textDocument/documentSymbol", {"textDocument": {"uri": "file:///nowhere/example.py"}})
    done = drive.exchange(
        [environments.python("newest"), path.name],
        conversations.lsp(symbols),
        cwd=tmp_path,
        framing="content-length",
        env=drive.environment(unbuffered=unbuffered),
    )
    found, strays = expect.messages(done.stdout, "content-length")
    assert not strays and {1, 2, 3} <= {m.get("id") for m in found}, f"{done}"
    missing = expect.unnamed(done.report, path, ["during"], own=False)
    assert not missing, "\n".join([*missing, str(done)])
    assert done.status == 0, f"{done}"


def test_without_the_guard_an_answer_is_lost(tmp_path: Path) -> None:
    """Text without a newline before a header costs the client that answer: the guarded run can fail."""
    _, seen = converse("pygls 2.1", "bare", tmp_path, unbuffered=True, deadline=talk.LOST)
    assert seen.answers != ANSWERS and seen.complaints, str(seen)
