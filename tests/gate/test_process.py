"""A child process is started, driven, ended and read to its last byte, whatever it does."""

from __future__ import annotations

import os
import signal
import sys
import time

from stdout_guard.testing.process import ServerProcess
from stdout_guard.testing.records import Limits

FAST = Limits(grace=0.5, term=0.5, drain=0.5)


def child(code: str, **settings) -> ServerProcess:
    """A Python child that runs ``code``."""
    return ServerProcess([sys.executable, "-c", code], **{"limits": FAST, **settings})


def test_noise_after_the_last_answer_is_read():
    """Both pipes are read to end of file after the exit: nothing that atexit or a destructor writes is missed."""
    with child("import atexit, sys\natexit.register(print, 'bye')\nsys.stdin.read()\nprint('x' * 300000)") as process:
        ending = process.finish(grace=10)
    assert process.stdout.bytes() == b"x" * 300000 + b"\nbye\n"
    assert (ending.returncode, ending.how, ending.eof) == (0, "by itself", True)


def test_chunks_carry_the_time_of_their_arrival():
    """Each read is stamped, in seconds since the start, so that late bytes are told from early ones."""
    with child("print('a', flush=True)\ninput()\nprint('b', flush=True)") as process:
        assert process.wait_for(lambda: process.stdout.bytes() or None, 20) == b"a\n"
        sent = process.elapsed
        assert process.send(b"\n", 20)
        process.finish(grace=10)
    first, second = process.stdout.chunks
    assert (first.data, second.data) == (b"a\n", b"b\n")
    assert first.at <= sent <= second.at <= process.elapsed


def test_a_server_that_ignores_everything_is_killed_with_its_group():
    """Grace, SIGTERM, SIGKILL, on the group: the end always comes, and says how."""
    code = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('up', flush=True)\ntime.sleep(60)"
    )
    with child(code) as process:
        assert process.wait_for(lambda: b"up" in process.stdout.bytes() or None, 20)
        group = process.pid
        ending = process.finish()
    assert (ending.how, ending.returncode) == ("SIGKILL", -signal.SIGKILL)
    assert ending.eof and ending.survivors == ()
    deadline = time.monotonic() + 10  # a killed process needs a moment to be gone
    while _living(group) and time.monotonic() < deadline:
        os.sched_yield()
    assert _living(group) == []


def _living(group: int) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _lives_in(pid, group)]


def _lives_in(pid: int, group: int) -> bool:
    """Whether a process of the group still runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            state, _, found = file.read().rpartition(")")[2].split()[:3]
    except OSError:
        return False
    return state != "Z" and int(found) == group


def test_a_grandchild_outside_the_group_that_holds_the_wire_is_named_and_ended():
    """After the group is gone the pipe is still open: /proc tells who holds it."""
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(61)'], start_new_session=True)\n"
    )
    with child(code) as process:
        ending = process.finish(grace=10)
    (survivor,) = ending.survivors
    assert "time.sleep(61)" in survivor.command and 1 in survivor.fds
    assert not ending.eof and process.stdout.eof


def test_input_that_nobody_reads_does_not_block_for_ever():
    """A write to a full stdin gives up at its deadline, and says so."""
    with child("import time; time.sleep(60)") as process:
        began = time.monotonic()
        assert process.send(b"x" * 1_000_000, timeout=0.5) is False
        assert time.monotonic() - began < 30  # the child lives for a minute
        assert 0 < len(process.stdin) < 1_000_000
        process.finish(grace=0)


def test_a_slow_start_is_not_idleness():
    """Using the processor is not waiting: a quiet limit must not cut a slow import short."""
    code = (
        "import time\nend = time.process_time() + 1.2\nwhile time.process_time() < end: pass\n"
        "print('up', flush=True)\ninput()"
    )
    with child(code) as process:
        assert process.wait_for(lambda: process.stdout.bytes() or None, 30, quiet=0.6) == b"up\n"
        assert process.wait_for(lambda: None, 30, quiet=0.6) is None
        process.finish()


def test_a_terminal_for_stdout_is_raw():
    """isatty() is true and no byte is translated."""
    with child("import os, sys\nos.write(1, b'%d\\n' % os.isatty(1))\nsys.stdin.read()", stdout="pty") as process:
        process.finish(grace=10)
    assert process.stdout.bytes() == b"1\n" and process.stdout.eof


def test_descriptors_and_threads_do_not_pile_up():
    """Many runs in one process leave nothing open behind them."""
    with child("pass") as process:
        process.finish(grace=10)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with child("print(1)") as process:
            process.finish(grace=10)
    assert len(os.listdir("/proc/self/fd")) <= before
