"""What the tests of the gate share: running it, as a library and as a command, on the servers beside this file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from stdout_guard.testing import gate, text
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import Plan, choose
from stdout_guard.testing.protocols import PROTOCOLS
from stdout_guard.testing.records import Limits
from stdout_guard.testing.run import Server
from stdout_guard.testing.safe import Redactor

SERVERS = Path(__file__).parent / "servers"
Check = Callable[..., gate.ServerResult]


@pytest.fixture(autouse=True)
def _ordinary_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some machines export PYTHONUNBUFFERED, which hides what waits in a buffer; and no CI is to be written to."""
    for name in ("PYTHONUNBUFFERED", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "STDOUT_GUARD", "STDOUT_GUARD_LOG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def check() -> Check:
    """Run the gate on one of our servers (by name) or on any command; the report is printed for a failing test."""

    def run(
        command: str | Sequence[str], conditions: Sequence[str] = ("plain",), start_failure=None, **settings
    ) -> gate.ServerResult:
        words = [sys.executable, str(SERVERS / f"{command}.py")] if isinstance(command, str) else list(command)
        limits = Limits(**{"quiet": 3.0, "start": 15.0, "answer": 10.0, "grace": 2.0, **settings.pop("limits", {})})
        protocol = PROTOCOLS[settings.pop("protocol", "mcp")]
        culprits = settings.pop("find_culprits", True)
        server = Server(name="server", command=tuple(words), protocol=protocol, limits=limits, **settings)
        chosen, skipped = choose(CONDITIONS, conditions, start_failure)
        result = gate.check(Plan(server, chosen, skipped), find_culprits=culprits)
        print(text.render([result], Redactor.from_environment(dict(os.environ))))
        return result

    return run


@pytest.fixture
def command_line(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``stdout-guard check`` as users do."""

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stdout_guard", "check", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=100, cwd=tmp_path, env={**os.environ, **env}
        )
        print(f"{command}\nexit {done.returncode}\nstdout:\n{done.stdout}\nstderr:\n{done.stderr}")
        return done

    return run


@pytest.fixture
def command_of() -> Callable[..., list[str]]:
    """The command that starts one of our servers."""

    def command(name: str) -> list[str]:
        return [sys.executable, str(SERVERS / f"{name}.py")]

    return command


@pytest.fixture
def servers() -> Path:
    """The folder of our servers."""
    return SERVERS
