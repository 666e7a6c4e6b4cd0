"""FrameWriter and the wire: whole valid frames or nothing, from threads, tasks and signal handlers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

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
