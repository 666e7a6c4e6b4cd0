"""Built by the real tools: PyInstaller with our hook, pex and shiv, each in an environment of its own. Slow."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import environments
import pytest
from guard.harness import FRAME, Result
from launches import launching

Run = Callable[..., Result]
pytestmark = pytest.mark.slow
BARE = {"PYTHONPATH": ""}
STRICT = {**BARE, "STDOUT_GUARD": "strict"}
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "app"
version = "1"
[project.scripts]
served = "app.server:main"
[tool.setuptools]
packages = ["app", "dep", "mcp", "mcp.server"]
"""


def named(done: Result) -> set[str]:
    return {re.sub(r"child \d+", "child PID", line) for line in done.report}


def holds(run: Run, command: list[str | Path], app: str, dep: str, **options: object) -> None:
    """The frame alone is on the wire, the call sites are right, and strict convicts."""
    words = [str(word) for word in command]
    done = run("", command=words, env=BARE, **options)
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert named(done) == launching.expected(app, dep), done.text
    done = run("", command=words, env=STRICT, **options)
    assert done.status != 0 and "StrayWriteError" in done.text, done.text


@pytest.mark.parametrize("kind", ["--onedir", "--onefile"])
def test_pyinstaller(run: Run, tmp_path: Path, kind: str) -> None:
    """The hook that the package brings finds what the guard loads by name; files keep the names of their sources."""
    launching.lay_out(tmp_path)
    (tmp_path / "start.py").write_text("from app.server import main\nmain()\n", "utf-8")
    python = environments.python("packagers")
    build = [python, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", "--hidden-import", "encodings.idna"]
    launching.build(*build, kind, "start.py", cwd=tmp_path)
    program = tmp_path / "dist" / "start" / "start" if kind == "--onedir" else tmp_path / "dist" / "start"
    for name in launching.FILES:
        (tmp_path / name).unlink()  # what runs is what was packed
    holds(run, [program], "", "", cwd=tmp_path)


def wheel(folder: Path) -> Path:
    """The application as a wheel."""
    launching.lay_out(folder / "project")
    (folder / "project" / "pyproject.toml").write_text(PROJECT, "utf-8")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    launching.build(*pip, "-w", folder, folder / "project", cwd=folder)
    return folder / "app-1-py3-none-any.whl"


def guard_wheel(folder: Path) -> Path:
    """The wheel under test."""
    (found,) = (environments.package().parent / "wheel").glob("*.whl")
    copy = folder / found.name
    copy.write_bytes(found.read_bytes())
    assert zipfile.is_zipfile(copy)
    return copy


@pytest.mark.parametrize("layout", ["zipapp", "packed", "loose"])
def test_pex(run: Run, tmp_path: Path, layout: str) -> None:
    """A pex with its console script as the entry point, in each of its layouts."""
    program = tmp_path / "app.pex"
    tool = [environments.script("packagers", "pex"), guard_wheel(tmp_path), wheel(tmp_path)]
    launching.build(*tool, "-c", "served", "--layout", layout, "-o", program, cwd=tmp_path)
    command = [program] if layout == "zipapp" else [sys.executable, program]
    done = run("", command=[str(w) for w in command], env={**BARE, "PEX_ROOT": str(tmp_path / "root")})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert any(re.search(r"app/tools\.py:2 in tool: hello$", line) for line in done.report), done.text
    assert any(re.search(r"dep/.*py:2 in load \(from .*app/server\.py:9\): from dep$", line) for line in done.report)


def test_shiv(run: Run, tmp_path: Path) -> None:
    """A shiv archive unpacks itself below a folder of its own."""
    program = tmp_path / "app.pyz"
    tool = [environments.script("packagers", "shiv"), "-c", "served", "-o", program]
    launching.build(*tool, guard_wheel(tmp_path), wheel(tmp_path), cwd=tmp_path)
    done = run("", command=[sys.executable, str(program)], env={**BARE, "SHIV_ROOT": str(tmp_path / "root")})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert any(re.search(r"app/tools\.py:2 in tool: hello$", line) for line in done.report), done.text


def test_an_application_installed_as_uvx_does(run: Run, tmp_path: Path) -> None:
    """A console script in an environment of its own, guard and application as wheels: the application's package is told
    from its dependencies, which lie beside it."""
    home = tmp_path / "tool"
    launching.build(sys.executable, "-m", "venv", home, cwd=tmp_path)
    pip = [home / "bin" / "python", "-m", "pip", "install", "-q"]
    launching.build(*pip, guard_wheel(tmp_path), wheel(tmp_path), cwd=tmp_path)
    (site,) = (home / "lib").glob("python*/site-packages")
    shown = f"{site.relative_to(tmp_path)}/"
    holds(run, [home / "bin" / "served"], shown, shown, cwd=tmp_path)
