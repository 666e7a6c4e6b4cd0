"""Run one of the client programs of `clients/` against a staged server and return what the client saw."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
from real import drive

CLIENTS = Path(__file__).parent / "clients"
DEADLINE = 60.0  # seconds for a conversation that is expected to end well
LOST = 6.0  # seconds after which an unguarded server's lost answer is taken as lost


@dataclass(frozen=True)
class Seen:
    """What a client got (`answers`), what it logged or raised (`complaints`), and the server's stderr (`report`)."""

    command: list[str]
    answers: list[Any]
    complaints: list[str]
    report: str
    words: str

    def __str__(self) -> str:
        return (
            f"client: {shlex.join(self.command)}\nanswers: {self.answers}\ncomplaints: {self.complaints}\n"
            f"--- client's stderr\n{self.words[-6000:]}\n--- server's stderr\n{self.report[-12000:]}"
        )


def client(
    program: str,
    environment: str,
    server: Sequence[str | Path],
    folder: Path,
    calls: Sequence[object] = (),
    *,
    deadline: float = DEADLINE,
    unbuffered: bool = False,
) -> Seen:
    """Let client `program` start `server` and make `calls`.

    `environment` is where the client lives: a test environment, or "npm 1" or "npm 2" for the TypeScript SDK's.
    """
    stderr = folder / "server-stderr.txt"
    config = {
        "command": [str(part) for part in server],
        "cwd": str(folder),
        "env": drive.environment(unbuffered=unbuffered),
        "stderr": str(stderr),
        "calls": list(calls),
        "deadline": deadline,
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    command = [*_interpreter(program, environment, folder), str(folder / "config.json")]
    done = subprocess.run(
        command,
        cwd=folder,
        env=drive.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline + 60,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    report = stderr.read_text("utf-8", "replace") if stderr.exists() else done.stderr
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        result = {"answers": [], "complaints": [f"client ended with {done.returncode} and printed {done.stdout!r}"]}
    return Seen(command, result["answers"], result["complaints"], report, done.stderr)


def _interpreter(program: str, environment: str, folder: Path) -> list[str]:
    if not environment.startswith("npm "):
        return [str(environments.python(environment)), str(CLIENTS / program)]
    # node looks for packages beside the module that imports them
    shutil.copy(CLIENTS / program, folder)
    link = folder / "node_modules"
    if not link.exists():
        link.symlink_to(environments.node_modules() / "node_modules")
    return ["node", str(folder / program), environment.removeprefix("npm ")]
