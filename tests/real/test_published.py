"""Published servers, not one line changed, under `stdout-guard run`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
import pytest
from real import conversations, drive, expect, talk

from stdout_guard.transcript import judge

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A console script of an environment, one tool call with its arguments, and what the answer must hold."""

    environment: str
    script: str
    call: tuple[str, Arguments]
    holds: str
    arguments: tuple[str, ...] = ()
    status: int = 0
    setup: Callable[[Path], None] = field(default=lambda folder: None)


def repository(folder: Path) -> None:
    """Make an empty git repository."""
    done = drive.exchange(["git", "init", "-q", "-b", "main", "."], [], cwd=folder)
    assert done.status == 0, f"{done}"


SERVERS = {
    "time": Published("newest", "mcp-server-time", ("get_current_time", {"timezone": "UTC"}), "UTC"),
    "git": Published("newest", "mcp-server-git", ("git_status", {"repo_path": "."}), "No commits", setup=repository),
    # its run_server() hands an object to sys.exit(): status 1 is its own, with and without the guard
    "office-word": Published(
        "newest", "word_mcp_server", ("create_document", {"filename": "a.docx"}), "a.docx", status=1
    ),
    "excel": Published(
        "newest", "excel-mcp-server", ("create_workbook", {"path": "{folder}/book.xlsx"}), "book.xlsx", ("stdio",)
    ),
    "calculator, on mcp 1": Published("mcp1", "mcp-server-calculator", ("calculate", {"expression": "6*7"}), "42"),
}


def run(name: str, folder: Path, mode: str | None, **how: Any) -> drive.Run:
    """Run the server as published (mode None) or under the guard in `mode`, and talk to it."""
    server = SERVERS[name]
    server.setup(folder)
    program = [environments.script(server.environment, server.script), *server.arguments]
    if mode is not None:
        guard = [environments.python(server.environment), "-m", "stdout_guard", "run", "--mode", mode]
        program = [*guard, server.script, *server.arguments]
    # a console script is looked for on PATH, as a user's shell would
    path = f"{environments.python(server.environment).parent}:/usr/bin:/bin"
    unbuffered = how.pop("unbuffered", False)
    env = drive.environment(unbuffered=unbuffered, PATH=path, **how.pop("settings", {}))
    tool, arguments = server.call
    call = (tool, {key: value.format(folder=folder) for key, value in arguments.items()})
    return drive.exchange(program, conversations.mcp(call), cwd=folder, env=env, **how)


def check(name: str, done: drive.Run) -> None:
    server = SERVERS[name]
    found, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{strays[:3]} on the wire\n{done}"
    assert expect.answered(done.stdout, "ndjson") == [1, 2, 3], f"{done}"
    assert not [m for m in found if "error" in m], f"{done}"
    assert server.call[0] in [tool["name"] for tool in found[1]["result"]["tools"]], f"{done}"
    assert server.holds in str(found[-1]["result"]), f"{found[-1]}\n{done}"
    assert not found[-1]["result"].get("isError"), f"{done}"
    verdict = judge(done.stdout, sent=done.sent)
    assert verdict.ok, f"{verdict.findings}\n{done}"


@pytest.mark.parametrize("name", list(SERVERS))
def test_a_published_server_answers_under_the_guard(name: str, tmp_path: Path) -> None:
    """initialize, tools/list and one tool call, each answered, nothing else on stdout, the server's own status."""
    done = run(name, tmp_path, "redirect")
    check(name, done)
    assert done.status == SERVERS[name].status, f"{done}"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["off", "redirect", "strict"])
@pytest.mark.parametrize("name", [n for n in SERVERS if n != "office-word"])
def test_modes(name: str, mode: str, tmp_path: Path) -> None:
    """A server that writes nothing stray runs the same in each mode, unbuffered too."""
    done = run(name, tmp_path, mode, unbuffered=True)
    check(name, done)
    assert done.status == 0, f"{done}"


def test_office_word_is_dirty_without_the_guard(tmp_path: Path) -> None:
    """Its banner, written before it serves, reaches the wire when the process ends."""
    done = run("office-word", tmp_path, None)
    _, strays = expect.messages(done.stdout, "ndjson")
    assert b"Server running on stdio transport\n" in strays, f"{done}"


def test_office_words_banner_is_named(tmp_path: Path) -> None:
    """The banner's lines go to stderr with the lines of the published source that print them."""
    done = run("office-word", tmp_path, "redirect")
    named = r"^stdout-guard: \S+/word_document_server/main\.py:\d+ in run_server: Server running on stdio transport$"
    assert re.search(named, done.report, re.MULTILINE), f"{done}"


def test_office_word_in_strict_mode_is_told_off(tmp_path: Path) -> None:
    """Strict ends a server that prints with the guard's own status, and its wire stays clean."""
    done = run("office-word", tmp_path, "strict")
    _, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{done}"
    assert done.status == 120, f"{done}"


def test_excel_with_stderr_closed_is_dirty_without_the_guard(tmp_path: Path) -> None:
    """With no stderr its `print(..., file=sys.stderr)` has None for a file, which means stdout."""
    done = run("excel", tmp_path, None, stderr_closed=True)
    _, strays = expect.messages(done.stdout, "ndjson")
    assert any(b"any Excel file" in line for line in strays), f"{done}"


@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
def test_excel_with_stderr_closed_is_clean_under_the_guard(unbuffered: bool, tmp_path: Path) -> None:
    """The line which has nowhere to go is not on the wire; a log file, when named, holds it."""
    log = tmp_path / "strays.log"
    settings = {"STDOUT_GUARD_LOG": str(log)}
    done = run("excel", tmp_path, "redirect", stderr_closed=True, unbuffered=unbuffered, settings=settings)
    check("excel", done)
    assert "any Excel file" in log.read_text("utf-8"), f"{done}"


def test_jedi_language_server_answers_under_the_guard(tmp_path: Path) -> None:
    """pytest-lsp's client gets the symbols of a document from it and an orderly end."""
    command = [environments.python("newest"), "-m", "stdout_guard", "run"]
    command.append(environments.script("newest", "jedi-language-server"))
    seen = talk.client("lsp_client.py", "newest", command, tmp_path, ["symbols"])
    assert seen.answers == ["initialized", ["answer"], 0], str(seen)
    assert not seen.complaints, str(seen)


PYLSP = {"by name": ["pylsp"], "by module": ["-m", "pylsp"]}
PYLSP_ITSELF = r"\S+/pylsp/\S+\.py:\d+"
SYMBOLS = ("textDocument/documentSymbol", {"textDocument": {"uri": "file:///nowhere/example.py"}})


@pytest.mark.parametrize("form", list(PYLSP))
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "bare"])
def test_python_lsp_server_with_a_noisy_plugin(form: str, guarded: bool, tmp_path: Path) -> None:
    """pylsp loads a plugin that prints: dirty as published, clean and named under the guard, started either way.

    Driven raw: today's pytest-lsp cannot read this server's capabilities, with or without us.
    """
    expect.stage_pylsp_plugin(tmp_path)
    interpreter = environments.python("newest")
    if guarded:
        command = [interpreter, "-m", "stdout_guard", "run", *PYLSP[form]]
    else:
        command = [interpreter, *PYLSP[form]] if form == "by module" else [interpreter.parent / "pylsp"]
    env = drive.environment(PATH=f"{interpreter.parent}:/usr/bin:/bin", PYTHONPATH=str(tmp_path))
    talk_ = conversations.lsp(SYMBOLS)
    done = drive.exchange(command, talk_, cwd=tmp_path, framing="content-length", env=env)
    _, strays = expect.messages(done.stdout, "content-length")
    assert bool(strays) is not guarded, f"{strays}\n{done}"
    if guarded:
        answers = expect.answered(done.stdout, "content-length")
        assert sorted(map(str, answers)) == ["1", "2", "3"], f"{done}"
        missing = expect.unnamed(done.report, tmp_path / "noisy_pylsp.py", ["during"], own=False, behind=PYLSP_ITSELF)
        assert not missing, "\n".join([*missing, str(done)])
        assert done.status == 0, f"{done}"
