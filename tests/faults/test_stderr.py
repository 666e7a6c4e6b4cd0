"""Faults 3 to 6 and 37: a stderr that is never read, dies, is full, closed, or not a pipe at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import Child

NOISE = """
LINES = 8
import ctypes, subprocess
libc = ctypes.CDLL(None)
def text(i): return f"noise {i} " + "\\n".join(["x" * 500] * LINES) + "\\n"  # 8: 4 KiB a call
def python(i): sys.stdout.write(text(i))
def native(i):
    data = text(i).encode()
    libc.write(1, data, len(data))
def child(i): subprocess.run(["/bin/cat"], input=text(i).encode(), check=True)
"""
CALLS = """
for i, line in enumerate(sys.stdin):
    {noise}(i)
    send(i)
"""
KINDS = ("python", "native", "child")


@pytest.mark.parametrize("stderr", ["pipe", "socket"])
@pytest.mark.parametrize("noise", KINDS)
def test_stderr_that_nobody_reads(launch: Callable[..., Child], wire: str, stderr: str, noise: str) -> None:
    """Fault 3: 80 of 80 calls are answered though the client never reads stderr and each call makes 4 KiB of noise.

    Seen to fail with the sink's writes left blocking.
    """
    child = launch(NOISE + CALLS.format(noise=noise), wire=wire, stderr=stderr, read_stderr=False)
    for i in range(80):
        child.order()
        child.wait_frame(i)
    child.close_stdin()
    assert child.wait_exit() == 0
    assert child.finish() == 0
    assert child.ids() == list(range(80))


@pytest.mark.parametrize("channel", ["thread", "dup"])
@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("stderr", ["pipe", "socket"])
def test_the_reader_of_stderr_dies(
    launch: Callable[..., Child], wire: str, stderr: str, noise: str, channel: str
) -> None:
    """Fault 4: EPIPE on stderr in the middle of the run: calls go on being answered and the status is 0.

    Seen to fail with OSError let through by the sink.
    """
    code = NOISE.replace("check=True", "check=False") + CALLS.format(noise=noise)
    child = launch(code, wire=wire, stderr=stderr, channel=channel)
    for i in range(6):
        child.order()
        child.wait_frame(i)
        if i == 2:
            assert child.stderr is not None
            child.stderr.hang_up()
    status = child.finish()
    assert child.ids() == list(range(6))
    assert status == 0


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("kind", ["full", "closed", "socket", "tty", "file", "append", "null", "pipe"])
def test_every_kind_of_stderr(launch: Callable[..., Child], tmp_path: Path, kind: str, noise: str, wire: str) -> None:
    """Fault 5: /dev/full, closed, socket, terminal, regular file, null device: calls are answered, and where there is
    somebody to read, the noise is there.

    Seen to fail with OSError let through by the sink (full), and fd 2 left closed (the channel landed on it).
    """
    log = tmp_path / "log"
    log.write_text("kept\n")
    opened = {"full": ("/dev/full", os.O_WRONLY), "null": (os.devnull, os.O_WRONLY)}.get(kind)
    if kind in ("file", "append"):
        opened = (str(log), os.O_WRONLY | (os.O_APPEND if kind == "append" else 0))
    number = os.open(*opened) if opened else None
    child = launch(
        NOISE.replace("LINES = 8", "LINES = 1") + CALLS.format(noise=noise),
        wire=wire,
        stderr=number if number is not None else "pipe" if kind == "closed" else kind,
        shell='exec "$@" 2>&-' if kind == "closed" else "",
    )
    if number is not None:
        os.close(number)
    for i in range(3):
        child.order()
        child.wait_frame(i)
    assert child.finish() == 0
    assert child.ids() == [0, 1, 2]
    shown = log.read_text() if kind in ("file", "append") else child.raw_text
    if kind in ("file", "append", "socket", "tty", "pipe"):
        assert [shown.count(f"noise {i} ") for i in range(3)] == [1, 1, 1]
        assert "stdout-guard: " in shown
    if kind == "append":
        assert shown.startswith("kept\n")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to give it up")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stderr", ["pipe", "socket"])
def test_rights_given_up(launch: Callable[..., Child], wire: str, stderr: str, when: str) -> None:
    """Fault 6: setuid before or after the install: /proc/self/fd/2 may not be opened anew, the report comes all the
    same.

    Seen to fail with PermissionError let through where the FIFO is opened anew.
    """
    away = "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    child = launch(
        "import ctypes, _socket\n"
        + (away if when == "before" else "")
        + "guard = stdout_guard.install()\n"
        + (away if when == "after" else "")
        + 'send = lambda i: guard.wire.write(b\'{"jsonrpc":"2.0","id":%d,"result":0}\\n\' % i)\n'
        + "send(1)\nprint('from python')\nos.write(1, b'from below\\n')\nsend(2)\n",
        prelude="import os, sys, io, fcntl, select, atexit, errno, time, stdout_guard\n",
        wire=wire,
        stderr=stderr,
    )
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert f"server.py:{child.line('from python')} in <module>: from python" in child.text
    assert "[fd 1]: from below" in child.text


def test_a_daemon_thread_prints_into_a_full_stderr_at_exit(launch: Callable[..., Child], unbuffered: bool) -> None:
    """Fault 37: a daemon thread that prints while the interpreter ends, stderr full: no fatal error (status -6), no
    hang.

    Seen to fail with the report written through a BufferedWriter over stderr.
    """
    child = launch(
        """
import threading
def chatter():
    while True:
        print("chatter " + "x" * 500)
for _ in range(3):
    threading.Thread(target=chatter, daemon=True).start()
while not guard.counts.dropped_lines:
    pass
send(1)
""",
        unbuffered=unbuffered,
        read_stderr=False,
    )
    child.wait_frame(1)
    assert child.wait_exit() == 0
    child.finish()
    assert child.ids() == [1]
    assert "Fatal Python error" not in child.raw_text


def test_a_reader_that_comes_back_is_told(launch: Callable[..., Child]) -> None:
    """Decision 4: what was dropped is counted, and said when the reader is back, before newer lines.

    Seen to fail with the confession left out.
    """
    child = launch(NOISE + CALLS.format(noise="python"), read_stderr=False)
    for i in range(40):
        child.order()
        child.wait_frame(i)
    assert child.stderr is not None
    child.stderr.start()
    child.wait_stderr("noise 3 ")
    child.order()
    child.wait_frame(40)
    child.wait_stderr("noise 40 ")
    assert child.finish() == 0
    assert child.text.index(" dropped: nobody read them") < child.text.index("noise 40 ")


@pytest.mark.parametrize("noise", KINDS)
def test_a_slow_reader_loses_nothing(launch: Callable[..., Child], noise: str) -> None:
    """Hazard 12: a burst of 2 MiB and a reader that is merely slow: every line arrives.

    Seen to fail with the sink dropping at once instead of waiting for progress (PATIENCE = 0).
    """
    code = NOISE + f"for i in range(512):\n    {noise}(i)\nsend(1)\n"
    child = launch(code, stderr_chunk=4096, stderr_pace=0.0005)
    assert child.finish() == 0
    assert child.ids() == [1]
    missing = [i for i in range(512) if f"noise {i} " not in child.text]
    assert not missing
    assert child.text.count("x" * 500) == 512 * 8
    assert "dropped" not in child.text


def test_flags_of_the_shared_descriptors(launch: Callable[..., Child], wire: str) -> None:
    """Fault 46 and hazard 10: no flag of fd 0, 1 or 2 is changed, and nothing above them is inheritable.

    Seen to fail with O_NONBLOCK set on fd 2, and with the wire's copy made inheritable.
    """
    child = launch(
        """
import fcntl
flags = lambda: [fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC) for fd in (0, 1, 2)]
before = flags()
wire = os.dup(1)
guard = stdout_guard.install()
print("noise")
os.write(1, b"noise\\n")
def check():
    assert flags() == before, (before, flags())
    assert not fcntl.fcntl(guard.wire.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK
    loose = [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists("/proc/self/fd/" + n)
             and os.get_inheritable(int(n))]
    assert not loose, loose
    assert all(map(os.get_inheritable, (0, 1, 2)))
check()
guard.take_stdin()
check()
guard.wire.write(b'{"jsonrpc":"2.0","id":1,"result":0}\\n')
""",
        prelude="import os, sys, stdout_guard\n",
        wire=wire,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
