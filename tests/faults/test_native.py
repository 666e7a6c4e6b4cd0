"""Faults 1, 2 and 7 to 10: bursts of C output, what libc holds back until exit, and sudden ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest
from faults.harness import DEADLINE, Child

NATIVE = """
import ctypes
libc = ctypes.CDLL(None)
held = ctypes.PyDLL(None)  # its functions keep the GIL
libc.printf.argtypes = libc.puts.argtypes = [ctypes.c_char_p]
def burst(library, size, line=1000):
    data = b"".join(b"%07d" % i + b"x" * (line - 8) + b"\\n" for i in range(size // line))
    while data:
        data = data[library.write(1, data, len(data)):]
"""


def numbers(text: str) -> list[int]:
    """The numbers of the burst lines that arrived, in their order."""
    return [int(found) for found in re.findall(r"(\d{7})x{900,}", text)]


@pytest.mark.parametrize("size", [100, 900])
def test_a_c_call_that_keeps_the_gil(launch: Callable[..., Child], wire: str, unbuffered: bool, size: int) -> None:
    """Fault 1: C code that holds the GIL and prints up to the pipe's size in one call never waits for the pump.

    Seen to fail with the pipe left at its default size (no F_SETPIPE_SZ).
    """
    child = launch(
        NATIVE + f"send(1)\nheld.write(1, b'n' * {size << 10} + b'\\n', {(size << 10) + 1})\nsend(2)\n",
        wire=wire,
        unbuffered=unbuffered,
    )
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert f"[fd 1]: {'n' * 100}" in child.text


def test_three_mebibytes_under_the_gil_by_dup(launch: Callable[..., Child], wire: str) -> None:
    """Fault 1: with channel dup no call can hang on the GIL, whatever its size.

    Seen to fail with the setting ignored, so that the thread channel was used.
    """
    child = launch(NATIVE + f"send(1)\nburst(held, {3 << 20})\nsend(2)\n", wire=wire, channel="dup")
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert numbers(child.text) == list(range((3 << 20) // 1000))


@pytest.mark.slow
@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the documented limit of channel thread")
def test_three_mebibytes_under_the_gil_by_thread(launch: Callable[..., Child]) -> None:
    """Fault 1: the documented limit. When this passes, the documentation must say so."""
    child = launch(NATIVE + f"send(1)\nheld.write(1, b'n' * {3 << 20}, {3 << 20})\nsend(2)\n")
    child.wait_frame(1)
    child.wait_frame(2, 5)


@pytest.mark.parametrize("stderr", ["pipe", "socket"])
def test_a_large_burst_into_a_slow_reader(launch: Callable[..., Child], stderr: str) -> None:
    """Fault 2: 32 MiB that C code writes with the GIL released, and a slow reader of stderr: no line is lost.

    Seen to fail with the sink dropping at once instead of waiting for progress (PATIENCE = 0).
    """
    child = launch(NATIVE + f"burst(libc, {32 << 20}, 2000)\nsend(1)\n", stderr=stderr, stderr_pace=0.001)
    assert child.finish() == 0
    assert child.ids() == [1]
    assert numbers(child.text) == list(range((32 << 20) // 2000))


ENDS = {"falls off": ("", 0), "sys.exit": ("sys.exit(3)", 3), "uncaught": ("raise ValueError('end')", 1)}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_printf_without_flush(
    launch: Callable[..., Child], wire: str, unbuffered: bool, channel: str, end: str
) -> None:
    """Fault 7: what C's stdio still holds at exit is flushed by libc after Python is gone; it must not meet the wire,
    nor be lost, nor change the exit status.

    Seen to fail with fd 1 given back to the wire in the last exit step.
    """
    code, status = ENDS[end]
    child = launch(
        NATIVE + f"libc.printf(b'held back by libc\\n')\nsend(1)\n{code}\n",
        wire=wire,
        unbuffered=unbuffered,
        channel=channel,
    )
    assert child.finish() == status
    assert child.ids() == [1]
    assert child.text.count("held back by libc") == 1


def test_a_large_libc_buffer_at_exit(launch: Callable[..., Child], wire: str, unbuffered: bool) -> None:
    """Fault 8: 150 KiB in libc's buffer at exit arrive on stderr; nobody waits for a pump that is dead by then.

    Seen to fail (hang) with fd 1 left on the channel's pipe at exit, its read end open.
    """
    child = launch(
        NATIVE
        + """
stdout = ctypes.c_void_p.in_dll(libc, "stdout")
kept = libc.malloc
kept.restype = ctypes.c_void_p
libc.setvbuf(stdout, ctypes.c_void_p(kept(200 << 10)), 0, ctypes.c_size_t(200 << 10))
for i in range(150):
    libc.printf(b"%07d" % i + b"x" * 1015 + b"\\n")
send(1)
""",
        wire=wire,
        unbuffered=unbuffered,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert numbers(child.text) == list(range(150))


@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_a_c_atexit_handler(launch: Callable[..., Child], wire: str, channel: str) -> None:
    """Fault 9: a handler of C's atexit that prints long after Python's end reaches stderr.

    Seen to fail with fd 1 given back to the wire in the last exit step.
    """
    child = launch(
        NATIVE
        + """
libc.strdup.restype = ctypes.c_void_p
text = ctypes.c_void_p(libc.strdup(b"from a C exit handler"))
libc.__cxa_atexit(ctypes.cast(libc.puts, ctypes.c_void_p), text, None)
send(1)
""",
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert child.text.count("from a C exit handler") == 1


DEATHS = {
    "abort": ("libc.abort()", -signal.SIGABRT),
    "segv": ("ctypes.string_at(0)", -signal.SIGSEGV),
    "kill": ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
    "_exit": ("os._exit(7)", 7),
}


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_sudden_death_right_after_a_write(launch: Callable[..., Child], wire: str, channel: str, death: str) -> None:
    """Fault 10: the wire holds whole frames and ends at once, the status is the death's own; channel dup loses nothing,
    channel thread may lose what the pump had not read (documented).

    Seen to fail with the wire written through a BufferedWriter (frame 2 lost), and channel dup taken for thread.
    """
    code, status = DEATHS[death]
    child = launch(NATIVE + f"send(1)\nos.write(1, b'last words\\n')\nsend(2)\n{code}\n", wire=wire, channel=channel)
    assert child.finish() == status
    assert child.ids() == [1, 2]
    if channel == "dup":
        assert child.text.count("last words") == 1


def test_a_flood_with_a_dead_reader_ends(launch: Callable[..., Child]) -> None:
    """Hazard 9: 16 MiB of C output and nobody who reads stderr: the server is not held up, the loss is counted and the
    memory stays level.

    Seen to fail with the sink waiting for ever.
    """
    child = launch(
        NATIVE
        + f"""
import resource
burst(libc, {1 << 20})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
burst(libc, {16 << 20})
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
send(1, f"{{grown}} {{guard.counts.dropped_bytes}}")
sys.stdin.readline()
""",
        read_stderr=False,
    )
    child.wait_frame(1, DEADLINE)
    grown, dropped = map(int, child.frames()[0]["result"].split())
    assert grown < 40 << 10  # KiB; the burst itself is built in the same process
    assert dropped > 4 << 20
    assert child.stderr is not None
    child.stderr.start()
    child.wait_stderr("0000060")
    assert child.finish() == 0
    assert re.search(r"\d+ lines \(\d+ bytes\) dropped", child.raw_text)
