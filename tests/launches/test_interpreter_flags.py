"""``python -c``, ``-m`` and a script, under the interpreter's flags: the guard stands, and its call sites are right."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import wrapt
from guard.harness import FRAME, UNDER_TEST, Result
from launches import launching

Run = Callable[..., Result]
FLAGS = ["", "-O", "-OO", "-I", "-S", "-P", "-E", "-s", "-I -S -OO"]
FORMS = {
    "-c": ["-c", "import sys; sys.path[:0] = {paths!r}; from app.server import main; main()"],
    "-m": ["-m", "app"],
    "a script": ["start.py"],
}
NO_PATH = re.compile(r"-I|-P|-E")  # these leave PYTHONPATH or the working directory out: -m finds nothing then
CASES = [(form, flags) for form in FORMS for flags in FLAGS if not (form == "-m" and NO_PATH.search(flags))]
WRAPT = str(Path(wrapt.__file__).parents[1])  # -S does not add it


def lines(done: Result) -> set[str]:
    """The report without what changes from run to run."""
    return {re.sub(r"child \d+", "child PID", line) for line in done.report}


@pytest.mark.parametrize(("form", "flags"), CASES)
def test_each_form_under_each_flag(run: Run, tmp_path: Path, form: str, flags: str) -> None:
    """The frame alone is on stdout; the application's line, the dependency's and the child's are named."""
    launching.lay_out(tmp_path)
    paths = [UNDER_TEST, str(tmp_path), WRAPT]
    words = [word.format(paths=paths) for word in FORMS[form]]
    (tmp_path / "start.py").write_text(words[1] if form == "-c" else FORMS["-c"][1].format(paths=paths), "utf-8")
    done = run("", command=[sys.executable, *flags.split(), *words], env={"PYTHONPATH": f"{UNDER_TEST}:{WRAPT}"})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert lines(done) == launching.expected(), done.text


@pytest.mark.parametrize("flags", ["", "-OO", "-I -S"])
def test_strict_ends_with_its_status_under_each_flag(run: Run, tmp_path: Path, flags: str) -> None:
    """No check of the guard is an ``assert``: strict raises and convicts with -OO too."""
    launching.lay_out(tmp_path)
    code = FORMS["-c"][1].format(paths=[UNDER_TEST, str(tmp_path), WRAPT])
    done = run("", command=[sys.executable, *flags.split(), "-c", code], env={"STDOUT_GUARD": "strict"})
    assert done.status == 120, done.text
    assert "StrayWriteError" in done.text and "app/tools.py:2" in done.text
