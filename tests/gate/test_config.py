"""The configuration file, the command line, and the exit statuses they lead to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest

from stdout_guard.testing import config
from stdout_guard.testing.config import ConfigError


def test_a_configuration_runs_several_servers_with_their_own_conditions(command_line, command_of, tmp_path):
    """Servers, conditions of one's own, environment, calls and expected failures come from one file."""
    (tmp_path / "stdout-guard.toml").write_text(
        f"""
[[condition]]
name = "shout"
like = "plain"
teaches = "our own switch"
env = {{ LOG_LEVEL = "DEBUG" }}

[[server]]
name = "one"
command = {json.dumps(command_of("clean"))}
conditions = ["plain", "shout"]

[[server]]
name = "two"
command = {json.dumps(command_of("debug_on_stdout"))}
conditions = ["shout"]
[[server.expected]]
condition = "shout"
code = "not-json"
reason = "a known one, mended in the next release"
"""
    )
    done = command_line("--config", "stdout-guard.toml", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["schemaVersion"] == 1
    one, two = report["servers"]
    assert [c["condition"] for c in one["conditions"]] == ["plain", "shout"]
    assert two["conditions"][0]["expected"][0]["reason"] == "a known one, mended in the next release"
    assert two["conditions"][0]["teaches"] == "our own switch"


def test_a_stale_expected_failure_fails(command_line, command_of, tmp_path):
    """An expected failure that no longer happens must be taken out: exit status 1 names it."""
    (tmp_path / "g.toml").write_text(
        f'[[server]]\nname = "s"\ncommand = {json.dumps(command_of("clean"))}\nconditions = ["plain"]\n'
        '[[server.expected]]\ncode = "not-json"\nreason = "was mended"\n'
    )
    done = command_line("--config", "g.toml")
    assert done.returncode == 1
    assert "stale expected failure: not-json under * did not happen: take it out (was mended)" in done.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[server]]\ncomand = ['x']", "no key 'comand'"),
        ("[[server]]\nname = 'x'", "needs a command, a wheel or a package"),
        ("[[server]]\ncommand = ['x']\nconditions = ['plane']", "no condition 'plane'; there are plain, eof"),
        ("[[server]]\ncommand = ['x']\nprotocol = 'mpc'", "no protocol 'mpc'; there are mcp"),
        ("[[server]]\ncommand = ['x']\nlimits = {starts = 3}", "no key 'starts'"),
        ("[[server]]\ncommand = ['x']\n[[server.expected]]\ncode = 'y'", "needs a code and a reason"),
        ("[[condition]]\nteaches = 'x'", "needs a name"),
        ("[[condition]]\nname = 'x'\nscript = ['handshake', 'dance']", "no step 'dance'"),
        ("[server]\ncommand = ['x']", "write [[server]], with two brackets"),
        ("", "no [[server]]"),
        ("[[server]", "Expected"),
    ],
)
def test_a_wrong_configuration_names_the_file_and_the_choices(tmp_path, text, complaint):
    """A usage error says where, what, and what there is instead."""
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(str(path))
    assert complaint in str(caught.value) and "wrong.toml" in str(caught.value)


def test_exit_statuses(command_line, command_of):
    """0 clean, 1 broken, 2 usage, 3 could not be tested."""
    plain = ("--condition", "plain", "--no-culprit")
    assert command_line(*plain, "--", *command_of("clean")).returncode == 0
    assert command_line(*plain, "--", *command_of("print_in_tool")).returncode == 1
    assert command_line(*plain, "--", *command_of("lenient")).returncode == 1
    assert command_line(*plain, "--", *command_of("dies_at_start")).returncode == 3
    assert command_line().returncode == 2
    assert command_line("--condition", "none", "--", "x").returncode == 2
    assert command_line("--config", "missing.toml").returncode == 2


def test_a_call_of_ones_own_is_made_with_its_arguments(command_line, command_of):
    """--call NAME=JSON chooses the tool; its window is named in the steps."""
    call = 'echo={"text": "Gr\\u00fc\\u00dfe"}'
    done = command_line("--condition", "plain", "--json", "--call", call, "--", *command_of("clean"))
    steps = [step["step"] for step in json.loads(done.stdout)["servers"][0]["conditions"][0]["steps"]]
    assert done.returncode == 0
    assert steps == [
        "start-up",
        "initialized",
        "list",
        "call echo",
        "requests at once",
        "hostile lines",
        "idle",
        "exit",
    ]


def _all_of(terminal: int) -> bytes:
    """What was written to a terminal whose other side is closed; one read may bring a part of it only."""
    shown = b""
    with open(terminal, "rb", buffering=0) as stream, contextlib.suppress(OSError):
        while piece := stream.read(65536):
            shown += piece
    return shown


def test_a_terminal_is_told_which_condition_runs(command_of):
    """A progress line on stderr when that is a terminal, wiped at the end; none otherwise."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "stdout_guard", "check", "--condition", "plain", "--", *command_of("clean")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, timeout=60)
    os.close(slave)
    shown = _all_of(master)
    assert done.returncode == 0 and b"[1/1] clean.py: plain" in shown and shown.endswith(b"\r\x1b[K")
