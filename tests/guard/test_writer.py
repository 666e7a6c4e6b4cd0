"""FrameWriter and the wire: whole valid frames or nothing, from threads, tasks and signal handlers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from guard.harness import Result

from stdout_guard.errors import LocalProtocolError, ProtocolError
from stdout_guard.framing import Framing
from stdout_guard.writer import FrameWriter

OK: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "result": {}}
BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'

SENT: list[tuple[Framing, Mapping[str, object] | str | bytes, bytes]] = [
    ("ndjson", OK, BODY + b"\n"),
    ("ndjson", BODY, BODY + b"\n"),
    ("ndjson", BODY + b"\n", BODY + b"\n"),
    ("ndjson", BODY.decode(), BODY + b"\n"),
    (
        "ndjson",
        '{"jsonrpc":"2.0","method":"a","params":["\u00e9"]}',
        '{"jsonrpc":"2.0","method":"a","params":["é"]}\n'.encode(),
    ),
    ("content-length", OK, b"Content-Length: 36\r\n\r\n" + BODY),
    ("content-length", BODY, b"Content-Length: 36\r\n\r\n" + BODY),
    ("content-length", BODY.decode(), b"Content-Length: 36\r\n\r\n" + BODY),
    (
        "content-length",
        '{"jsonrpc":"2.0","method":"a","params":["\u00e9"]}',
        b"Content-Length: 46\r\n\r\n" + '{"jsonrpc":"2.0","method":"a","params":["é"]}'.encode(),
    ),
    (
        "content-length",  # a line break is no delimiter here
        b'{"jsonrpc":"2.0",\n"id":1,"result":{}}',
        b'Content-Length: 37\r\n\r\n{"jsonrpc":"2.0",\n"id":1,"result":{}}',
    ),
]


class Once(io.RawIOBase):
    """Counts the writes it gets."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: Any, /) -> int:
        self.pieces.append(bytes(data))
        return len(data)


@pytest.mark.parametrize(("framing", "message", "expected"), SENT)
def test_a_message_is_one_write_of_one_frame(
    framing: Framing, message: Mapping[str, object] | str | bytes, expected: bytes
) -> None:
    """A mapping, a str or bytes becomes one whole frame in one write; lengths count bytes."""
    wire = Once()
    FrameWriter(wire, framing).send(message)
    assert wire.pieces == [expected]


def test_a_mapping_survives_whatever_its_strings_hold() -> None:
    """Line breaks of every kind inside strings are escaped: one line, the same value."""
    text = "a\nb\rc\x0b\x0c\x1c\x85\u2028\u2029\0\x7f\U0001f600"
    wire = Once()
    FrameWriter(wire).send({**OK, "result": {"text": text}})
    (piece,) = wire.pieces
    assert len(piece.decode().splitlines()) == 1
    assert json.loads(piece)["result"]["text"] == text


REFUSED: list[tuple[str, Any]] = [
    ("empty-mapping", {}),
    ("no-version", {"id": 1, "result": {}}),
    ("version-1", {**OK, "jsonrpc": "1.0"}),
    ("result-and-error", {**OK, "error": {"code": 1, "message": "x"}}),
    ("nan", {**OK, "result": {"x": float("nan")}}),
    ("infinity", {**OK, "result": {"x": float("inf")}}),
    ("a-set", {**OK, "result": {"x": {1}}}),
    ("an-object", {**OK, "result": {"x": object()}}),
    ("bytes-inside", {**OK, "result": {"x": b"x"}}),
    ("surrogate", {**OK, "result": {"x": "\udcff"}}),
    ("keys-that-become-one", {**OK, "result": {1: "x", "1": "y"}}),
    ("bool-id", {**OK, "id": True}),
    ("text", "hello"),
    ("empty-text", ""),
    ("newline", "\n"),
    ("two-frames", BODY + b"\n" + BODY),
    ("glued", BODY + BODY),
    ("half", BODY[:-1]),
    ("crlf", BODY + b"\r\n"),
    ("two-newlines", BODY + b"\n\n"),
    ("not-utf-8", b'{"jsonrpc":"2.0","method":"\xff"}'),
    ("bom", b"\xef\xbb\xbf" + BODY),
    ("duplicate-key", b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}'),
    ("nan-in-text", '{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}'),
    ("surrogate-text", '{"jsonrpc":"2.0","method":"\udcff"}'),
    ("number", 1),
    ("none", None),
    ("list", [OK]),
    ("framed-already", b"Content-Length: 36\r\n\r\n" + BODY),
]


@pytest.mark.parametrize("framing", ["ndjson", "content-length"])
@pytest.mark.parametrize("message", [row[1] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_whole_valid_frame_is_refused(message: Any, framing: Framing) -> None:
    """Anything else is a LocalProtocolError that begins "refused to send", and nothing reaches the wire."""
    wire = Once()
    if message == BODY + b"\r\n" and framing == "content-length":
        FrameWriter(wire, framing).send(message)  # white space around a JSON text is part of the body
        assert wire.pieces == [b"Content-Length: 37\r\n\r\n" + BODY + b"\r"]
        return
    if message == BODY + b"\n\n" and framing == "content-length":
        FrameWriter(wire, framing).send(message)
        assert wire.pieces == [b"Content-Length: 37\r\n\r\n" + BODY + b"\n"]
        return
    with pytest.raises(LocalProtocolError, match=r"^refused to send") as caught:
        FrameWriter(wire, framing).send(message)
    assert isinstance(caught.value, ProtocolError)
    assert wire.pieces == []


def test_unchecked_frames_still_cannot_tear_the_framing() -> None:
    """check=False trusts str and bytes, but a raw line break in an ndjson frame and a bad mapping are refused."""
    wire = Once()
    writer = FrameWriter(wire, check=False)
    writer.send(b"anything")
    for bad in (b"a\nb", {"no": "message"}):
        with pytest.raises(LocalProtocolError):
            writer.send(bad)
    assert wire.pieces == [b"anything\n"]


def test_choices_that_do_not_exist() -> None:
    """An unknown framing or protocol is a ValueError that names the choices."""
    with pytest.raises(ValueError, match="framing: 'lsp' is not one of ndjson, content-length"):
        FrameWriter(Once(), "lsp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="protocol: 'x' is not one of jsonrpc, dap"):
        FrameWriter(Once(), protocol="x")  # type: ignore[arg-type]


def test_debug_adapter_messages() -> None:
    """protocol="dap" takes the Debug Adapter Protocol's shapes and refuses JSON-RPC's."""
    wire = Once()
    writer = FrameWriter(wire, "content-length", protocol="dap")
    writer.send({"seq": 1, "type": "event", "event": "initialized"})
    with pytest.raises(LocalProtocolError):
        writer.send(OK)
    assert len(wire.pieces) == 1


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
    assert done.text == ""


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
