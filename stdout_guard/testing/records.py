"""What is kept of a process: its chunks, streams and end, how long each wait may be, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stdout_guard.testing import proc

StderrKind = Literal["pipe", "unread"]
StdoutKind = Literal["pipe", "pty"]


@dataclass(frozen=True)
class Chunk:
    """What one read returned; ``at`` is in seconds since the start of the process."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Limits:
    """Deadlines in seconds. ``start`` bounds the first answer, ``answer`` each later one, ``quiet`` an idle wait.

    ``grace`` (before SIGTERM) counts time without work, and the server's own processor time;
    ``term`` is before SIGKILL, ``drain`` for the last bytes.
    """

    start: float = 30.0
    answer: float = 20.0
    quiet: float = 5.0
    grace: float = 5.0
    term: float = 2.0
    drain: float = 1.0


@dataclass(frozen=True)
class Ending:
    """How it ended: exit status (negative: signal), who made it end, after how long, and who held the pipes."""

    returncode: int | None
    how: Literal["by itself", "SIGTERM", "SIGKILL"]
    seconds: float
    survivors: tuple[proc.Holder, ...] = ()
    eof: bool = True


@dataclass
class Stream:
    """One captured stream: its chunks, and whether its end was seen."""

    chunks: list[Chunk] = field(default_factory=list[Chunk])
    size: int = 0
    lost: int = 0
    eof: bool = False

    @property
    def total(self) -> int:
        """All that came, kept or not."""
        return self.size + self.lost

    def bytes(self) -> bytes:
        """All that was kept."""
        return b"".join(chunk.data for chunk in self.chunks)


@dataclass
class Problem:
    """One thing that is wrong. ``line`` counts from 1, ``offset`` in bytes from 0; ``step`` is when the bytes came."""

    check: str
    code: str
    why: str
    line: int | None = None
    offset: int | None = None
    raw: bytes | None = None
    step: str | None = None
    source: str = ""
    culprits: list[str] = field(default_factory=list[str])
    blame: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    advice: str = ""
