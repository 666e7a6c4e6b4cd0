"""What comes out of a frame reader: frames and framing faults."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from stdout_guard._tuples import maker


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


make_frame = maker(Frame)


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
