"""Faults 24, 25, 29 and 49: slow, stopped and vanished clients, non-blocking wires, frames of every size."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from faults.harness import Child, frames

THREADS = """
import threading
def sender(n):
    for i in range(50):
        send(n * 50 + i, "x" * 20_000)
threads = [threading.Thread(target=sender, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize("nonblocking", [True, False], ids=["O_NONBLOCK", "blocking"])
def test_four_threads_and_a_slow_reader(launch: Callable[..., Child], wire: str, nonblocking: bool) -> None:
    """Fault 24: four threads send frames of 20 KB over a wire that is (or is not) O_NONBLOCK, read in pieces of 4 KiB:
    all 200 arrive whole.

    Seen to fail with EAGAIN let through, and with lock and queue taken out of the wire's write.
    """
    child = launch(THREADS, wire=wire, nonblocking=nonblocking, read_wire=False)
    child.wire.chunk, child.wire.pace = 4096, 0.0005
    child.wire.start()
    assert child.finish() == 0
    assert sorted(child.ids()) == list(range(200))
    assert all(len(frame["result"]) == 20_000 for frame in child.frames())


def test_the_wire_is_made_nonblocking_under_way(launch: Callable[..., Child], wire: str) -> None:
    """Hazards 27 and 28: somebody who shares the wire's description (an event loop, a child) makes it non-blocking.

    Seen to fail with EAGAIN let through.
    """
    child = launch("send(1)\nos.set_blocking(guard.wire.fileno(), False)\n" + THREADS.replace("50", "40"), wire=wire)
    assert child.finish() == 0
    assert sorted(child.ids()) == sorted([1, *range(160)])


SIZES = [4096, 4097, 65536, 10 << 20]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["wire", "text_wire", "FrameWriter", "content-length"])
def test_frames_of_every_size(launch: Callable[..., Child], wire: str, size: int, way: str) -> None:
    """Fault 29: a frame of exactly 4096, 4097, 64 KiB and 10 MiB is written whole by one call, and its length returned.

    Seen to fail with a short count of write(2) taken for the whole.
    """
    code = {
        "wire": "assert guard.wire.write(data) == len(data)",
        "text_wire": "assert guard.text_wire.write(data.decode()) == len(data)",
        "FrameWriter": "from stdout_guard.writer import FrameWriter; FrameWriter(guard.wire).send(data)",
        "content-length": "from stdout_guard.writer import FrameWriter\n"
        "FrameWriter(guard.wire, 'content-length').send(data[:-1])",
    }[way]
    child = launch(
        f"data = frame(1, '')\ndata = frame(1, 'x' * ({size} - len(data)))\nassert len(data) == {size}\n{code}\n",
        wire=wire,
        read_wire=False,
        nonblocking=True,  # short counts come from these
    )
    child.wire.wait_readable()
    child.wire.start()
    assert child.finish() == 0
    data = bytes(child.wire.data)
    if way == "content-length":
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.lower() == b"content-length: %d" % (size - 1) and len(body) == size - 1
    else:
        assert len(data) == size and child.ids() == [1]


BLOCKED = """
import threading
def sender():
    try: send(2, "x" * (1 << 20))
    except BaseException as error: os.write(2, f"sender: {error!r}\\n".encode())
thread = threading.Thread(target=sender, daemon=True)
send(1)
thread.start()
"""


def test_a_reader_that_stops_for_ever(launch: Callable[..., Child], wire: str, unbuffered: bool) -> None:
    """Fault 25: nobody reads the wire any more: other threads go on, stray writes are shown, the process ends when its
    main thread does, says that a frame was under way, and no byte follows the half frame.

    Seen to fail with the lock of the wire held across a stray write, and with the process joined to the blocked thread.
    """
    child = launch(
        BLOCKED + "sys.stdin.readline()\nprint('still alive')\nos.write(1, b'still below\\n')\nsys.stdin.readline()\n",
        wire=wire,
        unbuffered=unbuffered,
        read_wire=False,
    )
    child.wire.wait_readable()
    child.wait_blocked()
    child.order()
    child.wait_stderr("still alive")
    child.wait_stderr("still below")
    child.order()
    assert child.wait_exit() == 0
    child.wire.start()
    assert child.finish() == 0
    first, second = bytes(child.wire.data).split(b"\n")
    assert frames(first + b"\n")[0]["id"] == 1
    assert b'{"jsonrpc":"2.0","id":2,"result":"'.startswith(second[:34]) and second.endswith(b"x")
    assert "a frame was still being written" in child.text


def test_an_interrupted_frame_poisons_the_wire(launch: Callable[..., Child], wire: str) -> None:
    """Fault 25 and hazard 32: a frame that is given up half way (KeyboardInterrupt while the client does not read) is
    the last thing on the wire: each later frame is refused with GuardStateError, from every thread.

    Seen to fail with the poison taken out: the next frame was glued to the half one.
    """
    child = launch(
        """
import threading
send(1)
try: send(2, "x" * (1 << 20))
except KeyboardInterrupt: pass
def late():
    for number in range(3, 6):
        try: send(number)
        except stdout_guard.GuardStateError as error: os.write(2, f"refused: {error}\\n".encode())
late()
thread = threading.Thread(target=late)
thread.start()
thread.join()
""",
        wire=wire,
        read_wire=False,
    )
    child.wire.wait_readable()
    child.wait_blocked()
    child.process.send_signal(signal.SIGINT)
    child.wait_stderr("refused")
    assert child.wait_exit() == 0
    child.wire.start()
    assert child.finish() == 0
    first, second = bytes(child.wire.data).split(b"\n")
    assert frames(first + b"\n")[0]["id"] == 1
    assert b'"id":2' in second and second.endswith(b"x")
    assert child.text.count("refused: the wire is closed: a frame was interrupted half way") == 6


def test_the_client_goes_away_in_the_middle_of_a_frame(launch: Callable[..., Child], wire: str) -> None:
    """The client dies in the middle of a frame: BrokenPipeError once for each send, no signal, no spin, no traceback
    storm at exit, status 0; strays are still shown.

    Seen to fail with EPIPE swallowed by the wire.
    """
    child = launch(
        """
def attempt(number, text="ok"):
    try: send(number, text)
    except BrokenPipeError as error: os.write(2, f"gone {number}: {error}\\n".encode())
send(1)
attempt(2, "x" * (1 << 20))
attempt(3)
attempt(4)
print("still shown")
""",
        wire=wire,
        read_wire=False,
    )
    child.wire.wait_readable()
    child.wait_blocked()
    child.wire.hang_up()
    assert child.finish() == 0
    assert [child.text.count(f"gone {number}: ") for number in (2, 3, 4)] == [1, 1, 1]
    assert "in <module>: still shown" in child.text
    assert "Traceback" not in child.text and "Exception ignored" not in child.text


ENDINGS = {"caught": ("", 0), "uncaught": ("raise", 1), "exit": ("sys.exit(5)", 5)}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_the_exit_status_after_the_clients_death(
    launch: Callable[..., Child], wire: str, ending: str, mode: str
) -> None:
    """The exit status with a dead client is what the program makes of the BrokenPipeError: the guard adds nothing, in
    strict mode neither.

    Seen to fail with the wire flushed by a BufferedWriter at exit (status 120).
    """
    code, status = ENDINGS[ending]
    child = launch(
        f"send(1)\nsys.stdin.readline()\ntry: send(2)\nexcept BrokenPipeError:\n    {code or 'pass'}\n"
        f"sys.stdin.readline()\n",
        wire=wire,
        mode=mode,
    )
    child.wait_frame(1)
    child.wire.hang_up()
    child.order()
    assert child.finish() == status
    assert child.text.count("Traceback") == (1 if ending == "uncaught" else 0)


@pytest.mark.slow
def test_a_client_stopped_for_five_seconds(launch: Callable[..., Child], wire: str) -> None:
    """Fault 49: the client is stopped for 5 s in the middle of the stream and goes on: nothing is lost, nothing is
    torn, and the server does not burn the time.

    Seen to fail with a write that times out and drops the rest.
    """
    stopped_client(launch, wire, 5.0)


def test_a_client_stopped_for_a_while(launch: Callable[..., Child], wire: str) -> None:
    """Fault 49, the quick half: stopped for longer than the patience that stray output is given.

    Seen to fail with the wire given the same patience as stderr.
    """
    stopped_client(launch, wire, 1.3)


def stopped_client(launch: Callable[..., Child], wire: str, seconds: float) -> None:
    child = launch(THREADS + "import resource\nos.write(2, b'cpu %f' % sum(resource.getrusage(0)[:2]))\n", wire=wire)
    child.wait_frame(0)
    child.wire.pause()
    child.wait_blocked()
    time.sleep(seconds)  # the fault itself: nothing happens in this time
    child.wire.start()
    assert child.finish() == 0
    assert sorted(child.ids()) == list(range(200))
    assert float(child.text.rpartition("cpu ")[2]) < 3


def test_a_full_disk_as_the_wire(launch: Callable[..., Child]) -> None:
    """Section f: /dev/full as stdout: the frame raises OSError, the next one is tried again, strays are shown.

    Seen to fail with a frame that was refused whole taken for torn.
    """
    child = launch(
        """
import errno
for number in (1, 2):
    try: send(number)
    except OSError as error: os.write(2, f"{number}: {errno.errorcode[error.errno]}\\n".encode())
print("shown")
""",
        shell='exec "$@" >/dev/full',
    )
    assert child.finish() == 0
    assert "1: ENOSPC" in child.text and "2: ENOSPC" in child.text and "in <module>: shown" in child.text


def test_a_wrapper_that_is_collected(launch: Callable[..., Child], wire: str, unbuffered: bool) -> None:
    """Hazard 31: SDKs wrap the wire's buffer and drop, close or detach the wrapper: the wire stays open, the status 0.

    Seen to fail with a close() that closes.
    """
    child = launch(
        """
import gc, io
for number in range(3):
    text = io.TextIOWrapper(guard.wire, encoding="utf-8")
    text.write(frame(number).decode())
    text.flush()
    del text
    gc.collect()
io.TextIOWrapper(guard.text_wire.buffer, encoding="utf-8").close()
guard.wire.close()
guard.text_wire.close()
assert not guard.wire.closed
with guard.wire as w: w.write(frame(3))
io.BufferedWriter(guard.wire).detach()
send(4)
""",
        wire=wire,
        unbuffered=unbuffered,
    )
    assert child.finish() == 0
    assert child.ids() == [0, 1, 2, 3, 4]
    assert "Exception" not in child.text


def test_a_large_text_write_to_a_slow_reader(launch: Callable[..., Child], wire: str) -> None:
    """Hazard 30: TextIOWrapper ignores short counts of what lies under it, so the wire takes all or raises.

    Seen to fail with a short count of write(2) returned.
    """
    child = launch(
        "guard.text_wire.write(frame(1, 'x' * (1 << 20)).decode())\nsend(2)\n",
        wire=wire,
        read_wire=False,
        nonblocking=True,
    )
    child.wire.chunk, child.wire.pace = 4096, 0.0001
    child.wire.start()
    assert child.finish() == 0
    assert child.ids() == [1, 2]


def test_stray_and_frames_from_the_same_threads(launch: Callable[..., Child], wire: str) -> None:
    """Hazard 34: responses that go out while other threads print, silence themselves and print again all reach the
    wire.

    Seen to fail with sys.stdout swapped for the time of a call.
    """
    child = launch(
        """
import contextlib, io, threading
def tool(n):
    for i in range(50):
        with contextlib.redirect_stdout(io.StringIO()): print("kept by the tool")
        print("stray", n, i)
        send(n * 50 + i)
threads = [threading.Thread(target=tool, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
        wire=wire,
    )
    assert child.finish() == 0
    assert sorted(child.ids()) == list(range(200))
