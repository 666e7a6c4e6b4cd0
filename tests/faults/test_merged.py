"""Faults 21 and 22: stdout and stderr are one pipe, or one terminal, null device or log file."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import Child

NOISY = """
import ctypes, subprocess, warnings
send(1)
try: print("from python")
except stdout_guard.StrayWriteError: pass
sys.stderr.write("to stderr\\n")
warnings.warn("a warning")
os.write(1, b"to fd 1\\n")
os.write(2, b"to fd 2\\n")
subprocess.run(["/bin/sh", "-c", "echo child; echo child error >&2"])
ctypes.CDLL(None).printf(b"held back")
send(2)
raise ValueError("the end")
"""
MERGES = {
    "pipe": ("pipe", 'exec "$@" 2>&1'),
    "socket": ("socket", 'exec "$@" 2>&1'),
    "/dev/stdout": ("pipe", 'exec "$@" 2>/dev/stdout'),
    "fifo twice": ("pipe", 'exec "$@" 2>/proc/self/fd/1'),
}


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("channel", ["thread", "dup"])
@pytest.mark.parametrize("log", ["log", "no log"])
def test_merged_streams(
    launch: Callable[..., Child], tmp_path: Path, merge: str, channel: str, log: str, unbuffered: bool
) -> None:
    """Fault 21: 2>&1 in any way: no stray byte and no traceback on the wire; the log file, when there is one, has it
    all.

    Seen to fail with fd 2 left as it was, and with the merge looked for by kcmp.
    """
    kind, shell = MERGES[merge]
    path = tmp_path / "log"
    child = launch(
        NOISY,
        wire=kind,
        stderr="wire",
        shell=shell,
        channel=channel,
        unbuffered=unbuffered,
        env={"STDOUT_GUARD_LOG": str(path)} if log == "log" else None,
    )
    assert child.finish() == 1
    assert child.ids() == [1, 2]
    if log == "log":
        told = path.read_text()
        for text in (
            "same pipe",
            "from python",
            "to stderr",
            "a warning",
            "to fd 1",
            "to fd 2",
            "child error",
            "child",
        ):
            assert text in told
        assert "held back" in told and "ValueError: the end" in told


def test_a_fifo_opened_twice(launch: Callable[..., Child], tmp_path: Path) -> None:
    """Fault 21: a named FIFO opened once for each stream is one pipe with two descriptions: noticed by its identity.

    Seen to fail with the merge looked for by kcmp.
    """
    os.mkfifo(tmp_path / "both")
    fd = os.open(tmp_path / "both", os.O_RDWR)
    child = launch(NOISY, shell=f'exec "$@" >{tmp_path}/both 2>{tmp_path}/both')
    status = child.wait_exit()
    os.set_blocking(fd, False)
    data = os.read(fd, 1 << 16)
    os.close(fd)
    assert data.count(b"\n") == 2 and data.count(b'"jsonrpc"') == 2, data
    assert status == 1


@pytest.mark.parametrize("merge", MERGES)
def test_merged_streams_strict(launch: Callable[..., Child], tmp_path: Path, merge: str) -> None:
    """Fault 21: strict refuses to start: status 78, nothing on the wire, the reason in the log.

    Seen to fail with the refusal printed to stderr.
    """
    kind, shell = MERGES[merge]
    path = tmp_path / "log"
    child = launch(NOISY, wire=kind, stderr="wire", shell=shell, mode="strict", env={"STDOUT_GUARD_LOG": str(path)})
    assert child.finish() == 78
    assert child.frames() == []
    assert "exit status 78" in path.read_text()


@pytest.mark.parametrize("merge", MERGES)
def test_merged_streams_strict_without_a_log(launch: Callable[..., Child], merge: str) -> None:
    """Fault 21: strict without a log file: status 78, not a byte anywhere.

    Seen to fail with the refusal printed to stderr.
    """
    kind, shell = MERGES[merge]
    child = launch(NOISY, wire=kind, stderr="wire", shell=shell, mode="strict")
    assert child.finish() == 78
    assert child.frames() == []


QUIET = "send(1)\nsend(2)\n"


@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_one_terminal(launch: Callable[..., Child], mode: str) -> None:
    """Fault 22: started by hand, both streams are one terminal: no refusal, frames and report are both there.

    Seen to fail with the merge refused for every kind of file.
    """
    child = launch(QUIET, wire="tty", stderr="wire", mode=mode)
    assert child.finish() == 0
    assert bytes(child.wire.data).count(b'"jsonrpc"') == 2
    noisy = launch(NOISY, wire="tty", stderr="wire")
    assert noisy.finish() == 1
    for text in ("from python", "to fd 1", "child", "ValueError: the end", '"id":2'):
        assert text.encode() in noisy.wire.data


@pytest.mark.parametrize("mode", ["redirect", "strict"])
@pytest.mark.parametrize("target", ["null", "file", "append"])
def test_one_null_device_or_log_file(launch: Callable[..., Child], tmp_path: Path, mode: str, target: str) -> None:
    """Fault 22: both streams in /dev/null or one log file (a service manager): no refusal.

    Seen to fail with the merge refused for every kind of file.
    """
    path = tmp_path / "log"
    shell = {
        "null": 'exec "$@" >/dev/null 2>&1',
        "file": f'exec "$@" >{path} 2>&1',
        "append": f'exec "$@" >>{path} 2>&1',
    }[target]
    child = launch(QUIET, shell=shell, mode=mode)
    assert child.finish() == 0
    assert child.text == "" and child.frames() == []
    if target != "null":
        assert path.read_text().count('"jsonrpc"') == 2
        path.unlink()
    noisy = launch(NOISY, shell=shell)
    assert noisy.finish() == 1
    if target != "null":
        told = path.read_text()
        for text in ("from python", "to fd 1", "to fd 2", "child error", "ValueError: the end", '"id":1', '"id":2'):
            assert text in told


@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_a_guarded_child_is_not_taken_for_merged(launch: Callable[..., Child], wire: str, channel: str) -> None:
    """Fault 21: in a child of a guarded process fd 1 and fd 2 may well be one stream; the child is a worker, not a
    server with merged streams: it runs, its lines are shown, and strict does not end it with 78.

    Seen to fail with the marker that tells a child what its fd 1 is left out.
    """
    code = "import stdout_guard; g = stdout_guard.install(); print('from the child', g.role)"
    child = launch(
        f"""
import subprocess
for extra in ({{}}, {{"stderr": subprocess.STDOUT}}):
    done = subprocess.run([sys.executable, "-c", {code!r}], **extra)
    assert done.returncode == 0, done
strict = dict(os.environ, STDOUT_GUARD="strict")
code = "import stdout_guard; stdout_guard.install(); import sys; sys.stderr.write('strict child ran')"
assert subprocess.run([sys.executable, "-c", code], env=strict).returncode == 0
assert os.system(sys.executable + " -c 'import stdout_guard as s; s.install(); print(1234)'") == 0
send(1)
""",
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert child.text.count("from the child worker") == 2
    assert "1234" in child.text and "strict child ran" in child.text


def test_merged_by_a_terminal_pair(launch: Callable[..., Child]) -> None:
    """Fault 22: stderr a terminal and stdout a pipe is the plain case of a server tried by hand in a shell pipeline.

    Seen to fail with a terminal's report written in pieces of more than it takes.
    """
    ours, theirs = pty.openpty()
    child = launch(NOISY, stderr=theirs)
    os.close(theirs)
    assert child.finish() == 1
    data = os.read(ours, 1 << 16)
    os.close(ours)
    assert child.ids() == [1, 2]
    assert b"from python" in data
