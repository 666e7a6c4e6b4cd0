"""The validate verb as a process: exit statuses, both formats, files and stdin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stdout_guard

GOOD = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def validate(*arguments, stdin=b""):
    command = [sys.executable, "-m", "stdout_guard", "validate", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(stdout_guard.__file__).parents[1])}
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False, env=environment)
    done.shown = f"{command}\n{stdin[:200]!r}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    return done


@pytest.mark.parametrize(
    ("arguments", "stdin", "status"),
    [
        ((), GOOD, 0),
        (("-",), GOOD, 0),
        ((), b"", 0),
        ((), b"banner\n" + GOOD, 1),
        (("--direction", "client-to-server"), REQUEST, 0),
        (("--revision", "2026-07-28"), GOOD, 1),
        (("--framing", "content-length"), b"Content-Length: 36\r\n\r\n" + GOOD[:-1], 0),
        (("--framing", "sse"), GOOD, 2),
        (("--revision", "2025-01-01"), GOOD, 2),
        (("/nonexistent/file",), b"", 3),
        (("--sent", "/nonexistent/file"), GOOD, 3),
        ((".",), b"", 3),
    ],
)
def test_exit_status(arguments, stdin, status):
    """0 clean, 1 contract broken, 2 usage, 3 could not be judged."""
    done = validate(*arguments, stdin=stdin)
    assert done.returncode == status, done.shown


def test_text_shows_the_raw_line():
    """The text names line and bytes, in the words of the assertion."""
    done = validate(stdin=b"loading optional extension\n")
    assert rb"non-protocol stdout on line 1: b'loading optional extension\n'" in done.stdout, done.shown


def test_json_and_files(tmp_path):
    """A file is judged with what was sent; the JSON names both findings."""
    (tmp_path / "out").write_bytes(GOOD + GOOD)
    (tmp_path / "in").write_bytes(REQUEST)
    done = validate(tmp_path / "out", "--sent", tmp_path / "in", "--format", "json", "--revision", "jsonrpc")
    assert done.returncode == 1, done.shown
    report = json.loads(done.stdout)
    assert [finding["code"] for finding in report["findings"]] == ["answered-twice"]
    assert report["checks"] == {"wire": True, "shape": True, "session": False}


def test_notes_are_printed_and_pass():
    """A note is told and does not fail."""
    done = validate(stdin=GOOD.replace(b"\n", b"\r\n"))
    assert done.returncode == 0, done.shown
    assert b"note: line 1: the line ends in CR LF" in done.stdout, done.shown
