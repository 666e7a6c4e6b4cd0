"""The wire: whole frames from threads, tasks and signal handlers, and a stream that nobody can close."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from guard.harness import Result

OK: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "result": {}}


WRITER = "from stdout_guard.writer import FrameWriter\nwriter = FrameWriter(guard.wire)\n"


def frames(wire: bytes) -> list[dict[str, Any]]:
    """The wire's frames; a byte that is in none is an error."""
    lines = wire.split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines]


def test_threads(run: Callable[..., Result]) -> None:
    """Eight threads that send frames larger than a pipe keeps whole: each frame arrives once, whole, in its thread's
    order, while other threads print."""
    done = run(f"""{WRITER}
import sys, threading
sys.setswitchinterval(1e-6)
def send(name):
    for n in range(50):
        writer.send({{"jsonrpc": "2.0", "id": f"{{name}}-{{n}}", "result": {{"x": str(name) * 5000}}}})
        print("noise", name, n)
threads = [threading.Thread(target=send, args=(name,)) for name in range(8)]
for t in threads: t.start()
for t in threads: t.join()
""", env={"STDOUT_GUARD_LOG": "log"})  # fmt: skip
    assert done.status == 0, done.text
    ids = [frame["id"] for frame in frames(done.wire)]
    assert len(ids) == 400
    for name in range(8):
        assert [i for i in ids if i.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(50)]


def test_tasks(run: Callable[..., Result]) -> None:
    """Tasks and executor threads of one event loop send whole frames."""
    done = run(f"""{WRITER}
import asyncio
async def tool(n):
    await asyncio.sleep(0)
    writer.send({{"jsonrpc": "2.0", "id": n, "result": {{}}}})
    print("noise", n)
    await asyncio.to_thread(writer.send, {{"jsonrpc": "2.0", "id": -n - 1, "result": {{}}}})
async def main(): await asyncio.gather(*(tool(n) for n in range(50)))
asyncio.run(main())
""")  # fmt: skip
    assert done.status == 0, done.text
    assert sorted(frame["id"] for frame in frames(done.wire)) == list(range(-50, 50))


def test_signal_handlers(run: Callable[..., Result]) -> None:
    """A handler that sends while the main thread sends: every frame arrives once, none torn or lost."""
    done = run(f"""{WRITER}
import signal, sys
hits = 0
def handler(number, frame):
    global hits
    hits += 1
    writer.send({{"jsonrpc": "2.0", "id": f"h{{hits}}", "result": {{}}}})
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for n in range(3000):
    writer.send({{"jsonrpc": "2.0", "id": n, "result": {{"x": "y" * 100}}}})
signal.setitimer(signal.ITIMER_REAL, 0)
writer.send({{"jsonrpc": "2.0", "id": f"hits={{hits}}", "result": {{}}}})
""")  # fmt: skip
    assert done.status == 0, done.text
    ids = [frame["id"] for frame in frames(done.wire)]
    hits = int(ids.pop().removeprefix("hits="))
    assert hits > 5, "no signal fell into a send: nothing was tested"
    assert [i for i in ids if isinstance(i, int)] == list(range(3000))
    assert sorted((i for i in ids if isinstance(i, str)), key=lambda i: int(i[1:])) == [
        f"h{n + 1}" for n in range(hits)
    ]


def test_a_refusal_leaves_the_real_wire_untouched(run: Callable[..., Result]) -> None:
    """After a refused message the next good one is the first thing the client sees."""
    done = run(f"""{WRITER}
from stdout_guard import LocalProtocolError
for bad in ({{}}, "x", b"\\xff", None, {{"jsonrpc": "2.0", "id": 1, "result": {{"x": float("nan")}}}}):
    try: writer.send(bad)
    except LocalProtocolError: pass
    else: raise SystemExit("sent")
writer.send({{"jsonrpc": "2.0", "id": 1, "result": {{}}}})
""")  # fmt: skip
    assert done.status == 0, done.text
    assert frames(done.wire) == [OK]


def test_the_wire_as_a_stream(run: Callable[..., Result]) -> None:
    """guard.wire is a raw binary stream that is not fileno 1, takes any buffer whole, refuses str, and cannot be
    closed; guard.text_wire is UTF-8 text over it."""
    done = run("""
import array, io, sys
wire = guard.wire
assert isinstance(wire, io.RawIOBase) and wire.writable() and not wire.readable() and not wire.isatty()
assert wire.fileno() > 2 and wire.name == "<wire>" and guard.wire is wire
try: wire.write("text")
except TypeError: pass
else: raise SystemExit("took a str")
assert wire.write(b"1\\n") == 2
wire.write(bytearray(b"2\\n")); wire.write(memoryview(b"3\\n")); wire.write(array.array("b", b"4\\n"))
wire.writelines([b"5\\n"])
wire.close(); wire.flush()
with wire: pass
assert not wire.closed
text = guard.text_wire
assert text.encoding == "utf-8" and text.buffer is wire and guard.text_wire is text
text.write("6\\u00e9\\n")
print("7", file=text)
text.close(); text.flush()
io.TextIOWrapper(io.BufferedWriter(wire), "utf-8").write("8\\n")
with io.open(wire.fileno(), "wb", 0, closefd=False) as again: again.write(b"9\\n")
assert guard.counts.strays == 0
""")
    assert done.status == 0, done.text
    assert done.wire == "1\n2\n3\n4\n5\n6é\n7\n8\n9\n".encode()
    # CPython 3.13 says aloud that a collected BufferedWriter closed a raw stream which never counts as closed. The
    # frame is whole, and a wire that counted as closed would lose the frames of SDKs that ask first.
    aloud = sys.version_info >= (3, 13) and done.text.count("Exception ignored") == 1 and "BufferedWriter" in done.text
    assert done.text == "" or aloud


def test_the_wire_after_the_client_left(run: Callable[..., Result]) -> None:
    """With the client gone a send is a BrokenPipeError, again and again; nothing else breaks."""
    done = run("""
import os, subprocess, sys
inner = '''
import sys
from stdout_guard.auto import guard
sys.stdin.readline()
for _ in "ab":
    try: guard.wire.write(b"frame")
    except BrokenPipeError as error: sys.stderr.write(str(error) + chr(10))
print("stray")
'''
p = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdout.close()
p.communicate(b"go\\n") if False else (p.stdin.write(b"go\\n"), p.stdin.close())
assert p.wait() == 0, p.returncode
""", prelude="")  # fmt: skip
    assert done.status == 0, done.text
    assert done.text.count("Broken pipe") == 2
    assert done.report == ["<string>:8 in <module>: stray"]
