"""Bytes in, frames out: newline-delimited JSON and Content-Length framing, without I/O.

Rules: only LF (0x0A) ends a line, never CR, VT, FF, NEL or U+2028; nothing is stripped, skipped or repaired.
A Content-Length header is ``Name: value`` CRLF, then an empty line, then exactly that many bytes. What is not a frame
comes out as a :class:`FramingFault`, in wire order with the frames; a ``fatal`` fault means that the reader no longer
knows where a frame starts. Work is linear in the bytes fed however they are cut, and no more than ``max_frame`` bytes
plus one feed are ever held.

Sources: MCP basic/transports (stdio), LSP base protocol 3.17, DAP overview, RFC 9110 5.1 and 5.5 for header fields.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

from stdout_guard._frames import Event, Frame, FramingFault, make_frame
from stdout_guard._length_framing import MAX_HEADER_LINE, LengthReader
from stdout_guard.errors import LocalProtocolError

__all__ = [
    "FRAMINGS",
    "MAX_FRAME_TO_CLIENT",
    "MAX_FRAME_TO_SERVER",
    "MAX_HEADER_LINE",
    "Event",
    "Frame",
    "FrameReader",
    "Framing",
    "FramingFault",
    "encode",
    "frame_reader",
]

Framing: TypeAlias = Literal["ndjson", "content-length"]
FRAMINGS: Final[tuple[Framing, ...]] = ("ndjson", "content-length")
MAX_FRAME_TO_CLIENT: Final = 10 * 1024 * 1024  # the read buffer of the TypeScript SDK's client: beyond it, it closes
MAX_FRAME_TO_SERVER: Final = 4 * 1024 * 1024
_LF: Final = 0x0A
_CR: Final = 0x0D
RAW_HEAD: Final = 4096  # of what is too long to keep, this much is kept


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
        return LengthReader(max_frame, content_type)
    raise ValueError(f"unknown framing {framing!r}: expected one of {', '.join(FRAMINGS)}")


def encode(framing: Framing, body: bytes) -> bytes:
    """``body`` as one frame. Raises LocalProtocolError when a newline in it would tear an ndjson frame."""
    if framing == "ndjson":
        if _LF in body or _CR in body:
            raise LocalProtocolError(
                "frame holds a raw line break: write it as \\n inside a JSON string, or not at all"
            )
        return body + b"\n"
    if framing == "content-length":
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    raise ValueError(f"unknown framing {framing!r}: expected one of {', '.join(FRAMINGS)}")


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
        start, limit, line, offset = 0, self._max, self._line, self._offset
        whole = not (self._tail or self._skipping)  # the line begins in these bytes
        while (end := data.find(b"\n", start)) >= 0:  # a memchr; split() looks at each byte by itself
            piece = data[start:end]
            start = end + 1
            if whole and piece and piece[-1] != _CR and len(piece) <= limit:
                out.append(make_frame((b"", piece, b"\n", line, offset)))  # the ordinary line
                line += 1
                offset += len(piece) + 1
            else:
                self._line, self._offset = line, offset
                self._end_line(piece, out)
                line, offset, whole = self._line, self._offset, True
        self._line, self._offset = line, offset
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
