"""The two output pipes of a child process, read by a thread each into time-stamped chunks, to their end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from stdout_guard.testing.records import Chunk, Stream

MAX_KEPT = 64 * 1024 * 1024  # bytes of one stream kept in memory; the rest is counted


class Capture:
    """Reads ``out`` and ``err`` from now on; ``changed`` is notified at each arrival and each end of file.

    ``err`` is not read before ``read_err`` was called when ``unread`` is set.
    """

    def __init__(self, out: int, err: int, *, unread: bool) -> None:
        self.began = time.monotonic()
        self.stdout, self.stderr = Stream(), Stream()
        self.changed = threading.Condition()
        self._fds = (out, err)
        self._err_is_read = threading.Event()
        if not unread:
            self._err_is_read.set()
        self._readers = [
            threading.Thread(target=self._read, args=(out, self.stdout, None), daemon=True),
            threading.Thread(target=self._read, args=(err, self.stderr, self._err_is_read), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def elapsed(self) -> float:
        """Seconds since the reading began."""
        return time.monotonic() - self.began

    @property
    def fds(self) -> Sequence[int]:
        """The descriptors that are read: stdout's and stderr's."""
        return self._fds

    def read_err(self) -> None:
        """Read stderr from now on, if it was left unread."""
        self._err_is_read.set()

    def _read(self, fd: int, stream: Stream, gate: threading.Event | None) -> None:
        if gate is not None:
            gate.wait()
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:  # a terminal says EIO where a pipe says end of file
                data = b""
            with self.changed:
                if not data:
                    stream.eof = True
                elif stream.size + len(data) > MAX_KEPT:
                    stream.lost += len(data)
                else:
                    stream.chunks.append(Chunk(self.elapsed, data))
                    stream.size += len(data)
                self.changed.notify_all()
            if not data:
                return

    def drained(self, seconds: float) -> bool:
        """Whether both pipes end; False when nothing arrived for ``seconds``, and anyway after three times that."""
        latest = time.monotonic() + 3 * seconds
        with self.changed:
            seen, deadline = -1, 0.0
            while not (self.stdout.eof and self.stderr.eof):
                now, size = time.monotonic(), self.stdout.total + self.stderr.total
                if size != seen:
                    seen, deadline = size, min(now + seconds, latest)
                if now >= deadline:
                    return False
                self.changed.wait(deadline - now)
        return True

    def release(self) -> None:
        """Close the descriptors; one that somebody out of reach still holds open is left to its reader."""
        for reader, fd in zip(self._readers, self._fds, strict=True):
            reader.join(0.2)
            if not reader.is_alive():
                os.close(fd)
