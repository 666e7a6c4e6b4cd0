"""Started from one file: a zipapp that holds the guard too, and the layout that pex makes, zipped and loose."""

from __future__ import annotations

import re
import shutil
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, UNDER_TEST, Result
from launches import launching

Run = Callable[..., Result]
FLAGS = ["", "-OO", "-I"]
BARE = {"PYTHONPATH": ""}  # nothing but the archive

# what pex's own __main__ comes to: the application is in the archive's root, each dependency in a folder of its own
PEX_MAIN = """\
import os, runpy, sys
here = os.path.dirname(os.path.abspath(__file__))
for name in ("stdout_guard", "dep", "mcp", "wrapt"):
    sys.path.append(os.path.join(here, ".deps", name + "-1-py3-none-any.whl"))
runpy.run_module("app", run_name="__main__", alter_sys=True)
"""


def guard_and_wrapt(folder: Path) -> None:
    """Copy the package under test and its one dependency beside it, as an installer with --target does."""
    import wrapt

    ignored = shutil.ignore_patterns("__pycache__", "*.so", "corpus", "testing")
    shutil.copytree(Path(UNDER_TEST) / "stdout_guard", folder / "stdout_guard", ignore=ignored)
    shutil.copytree(Path(wrapt.__file__).parent, folder / "wrapt", ignore=ignored)


def named(done: Result) -> set[str]:
    return {re.sub(r"child \d+", "child PID", line) for line in done.report}


@pytest.mark.parametrize("flags", FLAGS)
def test_a_zipapp_that_holds_everything(run: Run, tmp_path: Path, flags: str) -> None:
    """shiv's and zipapp's way: guard, SDK, dependency and application in one compressed archive; all that is in the
    archive's root is the application."""
    launching.lay_out(tmp_path / "src")
    guard_and_wrapt(tmp_path / "src")
    (tmp_path / "src" / "__main__.py").write_text("import app.__main__\n", "utf-8")
    zipapp.create_archive(tmp_path / "src", tmp_path / "app.pyz", compressed=True)
    shutil.rmtree(tmp_path / "src")
    done = run("", command=[sys.executable, *flags.split(), "app.pyz"], env=BARE)
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert named(done) == launching.expected("app.pyz/", "app.pyz/"), done.text


@pytest.mark.parametrize("zipped", [True, False], ids=["zipped", "loose"])
@pytest.mark.parametrize("flags", FLAGS)
def test_the_layout_of_a_pex(run: Run, tmp_path: Path, flags: str, zipped: bool) -> None:
    """The application's modules are below the archive's root, the dependencies below .deps."""
    root = launching.lay_out(tmp_path / "root", "app")
    for name in ("dep", "mcp"):
        launching.lay_out(root / ".deps" / f"{name}-1-py3-none-any.whl", name)
    guard_and_wrapt(tmp_path / "both")
    for name in ("stdout_guard", "wrapt"):
        (root / ".deps" / f"{name}-1-py3-none-any.whl").mkdir(parents=True)
        shutil.move(tmp_path / "both" / name, root / ".deps" / f"{name}-1-py3-none-any.whl" / name)
    (root / "__main__.py").write_text(PEX_MAIN, "utf-8")
    name = "root"
    if zipped:
        name = "app.pex"
        zipapp.create_archive(root, tmp_path / name, compressed=True)
        shutil.rmtree(root)
    done = run("", command=[sys.executable, *flags.split(), name], env=BARE)
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert named(done) == launching.expected(f"{name}/", f"{name}/.deps/dep-1-py3-none-any.whl/"), done.text
