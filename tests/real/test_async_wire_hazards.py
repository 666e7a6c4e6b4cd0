"""The asynchronous wire's contract: who gets it, and that nothing blocks, tears, doubles or gets lost on it."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import DEADLINE, Child
from real import async_server
from real.async_server import HELLO, READY, call, greet

Serve = Callable[..., Child]
LOOPS = ["asyncio", *(pytest.param(name, marks=pytest.mark.slow) for name in ("trio", "uvloop"))]
USED = (
    "import mcp.server.stdio as m\nprint(type(m.stdio_server.__wrapped__.__defaults__[0]).__name__, file=sys.stderr)\n"
)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", LOOPS)
def test_each_of_many_calls_is_answered_once(serve: Serve, loop: str, count: int) -> None:
    """Calls that are sent without waiting are each answered exactly once, whole."""
    child = serve("async", "mcp 2", loop, source=(async_server.GUARD + async_server.SDKS["mcp 2"][1]
        + async_server.TOOLS.replace("    print(\"stray\", text[:20])\n", "") + async_server.LOOPS[loop]))  # fmt: skip
    greet(child)
    child.order("\n".join(call(i, "echo", text="x" * 100) for i in range(2, count + 2)))
    child.wire.wait_for(lambda data: data.count(b"\n") > count, 4 * DEADLINE)
    assert child.finish() == 0
    assert sorted(child.ids()) == list(range(1, count + 2))


@pytest.mark.parametrize("sdk", ["mcp 2", "mcp 1", pytest.param("mcp 1.9", marks=pytest.mark.slow)])
@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_both_import_orders(serve: Serve, sdk: str, order: str) -> None:
    """An SDK gets it whether it was imported before the guard or after, and by argument as by variable; without either,
    it keeps its own defaults."""
    server = async_server.SDKS[sdk][1]
    guard = "import stdout_guard; stdout_guard.install(async_wire=True)\n"
    text = guard + server if order == "guard first" else server + guard
    child = serve("threads", sdk, source=text + async_server.TOOLS + USED + async_server.LOOPS["asyncio"])
    greet(child)
    assert child.finish() == 0
    assert "Lines\n" in child.text and child.ids() == [1]


def test_off_and_not_asked_for_change_nothing(serve: Serve) -> None:
    """Where it is not asked for, or with STDOUT_GUARD=off, the entry function keeps its defaults and the file is not
    even imported."""
    body = async_server.TOOLS + USED + "print('async_wire' in str(list(sys.modules)), file=sys.stderr)\n"
    for mode, kind in (("", "threads"), ("off", "async")):
        child = serve(kind, mode=mode, source=async_server.GUARD + async_server.SDKS["mcp 2"][1] + body)
        assert child.finish() == 0
        assert child.text == "NoneType\nFalse\n"


EXPLICIT = """
import io
from mcp.server.stdio import stdio_server
lowlevel = server._lowlevel_server if hasattr(server, "_lowlevel_server") else server._mcp_server
async def run():
    stdin = anyio.wrap_file(io.StringIO({lines!r}))
    out = io.StringIO()
    async with stdio_server({which}) as (r, w):
        await lowlevel.run(r, w, lowlevel.create_initialization_options())
    print("own", out.getvalue(), file=sys.stderr)
anyio.run(run)
"""


@pytest.mark.parametrize("which", ["stdin=stdin", "stdout=anyio.wrap_file(out)"])
def test_explicit_streams_win(serve: Serve, which: str) -> None:
    """stdio_server(stdin=...) and stdio_server(stdout=...) use what they were given; the other half is ours."""
    lines = json.dumps(HELLO) + "\n"
    child = serve("async", after=EXPLICIT.format(lines=lines, which=which))
    if which != "stdin=stdin":
        child.order(json.dumps(HELLO))
    assert child.finish() == 0
    own = b'"id":1,' in child.text.split("own")[1].encode()
    assert (own, len(child.ids())) == ((False, 1) if which == "stdin=stdin" else (True, 0))


CHANGED = {
    "other names": "def stdio_server(reader=None, writer=None): pass",
    "other defaults": "def stdio_server(stdin='-', stdout='-'): wrap_file, lambda x: (x.write, x.flush)",
    "other ways": "def stdio_server(stdin=None, stdout=None): pass",
    "no entry": "def serve(): pass",
}


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_a_changed_sdk_is_told_by_name(serve: Serve, tmp_path: Path, change: str, order: str) -> None:
    """An entry function that is not what was expected is left alone and reported with the module's name; its frames
    go the ordinary way."""
    folder = tmp_path / "sdk/mcp/server"
    folder.mkdir(parents=True)
    for path in (folder.parent, folder):
        (path / "__init__.py").write_text("")
    sends = "def send(text): sys.stdout.write(text); sys.stdout.flush()\n"
    (folder / "stdio.py").write_text(f"import sys\n{CHANGED[change]}\n{sends}")
    guard, sdk = "import stdout_guard.auto\n", "import mcp.server.stdio as m\n"
    both = guard + sdk if order == "guard first" else sdk + guard
    path = f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n"
    child = serve("async", source=f'{path}{both}m.send(\'{{"jsonrpc":"2.0","id":1,"result":0}}\\n\')\n')
    assert child.finish() == 0
    assert child.ids() == [1]
    (told,) = child.text.splitlines()
    assert "the asynchronous wire does not fit this version of mcp.server.stdio" in told


SECOND = """
import anyio.lowlevel
from mcp.server.stdio import stdio_server
async def serve_once(then):
    async with stdio_server():
        for _ in range(10):  # its tasks have begun
            await anyio.lowlevel.checkpoint()
        await then()
        raise LookupError("ended")
async def second():
    try:
        await serve_once(anyio.lowlevel.checkpoint)
    except RuntimeError as error:
        print("second:", error, file=sys.stderr)
async def first():
    kept = []
    for _ in range(2):
        try:
            await serve_once(second)
        except BaseException as error:
            kept.append(error)  # with its traceback, and all the frames on it
            print("first:", type(error).__name__, file=sys.stderr)
anyio.run(first)
"""


def test_one_transport_at_a_time(serve: Serve) -> None:
    """A second stdio_server() beside a running one is refused; after that ended, whoever holds its traceback, the next
    one is served.

    Seen to fail with the second let through.
    """
    child = serve("async", after=SECOND)
    child.wait_stderr("first: ExceptionGroup\n")
    assert child.finish() == 0
    refused = "second: another stdio_server() in this process reads stdin and writes the wire already"
    assert [line for line in child.text.splitlines() if "second: " in line or "first: " in line] == [
        refused, "first: ExceptionGroup", refused, "first: ExceptionGroup"
    ]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_a_client_that_does_not_read(serve: Serve, tmp_path: Path, wire: str, loop: str) -> None:
    """A large result that nobody reads, and small ones behind it, block neither the loop nor other calls; what waited
    arrives whole once the client reads. No flag of the shared descriptions is changed.

    Seen to fail with the frame written by the loop's own thread.
    """
    theirs, ours = socket.socketpair()
    with theirs, ours:
        child = serve("async", "mcp 2", loop, wire=wire, stdin=ours.fileno())

        def order(*lines: str) -> None:
            theirs.sendall("".join(f"{line}\n" for line in lines).encode())

        order(json.dumps(HELLO))
        child.wait_frame(1)
        order(json.dumps(READY))
        child.wire.pause()
        order(call(2, "big", size=1_000_000))
        child.wait_blocked()
        for ident in range(3, 6):
            seen = child.folder / f"seen{ident}"
            order(call(ident, "touch", path=str(seen)))
            wait_for(seen, child)
        assert os.get_blocking(ours.fileno())
        child.wire.start()
        child.wait_frame(5)
        theirs.shutdown(socket.SHUT_WR)
        assert child.finish() == 0
        assert sorted(child.ids()) == [1, 2, 3, 4, 5]


def wait_for(path: Path, child: Child) -> None:
    import time

    limit = time.monotonic() + DEADLINE
    while not path.exists():
        assert time.monotonic() < limit and child._waiter.is_alive(), f"{path.name} was not made: the loop is blocked"
        time.sleep(0.01)


LINES = """
from stdout_guard.adapters import async_wire
async_wire.LONGEST = 100_000
"""


def test_odd_lines(serve: Serve) -> None:
    """Lines end with \\n alone: a carriage return is white space, U+2028 and U+0085 are text. A line that is too long
    is one invalid line; the next one is answered. Bytes that are no UTF-8 harm nobody else."""
    child = serve("async", source=async_server.GUARD + async_server.SDKS["mcp 2"][1] + async_server.TOOLS + LINES
                  + async_server.LOOPS["asyncio"])  # fmt: skip
    greet(child)
    assert child.process.stdin is not None
    text = "a\u2028b\u0085c"
    odd = [
        call(2, "echo", text="x").replace(", ", ",\r ").encode() + b"\r",
        json.dumps(json.loads(call(3, "echo", text=text)), ensure_ascii=False).encode(),
        call(4, "echo", text="y" * 300_000).encode(),
        b'{"jsonrpc": "2.0", "id": 5, "method": "\xff"',
        b"",
        call(6, "echo", text="z").encode(),
    ]
    child.process.stdin.write(b"\n".join(odd) + b"\n")
    child.process.stdin.flush()
    child.wait_frame(6)
    assert child.finish() == 0
    answers = {frame.get("id"): frame for frame in child.frames() if "result" in frame}
    assert answers.keys() == {1, 2, 3, 6}
    assert answers[3]["result"]["content"][0]["text"] == text


CANCEL = """
import mcp.server.stdio, random
Lines, Frames = mcp.server.stdio.stdio_server.__wrapped__.__defaults__
async def main():
    got, cut = [], 0
    lines = aiter(Lines)
    while True:
        with anyio.move_on_after(random.choice([0, 0, 0.0005])) as scope:
            try:
                line = await anext(lines)
            except StopAsyncIteration:
                break
            got.append(int(line))
        cut += scope.cancelled_caught
    assert got == list(range(2_000)), (len(got), got[:5])
    assert cut, "nothing was cancelled"
    for ident in range(20):
        with anyio.move_on_after(0.001):
            await Frames.write('{"jsonrpc":"2.0","id":%d,"result":"%s"}\\n' % (ident, "x" * 300_000))
LOOP
"""


@pytest.mark.parametrize("loop", LOOPS)
def test_cancelling_tears_and_loses_nothing(serve: Serve, loop: str) -> None:
    """A reader that is cancelled at any moment loses no line and doubles none; a cancelled write has sent its frame
    whole, or nothing of it."""
    import threading

    start = async_server.LOOPS[loop].replace("(run", "(main")
    child = serve("async", "mcp 2", loop, source=async_server.GUARD + "import anyio\n" + CANCEL.replace("LOOP", start))
    feed = threading.Thread(
        target=lambda: [child.order("\n".join(map(str, range(n, n + 5)))) for n in range(0, 2_000, 5)]
    )
    feed.start()
    feed.join()
    assert child.finish() == 0, child.text
    assert all(len(frame["result"]) == 300_000 for frame in child.frames())
    assert re.findall("torn|Error", child.text) == []


TAKEN = """
import mcp.server.stdio, stdout_guard
_, Frames = mcp.server.stdio.stdio_server.__wrapped__.__defaults__
async def main():
    fd = stdout_guard.current().wire_fd
    TAKE
    for size in (10, 5_000, 70_000):
        try:
            await Frames.write("x" * size)
        except stdout_guard.GuardStateError as error:
            print(size, error, file=sys.stderr)
anyio.run(main)
"""


@pytest.mark.parametrize("take", ["os.close(fd)", "os.dup2(os.open('other', os.O_CREAT | os.O_RDWR), fd)"])
def test_a_wire_that_was_taken_away_is_named(serve: Serve, take: str) -> None:
    """Frames of each size, however their room is looked for, say that a foreign hand closed or replaced the wire.

    Seen to fail with an OSError of the look at the pipe, which names nothing.
    """
    source = async_server.GUARD + "import anyio, os, sys\n" + TAKEN.replace("TAKE", take)
    child = serve("async", source=source)
    assert child.finish() == 0, child.text
    said = re.findall(r"^(\d+) the wire's descriptor \d+ was closed or replaced by a foreign hand", child.text, re.M)
    assert said == ["10", "5000", "70000"]


TURNS = """
import mcp.server.stdio
Lines, _ = mcp.server.stdio.stdio_server.__wrapped__.__defaults__
turns, seen = 0, []
async def other():
    global turns
    while True:
        turns += 1
        await anyio.sleep(0)
async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        async for _ in Lines:
            seen.append(turns)
        group.cancel_scope.cancel()
    assert len(seen) == 50 and all(seen.count(turn) <= 2 for turn in seen), seen  # trio shuffles who is first
LOOP
"""


@pytest.mark.parametrize("loop", LOOPS)
def test_lines_that_came_together_leave_turns_to_others(serve: Serve, loop: str) -> None:
    """Between two lines of one read every other task has a turn: large answers to them do not hold the loop in a row.

    Seen to fail: a heartbeat beside three answers of 1 MB was 10 ms later than under the stock transport.
    """
    start = async_server.LOOPS[loop].replace("(run", "(main")
    child = serve("async", "mcp 2", loop, source=async_server.GUARD + "import anyio\n" + TURNS.replace("LOOP", start))
    child.order("\n".join(map(str, range(50))))
    assert child.finish() == 0, child.text
