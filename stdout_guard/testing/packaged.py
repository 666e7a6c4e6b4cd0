"""The packaged form: a wheel or a named package in a fresh virtual environment, its console script as the command.

Packaging changes module resolution, environment and error paths, which is where accidental writes appear; so the
checkout must not be importable from there, and that is checked, not assumed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stdout_guard.errors import StdoutGuardError
from stdout_guard.testing.run import Server, base_environment

INSTALL_SECONDS = 600.0
_WHERE = """
import importlib.metadata as m, importlib.util as u, json, sys
found = m.distribution(sys.argv[1])
names = [e.name for e in found.entry_points if e.group == "console_scripts"]
tops = sorted({p.parts[0] for p in found.files or () if p.suffix == ".py" and p.parts[0] != ".."})
specs = [(u.find_spec(t.removesuffix(".py")) if t.isidentifier() or t.endswith(".py") else None) for t in tops]
print(json.dumps({"scripts": names, "origins": [s.origin for s in specs if s and s.origin]}))
"""


class PackagingError(StdoutGuardError):
    """The package could not be built into an environment, or not be run from there: nothing was tested."""


@contextmanager
def installed(server: Server, *, wheel: str | None = None, package: str | None = None) -> Generator[Server]:
    """``server`` with its command inside a fresh environment that holds ``wheel`` or ``package``.

    The command's first word is the console script; without a command it is the only one, or the one of the package's
    name. Raises PackagingError.
    """
    target = os.path.abspath(wheel) if wheel else str(package)
    with tempfile.TemporaryDirectory(prefix="stdout-guard-packaged-", ignore_cleanup_errors=True) as folder:
        environment, away = os.path.join(folder, "environment"), os.path.join(folder, "away")
        os.mkdir(away)
        name = _wheel_name(target) if wheel else _requirement_name(target)
        python = _create(environment, target, away)
        scripts = _facts(python, name, environment, away)
        command = list(server.command) or [_only(scripts, name)]
        program = os.path.join(environment, "bin", command[0])
        if not os.path.exists(program):
            known = ", ".join(sorted(scripts)) or "none"
            raise PackagingError(f"{target}: no program {command[0]!r} in the environment; console scripts: {known}")
        path = os.pathsep.join((os.path.join(environment, "bin"), os.environ.get("PATH", os.defpath)))
        env = {"PATH": path, **server.env}
        yield replace(server, command=(program, *command[1:]), cwd=server.cwd or away, env=env, isolated=True)


def _create(environment: str, target: str, away: str) -> str:
    python = os.path.join(environment, "bin", "python")
    for step in _recipe(environment, python, target):
        done = _run(step, away, INSTALL_SECONDS)
        if done.returncode != 0:
            raise PackagingError(
                f"{target}: could not be installed (exit {done.returncode}): {done.stderr.strip()[-1500:]}"
            )
    return python


def _recipe(environment: str, python: str, target: str) -> list[list[str]]:
    """The quickest way there is: uv, our own pip, or a pip of the environment's own."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    uv = shutil.which("uv") or (beside if os.path.exists(beside) else None)
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, environment],
            [uv, "pip", "install", "--quiet", "--python", python, target],
        ]
    pip = [sys.executable, "-m", "pip", "--python", python]
    bare = importlib.util.find_spec("pip") is not None
    if not bare:
        pip = [python, "-m", "pip"]
    return [
        [sys.executable, "-m", "venv", *(["--without-pip"] if bare else []), environment],
        [*pip, "install", "--quiet", "--disable-pip-version-check", target],
    ]


def _run(command: Sequence[str], cwd: str, seconds: float) -> subprocess.CompletedProcess[str]:
    env = base_environment(Server("", (), isolated=True))
    try:
        return subprocess.run(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagingError(f"{command[0]}: {error}") from error


def _facts(python: str, name: str, environment: str, away: str) -> list[str]:
    """The console scripts; raises when a module of the package would come from outside the environment."""
    done = _run([python, "-c", _WHERE, name], away, 60.0)
    if done.returncode != 0:
        raise PackagingError(f"{name}: not found in its fresh environment: {done.stderr.strip()[-500:]}")
    facts = json.loads(done.stdout)
    root = os.path.realpath(environment)
    outside = [origin for origin in facts["origins"] if not os.path.realpath(origin).startswith(root + os.sep)]
    if outside:
        raise PackagingError(f"{name}: still importable from a checkout: {outside[0]}; nothing was tested")
    return [str(script) for script in facts["scripts"]]


def _only(scripts: Sequence[str], name: str) -> str:
    wanted = [script for script in scripts if _canonical(script) == _canonical(name)] or list(scripts)
    if len(wanted) != 1:
        known = ", ".join(sorted(scripts)) or "none"
        raise PackagingError(f"{name}: name the console script behind '--'; it has: {known}")
    return wanted[0]


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _requirement_name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return requirement[:end]


def _wheel_name(path: str) -> str:
    """The distribution's name out of the wheel's own metadata (the file name is only a hint)."""
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            head = archive.read(metadata).decode("utf-8", "replace").partition("\n\n")[0]
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise PackagingError(f"{path}: not a wheel: {error or 'no METADATA in it'}") from error
    lines = [line for line in head.splitlines() if line.startswith("Name:")]
    return lines[0].partition(":")[2].strip() if lines else Path(path).name.partition("-")[0]
