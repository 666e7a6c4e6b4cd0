"""The client's bytes, taken out of everyone else's reach."""

import io
import os
import sys

from . import _fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


class _Leftover(io.RawIOBase):
    """What had been read ahead into ``sys.stdin`` before it was taken, then the private descriptor."""

    def __init__(self, head: bytes, raw: io.FileIO) -> None:
        self._head, self._raw = head, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray, /) -> int | None:  # type: ignore[override]
        if not self._head:
            return self._raw.readinto(buffer)
        size = min(len(buffer), len(self._head))
        buffer[:size] = self._head[:size]
        self._head = self._head[size:]
        return size

    def fileno(self) -> int:
        return self._raw.fileno()


class Reader(io.BufferedReader):
    """A buffered reader whose ``close()`` is inert: SDKs drop the text wrappers that would close it."""

    def close(self) -> None:
        """Inert."""


def take(undo: "_fd.Undo") -> tuple[int, Reader]:
    """Private copy of fd 0 and a reader over it; fd 0 is the null device from here on."""
    fd = _fd.private(0)
    known = _fd.identity(fd)
    undo.append(lambda: _fd.close(fd, known))
    hole = os.open(os.devnull, os.O_RDONLY)
    _fd.point(hole, 0)
    os.close(hole)
    undo.append(lambda: _fd.point(fd, 0))
    head = _read_ahead()
    raw = io.FileIO(fd, "rb", closefd=False)
    return fd, Reader(_Leftover(head, raw) if head else raw)  # type: ignore[arg-type]


def _read_ahead() -> bytes:
    """What sys.stdin already holds. With the null device on fd 0, reading to the end returns just that."""
    stream = sys.stdin
    try:
        binary = stream.buffer.read()
    except (AttributeError, ValueError, OSError):  # None, a stand-in, or closed: nothing was read ahead
        return b""
    text, pending = "", b""
    try:
        text = stream.read()
    except UnicodeDecodeError as error:  # the text layer stopped inside a character: its characters, then those bytes
        text, pending = _characters(stream), error.object
    return text.encode(stream.encoding, "surrogateescape") + pending + binary


def _characters(stream: "TextIO") -> str:
    """The characters that a text stream has decoded already, one by one up to the bytes that it cannot decode."""
    found: list[str] = []
    while True:
        try:
            char = stream.read(1)
        except UnicodeDecodeError:
            return "".join(found)
        if not char:
            return "".join(found)
        found.append(char)
