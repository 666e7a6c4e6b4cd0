"""The examples do what their first lines say, and survive the tools that people run over their code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"


def run(*command: str, stdin: bytes = b"", cwd: Path = EXAMPLES, **env: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STDOUT_GUARD")}
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env={**environment, **env}, timeout=60)
    print(command, "->", done.returncode, done.stdout.decode(), done.stderr.decode(), sep="\n")
    return done


def test_the_demo_shows_a_broken_and_a_clean_stdout() -> None:
    """The demo's own verdict: bad lines without the guard, none with it, and stderr names their lines."""
    done = run(sys.executable, "demo.py")
    assert done.returncode == 0
    assert re.search(rb"lines on stdout that no client can read: [1-9]\d* without the guard, 0 with it", done.stdout)
    assert b"stdout-guard: noisy_server.py:" in done.stdout


def test_the_plain_server_answers_on_a_clean_wire() -> None:
    """Every stdout byte is an answer; the print is on stderr with its line."""
    requests = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % n for n in (1, 2))
    done = run(sys.executable, "plain_server.py", stdin=requests)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    line = next(
        n for n, text in enumerate((EXAMPLES / "plain_server.py").read_text().splitlines(), 1) if "print(" in text
    )
    assert f"plain_server.py:{line} in <module>: got m".encode() in done.stderr


def test_strict_in_tests_passes_and_fails_where_it_should(tmp_path: Path) -> None:
    """The example passes under strict; without its marker the printing test fails with the line that wrote."""
    shutil.copytree(EXAMPLES / "strict_in_tests", tmp_path / "example")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--stdout-guard=strict")
    assert run(*command, cwd=tmp_path / "example").returncode == 0
    test = tmp_path / "example" / "test_calculator.py"
    test.write_text(re.sub(r"@pytest.mark.allow_stray_writes.*\n", "", test.read_text()))
    failed = run(*command, cwd=tmp_path / "example")
    assert failed.returncode == 1
    assert b"calculator.py:9" in failed.stdout


def guarded_sources() -> dict[str, str]:
    """Every example and README block that begins with the guard, by name."""
    blocks = re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    found = {f"readme_{name}": text for name, text in blocks if "stdout_guard.auto" in text}
    return found | {path.name: path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*_server.py"))}


FIXERS = {
    "ruff": ["ruff", "check", "--isolated", "--fix", "--select", "F401,I"],
    "isort": ["isort", "--settings-path", "/dev/null"],
    "isort black": ["isort", "--profile", "black", "--settings-path", "/dev/null"],
}


@pytest.mark.parametrize("fixer", FIXERS)
@pytest.mark.parametrize("name", guarded_sources())
def test_the_import_survives_fixers_and_sorters(name: str, fixer: str, tmp_path: Path) -> None:
    """An unused-import fixer and import sorters leave the guard's import, and leave it first."""
    copy = tmp_path / "server.py"
    copy.write_text(guarded_sources()[name], "utf-8")
    assert run(sys.executable, "-m", *FIXERS[fixer], str(copy)).returncode in (0, 1)
    lines = copy.read_text("utf-8").splitlines()
    code = [line for line in lines if re.match(r"(import|from) ", line) and "__future__" not in line]
    assert "stdout_guard" in code[0], code
