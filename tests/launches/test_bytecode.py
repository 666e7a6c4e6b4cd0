"""Bytecode alone, compiled elsewhere: the file names in it are relative, as in a program that PyInstaller packed."""

from __future__ import annotations

import compileall
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from guard.harness import FRAME, Result
from launches import launching
from launches.test_archives import guard_and_wrapt


def test_a_tree_of_bytecode_that_was_compiled_elsewhere(run: Callable[..., Result], tmp_path: Path) -> None:
    """Our own frames and the standard library's are known by their names, not by folders that do not exist here."""
    tree = launching.lay_out(tmp_path / "tree")
    guard_and_wrapt(tree)
    for name in ("subprocess.py", "threading.py"):  # as a frozen program has them: "subprocess.py", without a folder
        shutil.copy(Path(sys.modules["os"].__file__ or "").parent / name, tree)
    assert compileall.compile_dir(tree, ddir="", legacy=True, quiet=1)
    for path in [*tree.rglob("*.py")]:
        path.unlink()
    code = f"import sys; sys.path.insert(0, {str(tree)!r}); from app.server import main; main()"
    done = run("", command=[sys.executable, "-c", code], env={"PYTHONPATH": ""})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert {re.sub(r"child \d+", "child PID", line) for line in done.report} == launching.expected(), done.text
