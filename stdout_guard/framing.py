"""Bytes in, frames out: newline-delimited JSON and Content-Length framing, without I/O.

Rules: only LF (0x0A) ends a line, never CR, VT, FF, NEL or U+2028; nothing is stripped, skipped or repaired.
A Content-Length header is ``Name: value`` CRLF, then an empty line, then exactly that many bytes. What is not a frame
comes out as a :class:`FramingFault`, in wire order with the frames; a ``fatal`` fault means that the reader no longer
knows where a frame starts. Work is linear in the bytes fed however they are cut, and no more than ``max_frame`` bytes
plus one feed are ever held.

Sources: MCP basic/transports (stdio), LSP base protocol 3.17, DAP overview, RFC 9110 5.1 and 5.5 for header fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

from stdout_guard.errors import LocalProtocolError

Framing: TypeAlias = Literal["ndjson", "content-length"]
FRAMINGS: Final[tuple[Framing, ...]] = ("ndjson", "content-length")
MAX_FRAME_TO_CLIENT: Final = 10 * 1024 * 1024  # the read buffer of the TypeScript SDK's client: beyond it, it closes
MAX_FRAME_TO_SERVER: Final = 4 * 1024 * 1024
MAX_HEADER_LINE: Final = 1024
RAW_HEAD: Final = 4096  # of what is too long to keep, this much is kept


class Frame(NamedTuple):
    """One frame: ``body`` is its content; ``line`` (1-based) and ``offset`` (bytes) say where it starts."""

    prefix: bytes
    body: bytes
    suffix: bytes
    line: int
    offset: int

    @property
    def raw(self) -> bytes:
        """The frame as it stood on the wire, header or newline included."""
        return self.prefix + self.body + self.suffix

    @property
    def crlf(self) -> bool:
        """Whether the line ended in CR LF."""
        return self.suffix == b"\r\n"


# NamedTuple's own constructor is Python code; one frame in two is small enough for that to show
_frame = cast("Callable[[tuple[bytes, bytes, bytes, int, int]], Frame]", partial(cast("Any", tuple).__new__, Frame))
_CR: Final = 0x0D


class FramingFault(NamedTuple):
    """Bytes that are no frame. ``raw`` is what was there (the head of it when it was over-long)."""

    code: str
    stage: str
    why: str
    raw: bytes
    line: int
    offset: int
    fatal: bool = False


Event: TypeAlias = Frame | FramingFault


class FrameReader(Protocol):
    """Turns bytes, however they are cut, into frames and faults."""

    def feed(self, data: bytes, /) -> list[Event]:
        """Take more bytes; return what they completed."""
        ...

    def close(self) -> list[Event]:
        """The stream has ended; return what that makes of the bytes still held."""
        ...


def frame_reader(
    framing: Framing,
    *,
    max_frame: int = MAX_FRAME_TO_CLIENT,
    crlf: Literal["note", "reject"] = "note",
    blank: Literal["reject", "allow"] = "reject",
    content_type: bool = True,
) -> FrameReader:
    """A reader for one stream.

    ``max_frame``: bytes in a line (without its LF) or a body. ``crlf`` and ``blank`` concern ndjson only: ``note``
    takes CR LF for a line end (see :attr:`Frame.crlf`), ``allow`` skips empty lines. ``content_type=False`` refuses
    the Content-Type header (DAP). Raises ValueError for an unknown framing.
    """
    if framing == "ndjson":
        return _LineReader(max_frame, crlf == "reject", blank == "allow")
    if framing == "content-length":
        return _LengthReader(max_frame, content_type)
    raise ValueError(f"unknown framing {framing!r}: expected one of {', '.join(FRAMINGS)}")


def encode(framing: Framing, body: bytes) -> bytes:
    """``body`` as one frame. Raises LocalProtocolError when a newline in it would tear an ndjson frame."""
    if framing == "content-length":
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    if framing != "ndjson":
        raise ValueError(f"unknown framing {framing!r}: expected one of {', '.join(FRAMINGS)}")
    if b"\n" in body or b"\r" in body:
        raise LocalProtocolError("frame holds a raw line break: write it as \\n inside a JSON string, or not at all")
    return body + b"\n"


class _LineReader:
    def __init__(self, max_frame: int, reject_crlf: bool, allow_blank: bool) -> None:
        self._max = max_frame
        self._reject_crlf = reject_crlf
        self._allow_blank = allow_blank
        self._tail = bytearray()
        self._skipping = False  # inside a line already reported as over-long
        self._line = 1
        self._offset = 0  # of the first byte of the current line
        self._skipped = 0

    def feed(self, data: bytes, /) -> list[Event]:
        out: list[Event] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._tail or self._skipping or end - start > self._max or data[end - 1] == _CR or end == start:
                self._end_line(data[start:end], out)
            else:  # the ordinary line, whole
                out.append(_frame((b"", data[start:end], b"\n", self._line, self._offset)))
                self._line += 1
                self._offset += end - start + 1
            start = end + 1
        if start < len(data):
            self._hold(data[start:] if start else data, out)
        return out

    def close(self) -> list[Event]:
        if not self._tail:
            return []
        raw = bytes(self._tail)
        self._tail.clear()
        why = "the stream ended inside a line: the last frame has no newline"
        return [FramingFault("no-final-newline", "framing", why, raw, self._line, self._offset, True)]

    def _hold(self, piece: bytes, out: list[Event]) -> None:
        if self._skipping:
            self._skipped += len(piece)
        elif len(self._tail) + len(piece) > self._max:
            self._too_long(piece, out)
        else:
            self._tail += piece

    def _too_long(self, piece: bytes, out: list[Event]) -> None:
        keep = min(RAW_HEAD, self._max + 1)  # the same bytes however the line was cut
        raw = bytes(self._tail[:keep]) + piece[: max(0, keep - len(self._tail))]
        why = f"the line is longer than {self._max} bytes"
        out.append(FramingFault("frame-too-long", "limits", why, raw, self._line, self._offset, True))
        self._skipping = True
        self._skipped = len(self._tail) + len(piece)
        self._tail.clear()

    def _end_line(self, piece: bytes, out: list[Event]) -> None:
        size = len(self._tail) + len(piece)
        if self._skipping:
            size = self._skipped + len(piece)
            self._skipping = False
        elif size > self._max:
            self._too_long(piece, out)
            self._skipping = False
        else:
            if self._tail:
                self._tail += piece
                piece = bytes(self._tail)
                self._tail.clear()
            self._complete(piece, out)
        self._line += 1
        self._offset += size + 1

    def _complete(self, body: bytes, out: list[Event]) -> None:
        suffix = b"\n"
        if body[-1:] == b"\r":
            body, suffix = body[:-1], b"\r\n"
            if self._reject_crlf:
                why = "the line ends in CR LF"
                out.append(FramingFault("crlf", "framing", why, body + suffix, self._line, self._offset))
                return
        if body:
            out.append(Frame(b"", body, suffix, self._line, self._offset))
        elif not self._allow_blank:
            why = "an empty line is not a message"
            out.append(FramingFault("blank-line", "framing", why, suffix, self._line, self._offset))


_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
_MAX_DIGITS = 15  # no length that long is ever allowed, and int() of thousands of digits raises


class _LengthReader:
    """The header state machine: a line is looked at once, a body is only counted."""

    def __init__(self, max_frame: int, content_type: bool) -> None:
        self._max = max_frame
        self._names = (b"content-length", b"content-type") if content_type else (b"content-length",)
        self._buffer = bytearray()
        self._start = 0  # in the buffer: the frame's first byte, the current header line, where to look next
        self._at = 0
        self._seen = 0
        self._length: int | None = None
        self._fields: dict[bytes, str] = {}
        self._in_body = False
        self._dead = False
        self._line = 1
        self._offset = 0

    def feed(self, data: bytes, /) -> list[Event]:
        out: list[Event] = []
        if self._dead:
            return out
        self._buffer += data
        while not self._dead and (self._take_body(out) if self._in_body else self._take_header(out)):
            pass
        if self._dead:
            self._buffer.clear()
        elif self._start:
            del self._buffer[: self._start]
            self._at -= self._start
            self._seen -= self._start
            self._start = 0
        return out

    def close(self) -> list[Event]:
        out: list[Event] = []
        if not self._dead and len(self._buffer):
            if self._in_body:
                have = len(self._buffer) - self._at
                why = f"the stream ended after {have} of the {self._length} bytes announced"
                self._fault("truncated-body", "framing", why, len(self._buffer), out)
            else:
                self._fault("truncated-header", "framing", "the stream ended inside a header", len(self._buffer), out)
        self._buffer.clear()
        return out

    def _fault(self, code: str, stage: str, why: str, end: int, out: list[Event]) -> None:
        raw = bytes(self._buffer[self._start : end])
        out.append(FramingFault(code, stage, why, raw, self._line, self._offset, True))
        self._dead = True

    def _take_body(self, out: list[Event]) -> bool:
        assert self._length is not None
        end = self._at + self._length
        if len(self._buffer) < end:
            return False
        prefix = bytes(self._buffer[self._start : self._at])
        body = bytes(self._buffer[self._at : end])
        out.append(Frame(prefix, body, b"", self._line, self._offset))
        self._line += prefix.count(b"\n") + body.count(b"\n")
        self._offset += end - self._start
        self._start = self._at = self._seen = end
        self._length, self._in_body = None, False
        self._fields = {}
        return True

    def _take_header(self, out: list[Event]) -> bool:
        end = self._buffer.find(b"\n", self._seen)
        size = (len(self._buffer) if end < 0 else end) - self._at
        if size > MAX_HEADER_LINE:
            why = f"a header line is longer than {MAX_HEADER_LINE} bytes: this is no header"
            self._fault("header-too-long", "framing", why, self._at + MAX_HEADER_LINE, out)
        elif end < 0:
            self._seen = len(self._buffer)
            return False
        else:
            line = bytes(self._buffer[self._at : end])
            self._header_line(line, end + 1, out)
            self._at = self._seen = end + 1
        return not self._dead

    def _header_line(self, line: bytes, end: int, out: list[Event]) -> None:
        text = line[:-1]
        match = _FIELD.fullmatch(text)
        if line[-1:] != b"\r":
            self._fault("header-line-end", "framing", _line_end_reason(line), end, out)
        elif not text:
            self._end_header(end, out)
        elif match is None:
            self._fault("not-a-header", "framing", "neither 'Name: value' nor the empty line after it", end, out)
        elif not text.isascii():
            self._fault("header-not-ascii", "framing", "the header part is ASCII", end, out)
        else:
            self._field(match[1].lower(), match[2].decode("ascii"), end, out)

    def _field(self, name: bytes, value: str, end: int, out: list[Event]) -> None:
        if name not in self._names:
            self._fault("unknown-header", "framing", f"no such header field: {name.decode('ascii')}", end, out)
        elif name in self._fields:
            self._fault("repeated-header", "framing", f"{name.decode('ascii')} is given twice", end, out)
        elif name == b"content-length":
            self._content_length(value, end, out)
        else:
            charset = _CHARSET.search(value)
            if charset and charset[1].lower() not in ("utf-8", "utf8"):
                self._fault("charset", "encoding", f"charset {charset[1]!r}: only utf-8 is defined", end, out)
        self._fields[name] = value

    def _content_length(self, value: str, end: int, out: list[Event]) -> None:
        digits = value.lstrip("0")
        if not (value.isascii() and value.isdigit()):
            self._fault("bad-length", "framing", "Content-Length is not a plain decimal number", end, out)
        elif len(digits) > _MAX_DIGITS or int(digits or "0") > self._max:
            why = f"announces a body longer than {self._max} bytes"
            self._fault("frame-too-long", "limits", why, end, out)
        else:
            self._length = int(digits or "0")

    def _end_header(self, end: int, out: list[Event]) -> None:
        if self._length is not None:
            self._in_body = True
        elif self._fields:
            self._fault("no-length", "framing", "a header without Content-Length", end, out)
        else:
            self._fault("stray-newline", "framing", "an empty line between frames", end, out)


def _line_end_reason(line: bytes) -> str:
    if _FIELD.fullmatch(line):
        return "the header line ends in LF alone: CR LF is required"
    return "not a header: a line of other output"
