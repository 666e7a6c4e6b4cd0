"""What comes out of a frame reader: frames and framing faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast


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
make_frame = cast("Callable[[tuple[bytes, bytes, bytes, int, int]], Frame]", partial(cast("Any", tuple).__new__, Frame))


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
