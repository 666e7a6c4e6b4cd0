"""Published servers, as they are installed: which are clean, which are dirty under what, and who writes it."""

from __future__ import annotations

import json
import shutil
import subprocess

import environments
import pytest

from stdout_guard.testing import gate
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import Plan
from stdout_guard.testing.run import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NPM = {"@modelcontextprotocol/server-memory": "2026.8.31", "@modelcontextprotocol/server-everything": "2026.8.31"}


@pytest.fixture(scope="module")
def npm():
    """Console scripts of published npm servers, installed once into the environments' folder."""
    folder = environments.home() / "npm-servers"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": NPM}))
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        (folder / ".complete").touch()
    return lambda name: [str(folder / "node_modules" / ".bin" / name)]


@pytest.mark.parametrize("program", ["mcp-server-time", "mcp-server-git"])
def test_python_servers_are_clean_in_the_plain_run(check, program):
    """mcp-server-time and mcp-server-git: five checks passed, no note of noise."""
    result = check([str(environments.script("newest", program))], limits={"start": 60.0})
    assert result.status == "clean"


@pytest.mark.parametrize("program", ["mcp-server-memory", "mcp-server-everything"])
def test_npm_servers_are_clean_in_the_plain_run(check, npm, program):
    """server-memory and server-everything."""
    assert check(npm(program), limits={"start": 60.0}).status == "clean"


def test_the_usage_text_of_server_everything_is_dirty_with_its_exit_status(check, npm):
    """A bad argument: the list of transports goes to stdout; exit 1 makes it no better."""
    everything = npm("mcp-server-everything")
    result = check(everything, conditions=["bad-argument"], start_failure=None, limits={"start": 60.0})
    (outcome,) = result.outcomes
    assert result.status == "broken" and outcome.run.ending.returncode == 1
    assert any(b"vailable transports" in (problem.raw or b"") for problem in outcome.problems)


def test_office_word_is_dirty_at_exit_with_its_line(check):
    """Its banner is flushed after the last answer; the second run names the file and line that printed it."""
    result = check([str(environments.script("newest", "word_mcp_server"))], limits={"start": 60.0, "grace": 10.0})
    (outcome,) = result.outcomes
    dirty = [problem for problem in outcome.problems if problem.check == "framing"]
    assert dirty and {problem.step for problem in dirty} == {"exit"}
    assert all(".py:" in problem.culprits[0] for problem in dirty), [problem.culprits for problem in dirty]


def test_excel_is_dirty_with_stderr_closed(check):
    """With no stderr its message goes to stdout; in the plain run it does not."""
    command = [str(environments.script("newest", "excel-mcp-server")), "stdio"]
    result = check(command, conditions=["plain", "stderr-closed"], limits={"start": 60.0})
    assert [outcome.status for outcome in result.outcomes] == ["clean", "broken"]


def test_an_unpinned_server_that_dies_at_start_is_untested():
    """mcp-server-sqlite with today's SDK: installed fresh, exits before answering; exit status 3, never clean."""
    plan = Plan(Server("sqlite", ("mcp-server-sqlite",)), (CONDITIONS["plain"],), package="mcp-server-sqlite")
    result = gate.check(plan)
    assert result.packaging is None
    assert result.outcomes[0].untested.startswith("exited before answering"), result.outcomes[0].untested
    assert gate.status([result]) == 3
