"""STDOUT_GUARD_LOG: the report in a file that nobody else can read, steer or lose."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, Result


def test_the_report_goes_to_the_file_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    """Everything that would be said on stderr, notes and summary included, is in the file; stderr is the server's own;
    the file is 0600 whatever the umask, and appended to."""
    log = tmp_path / "report.log"
    env = {"STDOUT_GUARD_LOG": str(log)}
    source = "import os, subprocess\nos.write(1, b'raw\\n')\nprint('hello')  #@a\nsubprocess.run(['echo', 'child'])\nanswer()\n"
    first = run(f"import os; os.umask(0)\n{source}", env=env)
    assert (first.wire, first.text) == (FRAME, "")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    once = log.read_text().splitlines()
    assert len(once) == 4 and "kept off the wire" in once[-1]
    run(source, env=env)
    twice = log.read_text().splitlines()
    assert twice[:4] == once and len(twice) == 8


def test_the_file_is_there_for_tail_before_anything_strayed(run: Callable[..., Result], tmp_path: Path) -> None:
    """A clean run makes the file and leaves it empty."""
    done = run("answer()\n", env={"STDOUT_GUARD_LOG": "report.log"})
    assert (done.wire, done.text) == (FRAME, "")
    assert (tmp_path / "report.log").read_bytes() == b""


def test_a_relative_path_keeps_its_place(run: Callable[..., Result], tmp_path: Path) -> None:
    """The file stays where it was named from, though the server changes its directory, and after a rotation too."""
    (tmp_path / "elsewhere").mkdir()
    done = run("""
import os
os.chdir("elsewhere")
print("one")
os.rename("../report.log", "../report.1")
print("two")
answer()
""", env={"STDOUT_GUARD_LOG": "report.log"})  # fmt: skip
    assert done.wire == FRAME
    assert "one" in (tmp_path / "report.1").read_text()
    assert "two" in (tmp_path / "report.log").read_text()
    assert not list((tmp_path / "elsewhere").iterdir())


ROTATIONS = [
    ("renamed", "os.rename('report.log', 'report.1')", ["two", "three"]),
    ("renamed-and-made-anew", "os.rename('report.log', 'report.1'); open('report.log', 'w').close()", ["two", "three"]),
    ("removed", "os.remove('report.log')", ["two", "three"]),
    ("truncated", "open('report.log', 'w').close()", ["two", "three"]),
    ("folder-gone", "os.rename('.', '.') if 0 else None; os.remove('report.log'); os.mkdir('report.log')", None),
    ("symlink-now", "os.remove('report.log'); open('victim', 'w').close(); os.symlink('victim', 'report.log')", None),
]


@pytest.mark.parametrize(("rotate", "expected"), [row[1:] for row in ROTATIONS], ids=[row[0] for row in ROTATIONS])
def test_rotation(run: Callable[..., Result], tmp_path: Path, rotate: str, expected: list[str] | None) -> None:
    """Rotated away, the file is made anew; what took its place and is no plain file (a symlink, a folder) is not written
    to, and the server does not notice."""
    done = run(
        f"import os\nprint('one')\n{rotate}\nprint('two')\nprint('three')\nanswer()\n",
        env={"STDOUT_GUARD_LOG": "report.log"},
    )
    assert (done.wire, done.status) == (FRAME, 0), done.text
    if expected is None:
        if (tmp_path / "victim").exists():
            assert (tmp_path / "victim").read_text() == ""
        return
    text = (tmp_path / "report.log").read_text()
    assert [word for word in ("one", "two", "three") if f": {word}\n" in text] == expected
    assert stat.S_IMODE((tmp_path / "report.log").stat().st_mode) in (0o600, 0o644)


REFUSED = [
    ("symlink", "symlink.log", "a symlink is not followed"),
    ("dangling-symlink", "dangling.log", "a symlink is not followed"),
    ("folder", ".", "cannot be opened"),
    ("missing-folder", "missing/report.log", "cannot be opened"),
    ("stdout", "/dev/stdout", ""),
    ("stdout-by-number", "/dev/fd/1", ""),
    ("stdout-by-proc", "/proc/self/fd/1", ""),
    ("fifo-without-a-reader", "fifo", "cannot be opened"),
]


@pytest.mark.parametrize(("path", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_file_that_cannot_be_the_log_stops_the_import(
    run: Callable[..., Result], tmp_path: Path, path: str, message: str
) -> None:
    """A symlink, a folder, stdout under any of its names, a FIFO nobody reads: a GuardStateError that names the
    variable and the path; nothing is installed, nothing is on the wire."""
    (tmp_path / "target.log").write_text("untouched")
    os.symlink("target.log", tmp_path / "symlink.log")
    os.symlink("nowhere.log", tmp_path / "dangling.log")
    os.mkfifo(tmp_path / "fifo")
    done = run("print('not reached')\n", env={"STDOUT_GUARD_LOG": path})
    assert done.status == 1, done.text
    assert done.wire == b""
    last = done.lines[-1]
    assert "GuardStateError: log " in last and "STDOUT_GUARD_LOG" in last and path in last, last
    assert message in last
    assert last.endswith("the guard was not installed")
    assert (tmp_path / "target.log").read_text() == "untouched"
    assert not (tmp_path / "nowhere.log").exists()


def test_a_full_disk_is_counted_and_survived(run: Callable[..., Result]) -> None:
    """A log that cannot be written (/dev/full) drops lines, counts them, and the server goes on."""
    done = run(
        "for n in range(10): print(n)\nassert guard.counts.strays == 10\nassert guard.counts.dropped_lines == 10\nanswer()\n",
        env={"STDOUT_GUARD_LOG": "/dev/full"},
    )
    assert (done.wire, done.status) == (FRAME, 0), done.text


def test_a_log_argument_may_be_a_path_object(run: Callable[..., Result], tmp_path: Path) -> None:
    """log= takes a str or a path object."""
    done = run(
        f"import pathlib, stdout_guard\nguard = stdout_guard.install(log=pathlib.Path('p.log'))\nprint('hello')\nguard.wire.write({FRAME!r})\n",
        prelude="",
    )
    assert (done.wire, done.text) == (FRAME, "")
    assert "hello" in (tmp_path / "p.log").read_text()


def test_forked_workers_and_children_share_the_owners_file(run: Callable[..., Result], tmp_path: Path) -> None:
    """What workers and children write is in the owner's file, whole lines, in either channel."""
    for channel in ("thread", "dup"):
        log = tmp_path / f"{channel}.log"
        done = run("""
import os, subprocess, sys
for n in range(3):
    if os.fork() == 0:
        for m in range(20): print("worker", n, m)
        sys.stdout.flush(); os._exit(0)
for _ in range(3): os.wait()
subprocess.run(["echo", "child"])
answer()
""", env={"STDOUT_GUARD_LOG": str(log), "STDOUT_GUARD_CHANNEL": channel})  # fmt: skip
        assert done.wire == FRAME
        text = log.read_text()
        for n in range(3):
            assert [f": worker {n} {m}\n" in text for m in range(20)] == [True] * 20, (channel, text[-500:], done.text)
        assert "child\n" in text, (channel, done.text)
