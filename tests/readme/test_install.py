"""What an installation of the wheel brings, into an environment with nothing in it."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import environments
import pytest
from guard.harness import environment

from stdout_guard._pyinstaller import hook_dirs


def wheel() -> Path:
    """The wheel built from the present source."""
    (found,) = (environments.package().parent / "wheel").glob("*.whl")
    return found


@pytest.mark.timeout(600)
def test_exactly_two_packages_come_with_it(tmp_path: Path) -> None:
    """pip install into an empty environment brings wrapt and typing-extensions, and nothing else."""
    target = tmp_path / "empty"
    pip = [sys.executable, "-m", "pip", "--retries", "8", "--disable-pip-version-check"]
    made = subprocess.run(
        [*pip, "install", "-q", "--no-compile", "--target", str(target), str(wheel())],
        env={k: v for k, v in environment().items() if k != "PYTHONPATH"},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    shown = [*pip, "list", "--path", str(target), "--format", "json"]
    listed = subprocess.run(shown, capture_output=True, text=True, timeout=60)
    names = {re.sub(r"[-_.]+", "-", row["name"]).lower() for row in json.loads(listed.stdout)}
    assert names == {"stdout-guard", "wrapt", "typing-extensions"}, names


def test_what_the_wheel_holds() -> None:
    """The package with its types marker, corpus and hook; no tests, no examples, nothing beside it."""
    names = set(zipfile.ZipFile(wheel()).namelist())
    roots = {name.split("/")[0] for name in names}
    assert {root.partition("-")[0] for root in roots} <= {"stdout_guard"}, roots
    for needed in ("py.typed", "auto.py", "_pyinstaller/hook-stdout_guard.py", "testing/corpus/__init__.py"):
        assert f"stdout_guard/{needed}" in names
    assert not [name for name in names if name.endswith((".pyc", ".so"))]


def test_the_entry_points() -> None:
    """The command, the pytest plugin and the PyInstaller hook are registered, and each can be loaded."""
    (record,) = [n for n in zipfile.ZipFile(wheel()).namelist() if n.endswith("entry_points.txt")]
    text = zipfile.ZipFile(wheel()).read(record).decode()
    assert re.findall(r"^\[(.*)\]$", text, re.M) == ["console_scripts", "pyinstaller40", "pytest11"]
    (hook,) = Path(hook_dirs()[0]).glob("hook-*.py")
    found = runpy.run_path(str(hook))["hiddenimports"]
    assert {"stdout_guard.adapters.sdk", "stdout_guard._guard", "stdout_guard._seldom"} <= set(found)
    assert not [name for name in found if "pytest" in name or ".testing" in name]
