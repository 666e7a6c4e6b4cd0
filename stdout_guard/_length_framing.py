"""Content-Length framing: a header state machine; a header line is looked at once, a body is only counted."""

from __future__ import annotations

import re
from typing import Final

from stdout_guard._frames import Event, Frame, FramingFault

MAX_HEADER_LINE: Final = 1024
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)
_CHARSET = re.compile(r";\s*charset\*?\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)
_MAX_DIGITS = 15  # no length that long is ever allowed, and int() of thousands of digits raises


class LengthReader:
    """Reads one stream; after a fault it reads nothing more."""

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
            charsets = _CHARSET.findall(value)  # each that is given: readers differ on which one counts
            other = next((name for name in charsets if name.lower() not in ("utf-8", "utf8")), None)
            if other is not None:
                self._fault("charset", "encoding", f"charset {other!r}: only utf-8 is defined", end, out)
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
