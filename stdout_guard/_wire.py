"""The wire as a stream: one write is one unit, from any thread, all of it or none.

Rules: no user-space buffer, so nothing is flushed twice after a fork or lost at exit; poison first and absolve last, so
that an interrupt between two bytecodes can never let a torn frame be followed by another; a signal handler that writes
while a write is under way is queued behind it; ``close()`` is inert, since SDKs drop wrappers that close what they hold
(modelcontextprotocol/python-sdk#1933).
"""

import _thread
import errno
import os
import select

from . import _fd, _stream
from .errors import GuardStateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from typing_extensions import Buffer
else:
    from _collections import deque  # the C type, without the package around it

GONE = (errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ESHUTDOWN)
TORN = "a frame was interrupted half way: another one would be read as its rest"


class Wire(_stream.Bottom):
    """The real stdout. ``fileno()`` is the private descriptor, never 1 (mcp 2.x would claim that one for itself).

    ``refusal``: why no write is possible here, or ""; ``frames``: writes that went out whole.
    """

    name = "<wire>"

    def __init__(self, fd: int, verify: "Callable[[], object]", refusal: str) -> None:
        self._number, self.identity, self._verify = fd, _fd.identity(fd), verify
        self._pid, self.refusal, self.frames = os.getpid(), refusal, 0
        self._lock, self._queue, self._busy = _thread.RLock(), deque[bytes](), False
        self._dead = ""

    @property
    def busy(self) -> bool:
        """True while a frame is on its way out, or was interrupted."""
        return self._busy or self._dead == TORN

    def write(self, data: "Buffer", /) -> int:
        """Put ``data`` on the wire whole; returns its length in bytes.

        Raises BrokenPipeError when the client is gone, GuardStateError when this process may not write (forked child,
        torn frame, descriptor taken away). Nothing of ``data`` was written then, or the wire is dead for good.
        """
        frame = bytes(data)
        if self.refusal or os.getpid() != self._pid:
            raise GuardStateError(
                self.refusal or f"process {os.getpid()} is a fork: the wire belongs to process {self._pid}"
            )
        with self._lock:
            self._queue.append(frame)
            if self._busy:  # we interrupted ourselves: the write under way sends this one too
                return len(frame)
            self._busy = True
            try:
                while self._queue:
                    self._put(self._queue.popleft())
            finally:
                try:
                    while self._queue and not self._dead:  # an exception passes: a handler was promised these frames
                        self._put(self._queue.popleft())
                finally:
                    self._busy = False
        return len(frame)

    def _put(self, frame: bytes) -> None:
        if self._dead:
            self._queue.clear()
            if self._dead == TORN:
                raise GuardStateError(f"the wire is closed: {TORN}; restart the server")
            raise BrokenPipeError(errno.EPIPE, f"the wire is closed: {self._dead}")
        if _fd.identity(self._number) != self.identity:
            self._queue.clear()
            raise GuardStateError(
                f"the wire's descriptor {self._number} was closed or replaced by a foreign hand; nothing was written; "
                "keep os.closerange and os.dup2 away from descriptors that are not yours"
            )
        self._verify()
        self._dead, sent = TORN, deque[int]()
        try:
            self._write(frame, sent)
        except OSError as error:
            if error.errno in GONE:
                self._dead = f"{error.strerror} on a frame of {len(frame)} bytes, {sum(sent)} of them sent"
            raise
        finally:
            if self._dead == TORN and sum(sent) in (0, len(frame)):  # whole or not begun: whatever passes here, no harm
                self._dead = ""
        self.frames += 1

    def _write(self, frame: bytes, sent: "deque[int]") -> None:
        """One C call writes a piece *and* notes how much of it went out: CPython runs signal handlers between the end
        of a call and the store of its result, and what they raise would take the count with it."""
        left = len(frame)
        while left or not sent:
            try:
                sent.extend(map(os.write, (self._number,), (memoryview(frame)[-left:] if sent else frame,)))
                left = len(frame) - sum(sent)
            except BlockingIOError:  # O_NONBLOCK was set by whoever shares the description
                poller = select.poll()
                poller.register(self._number, select.POLLOUT)
                poller.poll()

    def pass_through(self, data: bytes) -> None:
        """Text for a person (``--help``) instead of frames; it does not count as a frame."""
        self.write(data)
        self.frames -= 1

    def refuse(self, why: str) -> None:
        """From now on every write raises GuardStateError with this text."""
        self.refusal, self._lock, self._busy = why, _thread.RLock(), False
        self._queue.clear()

    def adopt(self) -> None:
        """Make this process, a fork, the owner."""
        self._pid, self._lock, self._busy, self.frames = os.getpid(), _thread.RLock(), False, 0

    def fileno(self) -> int:
        return self._number
