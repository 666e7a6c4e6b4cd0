"""The report: a record as one line, and the bounded, lossy way out for lines.

Rules: every line is safe to show on a terminal or in a CI log, and short enough (PIPE_BUF) that one write() keeps it
whole. A reader that is merely slow is waited for (progress within a second counts as alive); a dead one never stops the
server: lines are dropped, counted, and said so when it is back. No lock is held across a write, no flag of a shared
description is changed, no Python stream object is written to.
"""

import os
import select
import stat
import time
from time import monotonic

from . import _fd
from ._ledger import FIELDS, StrayWrite, thaw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "stdout-guard: "
PATIENCE = 1.0  # seconds without progress after which the reader counts as dead
BATCH = 4096  # PIPE_BUF: one write of so much to a pipe is kept whole, or refused whole
LINE_BYTES = 3000  # a longer text is cut: with its prefix a line must fit PIPE_BUF (4096)
HEAD, TAIL = 500, 200  # characters kept of a text that is cut
MARK = b"\x1estdout-guard\x1f"  # opens a finished record that a worker process sends through the channel


def escape(text: str) -> str:
    """``text`` with every control, format and line-separating character spelled out, and no CI command left alive."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\t\xa0\u3000" else _spell(c) for c in text)
    if "##" in text:  # Azure and GitHub read "##[...]" and "##vso[...]" anywhere in a line
        for opener in ("##[", "##vso[", "##teamcity["):
            text = text.replace(opener, "#\\x23" + opener[2:])
    return text


def _spell(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str, limit: int = LINE_BYTES) -> str:
    """``text``, its middle replaced by a count when it needs more than ``limit`` bytes of UTF-8."""
    if len(text) * 4 <= limit or len(text.encode("utf-8", "surrogatepass")) <= limit:
        return text
    head, tail = min(HEAD, limit // 6), min(TAIL, limit // 6)
    return f"{text[:head]} ...[{len(text) - head - tail} of {len(text)} characters cut]... {text[-tail:]}"


def as_text(stray: StrayWrite) -> str:
    """One line for people."""
    note = f"{stray.note}: " if stray.note else ""
    return f"{PREFIX}{cut(escape(stray.where), 900)}: {note}{cut(escape(stray.text))}"


def note(text: str) -> str:
    """Something that the guard itself has to say."""
    return PREFIX + cut(escape(text))


def pack(stray: StrayWrite) -> bytes:
    """A record as the line a worker process sends to the owner."""
    values = [cut(escape(str(getattr(stray, name))), 300) for name in FIELDS[:-1]]
    packed = "\x1f".join([*values, cut(escape(stray.text), 2000)])
    return MARK + packed.encode("utf-8", "backslashreplace") + b"\n"


def unpack(line: bytes) -> StrayWrite | None:
    """The record in a line of :func:`pack`, or None when it is not one."""
    parts = line[len(MARK) :].decode("utf-8", "replace").split("\x1f", len(FIELDS) - 1)
    if len(parts) != len(FIELDS) or not (parts[2].isdigit() and parts[5].isdigit()):
        return None
    return thaw((*parts[:2], int(parts[2]), *parts[3:5], int(parts[5]), *parts[6:], time.time()))


# ---- the way out


class Sink:
    """A bounded way out: writes whole lines, waits for a slow reader, drops and counts when nobody reads."""

    path = ""  # of a log file

    def __init__(self, fd: int, put: "Callable[[bytes], int]") -> None:
        self.fd, self.put = fd, put
        self.identity = _fd.identity(fd)
        self.progress = 0.0
        self.stalled = self.torn = False
        self.lost_lines = self.lost_bytes = self.told_lines = self.told_bytes = 0
        self.release: Callable[[], object] | None = None

    def write(self, data: bytes) -> bool:
        """Write finished lines (at most BATCH bytes to stay whole beside other writers); False when they were lost."""
        if self.stalled and ready(self.fd, 0):  # only what a reader took makes room for a whole batch
            self.stalled = False
        if not self.stalled:
            self.confess()
            if self._write(data):
                return True
        self.lost_lines += data.count(b"\n")
        self.lost_bytes += len(data)
        return False

    def confess(self) -> None:
        """Say what was dropped since it was last said, if anything."""
        lines, size = self.lost_lines, self.lost_bytes
        if lines == self.told_lines:
            return
        note = b"stdout-guard: %d lines (%d bytes) dropped: nobody read them for %g s\n"
        if self._write(note % (lines - self.told_lines, size - self.told_bytes, PATIENCE)):
            self.told_lines, self.told_bytes = lines, size

    def _write(self, data: bytes) -> bool:
        if not self.standing():
            return False
        if self.torn:
            data = b"\n" + data
        since = monotonic()
        while data:
            try:
                written = self.put(data)
            except BlockingIOError:
                if monotonic() > max(since, self.progress) + PATIENCE:
                    self.stalled = True
                    return False
                ready(self.fd, 0.02)  # short: a socket says "ready" only once three quarters of it are free
                continue
            except OSError:  # the reader is gone (EPIPE), the disk is full, a foreign hand closed it
                return False
            self.progress, self.torn = monotonic(), written < len(data)
            data = data[written:]
        return True

    def standing(self) -> bool:
        """False when this descriptor is no longer ours and cannot be had anew."""
        if _fd.identity(self.fd) == self.identity:
            return True
        if _fd.identity(2) != self.identity:  # our copy was closed, its number reused, and stderr is not what it was
            return False
        fresh = stderr_sink()
        self.fd, self.put, self.release = fresh.fd, fresh.put, fresh.release
        return True

    def close(self) -> None:
        if self.release is not None:
            self.release()
        _fd.close(self.fd, self.identity)


def ready(fd: int, seconds: float) -> bool:
    """True when a write to ``fd`` would not block. A poll object of its own: a shared one raises when reentered."""
    if not hasattr(select, "poll"):
        return bool(select.select([], [fd], [], seconds)[1])
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(int(seconds * 1000)))


def plain(fd: int) -> "Callable[[bytes], int]":
    return lambda data: os.write(fd, data)


def reopened(fd: int, flags: int) -> int | None:
    """The FIFO behind ``fd`` opened anew, with flags of its own; None where that cannot be had (setuid, no /proc)."""
    try:
        low = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)


def stderr_sink() -> Sink:
    """A sink on what fd 2 is now, in the way that cannot block for its kind, and without touching its flags."""
    mode = os.fstat(2).st_mode
    if stat.S_ISFIFO(mode):
        own = reopened(2, os.O_WRONLY | os.O_NONBLOCK)
        if own is not None:
            return Sink(own, plain(own))
    from . import _sinks

    return _sinks.over_stderr(mode)
