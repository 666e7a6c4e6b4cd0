"""The command line's own words: help with an example for every verb, the version, statuses, and no colour in a pipe."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stdout_guard import __version__
from stdout_guard.cli import STATUSES, VERBS

ROOT = Path(__file__).resolve().parents[2]


def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, its streams pipes."""
    line = [sys.executable, "-m", "stdout_guard", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STDOUT_GUARD")}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(line, env={**kept, **env}, **pipes, text=True, timeout=60)
    print(shlex.join(line), done.returncode, done.stdout, done.stderr, sep="\n")
    return done


@pytest.mark.parametrize("verb", [[], *([name] for name in VERBS)], ids=lambda verb: "".join(verb) or "none")
def test_help_has_an_example_and_the_statuses(verb: list[str]) -> None:
    """--help leaves with 0, says what to type, and what the status will mean."""
    done = call(*verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    examples = done.stdout.partition("examples:\n")[2].splitlines()
    assert any(" ".join(["stdout-guard", *verb]) in line for line in examples)
    assert "exit status" in done.stdout
    if verb != ["run"]:  # its statuses are the server's
        assert STATUSES in done.stdout


def test_the_version() -> None:
    """--version says the one that the package has, and loads no verb."""
    assert call("--version").stdout == f"stdout-guard {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "begin with: stdout-guard check -- YOUR-SERVER"),
        (["chek"], "'check'"),
        (["check"], "stdout-guard check"),
        (["check", "--"], "stdout-guard check"),
        (["check", "--condition", "none", "--", "true"], "plain"),
        (["validate", "--direction", "up", "-"], "server-to-client"),
        (["corpus"], "list|show|add"),
        (["run"], "stdout-guard run"),
        (["run", "no-such-command-at-all"], "no-such-command-at-all"),
    ],
    ids=str,
)
def test_a_wrong_call_says_what_next(arguments: list[str], says: str) -> None:
    """A usage error is status 2, on stderr, without a traceback, and names what was meant or what to type."""
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "xterm-256color", "FORCE_COLOR": "0"}], ids=str)
def test_a_pipe_gets_no_colour(env: dict[str, str]) -> None:
    """No control sequence leaves for a pipe, in help, in errors and in a report."""
    server = ROOT / "examples" / "plain_server.py"
    for arguments in (["--help"], ["chek"], ["check", "--condition", "plain", "--", sys.executable, str(server)]):
        done = call(*arguments, **env)
        assert "\x1b" not in done.stdout + done.stderr


def test_the_statuses_of_a_verdict(tmp_path: Path) -> None:
    """0 clean, 1 broken, 3 could not be judged: what a CI job reads."""
    good, bad = tmp_path / "good.bin", tmp_path / "bad.bin"
    good.write_bytes(b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    bad.write_bytes(b"hello\n")
    assert call("validate", str(good)).returncode == 0
    assert call("validate", str(bad)).returncode == 1
    assert call("validate", str(tmp_path / "missing")).returncode == 3
    assert call("check", "--condition", "plain", "--", str(tmp_path / "missing")).returncode == 3
