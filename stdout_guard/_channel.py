"""Where everything else goes: a pipe on fd 1, and the thread that empties it.

Rules: nobody who writes to fd 1 is kept waiting for long by a reader that is gone (the sink of _report.py drops and
counts); every descriptor's identity is checked before use; each wait has a poll object of its own, since a shared one
raises when it is reentered; children inherit the pipe, never our ends of it.
"""

import _thread
import os
import select
from time import monotonic

from . import _fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._ledger import Site

PATIENCE = 1.0  # seconds without progress after which a reader counts as dead
TAIL_AFTER = 0.5  # seconds after its last piece when a line without its end is shown (a prompt)
CHUNK = 65536
CHILD_PIPES = 64  # children with a pipe of their own; the rest share fd 1's


class Source:
    """Where lines come from: fd 1's pipe, a child's own, or the prints of one thread (fd -1); and the line that is not
    finished yet. Progress bars keep their last state only; a huge line loses its middle."""

    kind, fd, program, pid, lost, touched = "python", -1, "", 0, 0, 0.0
    identity: "_fd.Identity | None" = None

    def __init__(self, site: "Site | None", kind: str = "", fd: int = -1, program: str = "") -> None:
        self.data, self.site = bytearray(), site
        if kind:
            self.kind, self.fd, self.program, self.identity = kind, fd, program, _fd.identity(fd)

    def add(self, data: bytes) -> "bytes | None":
        """Take a piece; returns the lines that it finished, without the end of the last one, or None."""
        done, at = None, data.rfind(b"\n")
        if at >= 0:
            done, data = data[:at], data[at + 1 :]
            if self.data:
                first, end, rest = done.partition(b"\n")
                self.data += first
                done = self.take() + end + rest
        if data:
            self.data += data
            self.touched = monotonic()
            redrawn = self.data.rfind(b"\r", 0, len(self.data) - 1)
            if redrawn >= 0:
                del self.data[: redrawn + 1]
            if len(self.data) > CHUNK:
                self.lost += len(self.data[1024:-1024].decode("utf-8", "replace"))
                del self.data[1024:-1024]
        return done

    def take(self) -> bytes:
        """What there is, as a finished line; nothing is left."""
        data = bytes(self.data)
        if self.lost:
            whole = self.lost + len(data.decode("utf-8", "replace"))
            self.lost += len(data[1024:-1024].decode("utf-8", "replace"))
            data = data[:1024] + b" ...[%d of %d characters cut]... " % (self.lost, whole) + data[-1024:]
        self.data, self.lost = bytearray(), 0
        return data


class Channel:
    """The pipe on fd 1 and the thread that empties it. ``deliver(source, lines)`` gets whole lines, the last without
    its end; ``idle()`` shows what waits elsewhere and says in how many seconds it wants to be called again, or None."""

    def __init__(self, undo: "_fd.Undo") -> None:
        self.read_fd, self.write_fd = _fd.pipe()
        self.identity = _fd.identity(self.write_fd)
        undo.append(self._close_pipe)
        self.wake_read, self.wake_write = _fd.pipe(0)  # small: pages of pipes are counted by user
        self.wake_identity = _fd.identity(self.wake_write)
        undo.append(self._close_wake)
        os.set_blocking(self.wake_write, False)
        self.shared = Source(None, "fd1", self.read_fd)
        self.sources: dict[int, Source] = {self.read_fd: self.shared}
        self.ticking = self.stopping = self.running = False
        self.chunk = CHUNK  # bytes of one read

    def _close_pipe(self) -> None:
        _fd.close(self.read_fd, self.identity)
        _fd.close(self.write_fd, self.identity)

    def _close_wake(self) -> None:
        _fd.close(self.wake_read, self.wake_identity)
        _fd.close(self.wake_write, self.wake_identity)

    def start(
        self,
        deliver: "Callable[[Source, bytes], None]",
        idle: "Callable[[], float | None]",
        failed: "Callable[[BaseException], None]",
    ) -> None:
        """Start the pump; raises RuntimeError or MemoryError when no thread can be had."""
        self.deliver, self.idle, self.failed, self.done = deliver, idle, failed, _thread.allocate_lock()
        self.done.acquire()
        try:
            self.stopping = False
            _thread.start_new_thread(self._pump, ())
            self.running = True
        except BaseException:
            self.done.release()
            raise

    def restart(self) -> None:
        """Start the pump again: after an exec that failed."""
        self.start(self.deliver, self.idle, self.failed)

    def wake(self) -> None:
        if not self.ticking and _fd.identity(self.wake_write) == self.wake_identity:
            try:
                os.write(self.wake_write, b"\0")
            except OSError:  # full: the pump is awake anyway
                return

    def add_child(self, source: Source) -> None:
        self.sources[source.fd] = source
        self.ticking = False
        self.wake()

    def stop(self, limit: float) -> bool:
        """Ask the pump to end; True when it did within ``limit`` seconds."""
        if self.running:
            self.stopping, self.ticking = True, False
            self.wake()
            if not self.done.acquire(timeout=limit):
                return False
            self.done.release()
            self.running = False
        return True

    def drain(self) -> None:
        """Read what the pipes hold now, in the calling thread, and show unfinished lines too."""
        for source in list(self.sources.values()):
            while self._read(source):
                pass
            if source.data:
                self.deliver(source, source.take())

    def _pump(self) -> None:
        try:
            while not self.stopping:
                if self.read_fd not in self.sources or _fd.identity(self.wake_read) != self.wake_identity:
                    raise OSError("its pipe was closed by a foreign hand")
                self.ticking = False
                wait = self._tails()
                self.ticking = wait is not None
                poller = select.poll()
                for fd in [self.wake_read, *self.sources]:
                    poller.register(fd, select.POLLIN)
                for fd, _ in poller.poll(None if wait is None else int(wait * 1000) + 1):
                    if fd == self.wake_read and _fd.identity(fd) == self.wake_identity:
                        os.read(fd, CHUNK)
                    elif fd in self.sources and not self.stopping:
                        self._read(self.sources[fd])
        except BaseException as error:  # whatever it is, fd 1 must not be left without a reader
            self.failed(error)
        finally:
            self.done.release()

    def _tails(self) -> "float | None":
        """Show the unfinished lines that are due; seconds until the next one is."""
        wait, now = self.idle(), monotonic()
        for source in list(self.sources.values()):
            if source.data:
                left = source.touched + TAIL_AFTER - now
                if left <= 0:
                    self.deliver(source, source.take())
                else:
                    wait = left if wait is None else min(wait, left)
        return wait

    def _read(self, source: Source) -> bool:
        """One read; False when the pipe is empty, finished, or no longer ours."""
        if _fd.identity(source.fd) != source.identity:
            self.sources.pop(source.fd, None)
            return False
        try:
            data = os.read(source.fd, self.chunk)
        except BlockingIOError:
            return False
        if not data:
            self.sources.pop(source.fd, None)
            if source.data:
                self.deliver(source, source.take())
            os.close(source.fd)
            return False
        lines = source.add(data)
        if lines is not None:
            self.deliver(source, lines)
        return True

    def forget(self) -> None:
        """In a forked child: close every end of ours, so that the owner's end of file is seen; the pump is not here."""
        self._close_pipe()
        self._close_wake()
        for fd, source in self.sources.items():
            _fd.close(fd, source.identity)
        self.sources.clear()
        self.running = False
