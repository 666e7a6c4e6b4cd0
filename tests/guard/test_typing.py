"""The public surface is typed: right usages are accepted and wrong ones refused, by mypy --strict and by pyright."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from guard.harness import UNDER_TEST, environment

FOLDER = Path(__file__).resolve().parents[1] / "typing"
CHECKER_DEADLINE = 240.0  # seconds; a first run without a cache on a busy machine


def errors(checker: str, name: str, folder: Path) -> dict[int, str]:
    """The checker's errors in a file of FOLDER by line number."""
    path = folder / name  # pyright takes relative paths only
    path.write_text((FOLDER / name).read_text("utf-8"), "utf-8")
    env = environment({"MYPYPATH": UNDER_TEST, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    if checker == "mypy":
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--config-file=",
            f"--cache-dir={folder}",
            str(path),
        ]
    else:
        config = folder / "pyrightconfig.json"
        config.write_text(json.dumps({"include": [name], "typeCheckingMode": "strict", "extraPaths": [UNDER_TEST]}))
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(config)]
    done = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=CHECKER_DEADLINE, check=False
    )
    assert done.returncode in (0, 1), (command, done.stdout, done.stderr)
    found: dict[int, str] = {}
    if checker == "mypy":
        for line in done.stdout.splitlines():
            if match := re.match(r"(.*?):(\d+): error: (.*)", line):
                assert Path(folder / match[1]).resolve() == path, line
                found[int(match[2])] = match[3]
    else:
        output = json.loads(done.stdout)
        assert output["summary"]["filesAnalyzed"] == 1, output
        for item in output["generalDiagnostics"]:
            if item["severity"] == "error":
                found[item["range"]["start"]["line"] + 1] = item["message"]
    return found


@pytest.mark.timeout(CHECKER_DEADLINE + 30)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_right_usages_are_accepted(checker: str, tmp_path: Path) -> None:
    """Every documented way to use the guard and the writer passes strict checking."""
    assert errors(checker, "good.py", tmp_path) == {}


@pytest.mark.timeout(CHECKER_DEADLINE + 30)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_usages_are_refused(checker: str, tmp_path: Path) -> None:
    """Each wrong usage is an error at its own line, and no other line is."""
    text = (FOLDER / "bad.py").read_text("utf-8").splitlines()
    wanted = {number for number, line in enumerate(text, 1) if line.endswith("# BAD")}
    found = errors(checker, "bad.py", tmp_path)
    assert set(found) == wanted, {n: found.get(n, text[n - 1]) for n in set(found) ^ wanted}
