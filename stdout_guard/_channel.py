"""Where everything else goes: a pipe on fd 1, a pump thread, and a bounded, lossy sink on stderr or a log file.

Rules: a reader that is merely slow is waited for (progress within a second counts as alive), a dead one never stops the
server: lines are dropped, counted, and said so when it is back. No lock is held across a write, no flag of a shared
description is changed, no Python stream object is written to, and every descriptor's identity is checked before use.
"""

import _thread
import errno
import os
import select
import stat
from time import monotonic

from . import _fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PATIENCE = 1.0  # seconds without progress after which the reader counts as dead
TAIL_AFTER = 0.5  # seconds after its last piece when a line without its end is shown (a prompt)
BATCH = 4096  # PIPE_BUF: one write of so much to a pipe is kept whole, or refused whole
CHUNK = 65536
CHILD_PIPES = 64  # children with a pipe of their own; the rest share fd 1's


class Tail:
    """A line that is not finished yet. Progress bars keep their last state only; a huge line loses its middle."""

    __slots__ = ("data", "lost", "site", "touched")

    def __init__(self, site: object = None) -> None:
        self.data, self.lost, self.site, self.touched = bytearray(), 0, site, 0.0

    def add(self, data: bytes) -> list[bytes]:
        """Take a piece; returns the lines that it finished."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self.data:
            self.data += lines[0]
            lines[0] = self.take()
        if rest:
            self.data += rest
            self.touched = monotonic()
            redrawn = self.data.rfind(b"\r", 0, len(self.data) - 1)
            if redrawn >= 0:
                del self.data[: redrawn + 1]
            if len(self.data) > CHUNK:
                self.lost += len(self.data) - 4096
                del self.data[2048:-2048]
        return lines

    def take(self) -> bytes:
        """What there is, as a finished line; nothing is left."""
        data = bytes(self.data)
        if self.lost:
            data = data[:2048] + b" ...[%d bytes cut]... " % self.lost + data[2048:]
        self.data, self.lost = bytearray(), 0
        return data


class Source:
    """One pipe that the pump reads: fd 1's, or a child's own."""

    __slots__ = ("fd", "identity", "kind", "pid", "program", "site", "tail")

    def __init__(self, kind: str, fd: int, program: str = "", site: str = "", pid: int = 0) -> None:
        self.kind, self.fd, self.program, self.site, self.pid = kind, fd, program, site, pid
        self.identity = _fd.identity(fd)
        self.tail = Tail()


class Sink:
    """A bounded way out: writes whole lines, waits for a slow reader, drops and counts when nobody reads."""

    def __init__(self, fd: int, put: "Callable[[bytes], int]", path: str | None = None) -> None:
        self.fd, self.put, self.path = fd, put, path
        self.identity = _fd.identity(fd)
        self.progress = 0.0
        self.stalled = self.torn = False
        self.lost_lines = self.lost_bytes = self.told_lines = self.told_bytes = 0
        self.release: Callable[[], object] | None = None

    def write(self, data: bytes) -> bool:
        """Write finished lines (at most BATCH bytes to stay whole beside other writers); False when they were lost."""
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
        if not self._standing():
            return False
        if self.torn:
            data = b"\n" + data
        since = monotonic()
        while data:
            try:
                written = self.put(data)
            except BlockingIOError:
                if self.stalled or monotonic() > max(since, self.progress) + PATIENCE:
                    self.stalled = True
                    return False
                _ready(self.fd, 0.02)  # short: a socket says "ready" only once three quarters of it are free
                continue
            except OSError:  # the reader is gone (EPIPE), the disk is full, a foreign hand closed it
                return False
            self.progress = monotonic()
            self.stalled, self.torn = False, written < len(data)
            data = data[written:]
        return True

    def _standing(self) -> bool:
        if self.path is not None:
            return self._rotated()
        if _fd.identity(self.fd) == self.identity:
            return True
        if _fd.identity(2) != self.identity:  # our copy was closed, its number reused, and stderr is not what it was
            return False
        fresh = stderr_sink()
        self.fd, self.put = fresh.fd, fresh.put
        return True

    def _rotated(self) -> bool:
        try:
            status = os.lstat(self.path or "")
            if (status.st_dev, status.st_ino) == self.identity == _fd.identity(self.fd):
                return True
        except OSError:
            pass  # moved away: opened anew below
        try:
            fd = open_log(self.path or "")
        except OSError:
            return _fd.identity(self.fd) == self.identity
        if _fd.identity(self.fd) == self.identity:
            os.close(self.fd)
        self.fd, self.identity = fd, _fd.identity(fd)
        self.put = _plain(fd)
        return True

    def settle(self) -> None:
        """At exit: keep only the bare descriptor, so that no destructor has anything to complain about."""
        if self.release is not None:
            self.release()
            self.release, self.put = None, _polled(self.fd, BATCH)

    def close(self) -> None:
        self.settle()
        if _fd.identity(self.fd) == self.identity:
            os.close(self.fd)


def _ready(fd: int, seconds: float) -> bool:
    """True when a write to ``fd`` would not block; a poll object of its own, since a shared one raises when reentered."""
    if not hasattr(select, "poll"):
        return bool(select.select([], [fd], [], seconds)[1])
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(max(1, int(seconds * 1000)) if seconds else 0))


def _plain(fd: int) -> "Callable[[bytes], int]":
    return lambda data: os.write(fd, data)


def _polled(fd: int, most: int) -> "Callable[[bytes], int]":
    def put(data: bytes) -> int:
        if not _ready(fd, 0):
            raise BlockingIOError(errno.EAGAIN, "would block")
        return os.write(fd, data[:most])

    return put


def stderr_sink() -> Sink:
    """A sink on what fd 2 is now, in the way that cannot block for its kind, and without touching its flags."""
    mode = os.fstat(2).st_mode
    if stat.S_ISFIFO(mode):
        own = _fd.reopened(2, os.O_WRONLY | os.O_NONBLOCK)
        if own is not None:
            return Sink(own, _plain(own))
    fd = _fd.private(2, _fd.HIGH)
    if stat.S_ISSOCK(mode):
        return _socket_sink(fd)
    if stat.S_ISREG(mode) or _fd.identity(fd) == _fd.null_identity():
        return Sink(fd, _plain(fd))
    return Sink(fd, _polled(fd, BATCH if stat.S_ISFIFO(mode) else 512))


def _socket_sink(fd: int) -> Sink:
    import _socket  # send() alone can be told not to wait for one call only

    sock = _socket.socket(fileno=fd)
    flag = getattr(_socket, "MSG_DONTWAIT", 0)
    sink = Sink(fd, lambda data: sock.send(data, flag))
    sink.release = sock.detach  # else its destructor would close the number once more
    return sink


def null_sink() -> Sink:
    low = os.open(os.devnull, os.O_WRONLY)
    try:
        fd = _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)
    return Sink(fd, _plain(fd))


def open_log(path: str) -> int:
    """Append-only descriptor of the log file: mode 0600, no symlink followed, nothing truncated, never 0 to 2."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    low = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        return _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)


def log_sink(path: str) -> Sink:
    path = os.path.abspath(path)
    fd = open_log(path)
    return Sink(fd, _plain(fd), path)


class Channel:
    """The pipe on fd 1 and the thread that empties it. ``deliver(source, lines)`` gets whole lines without their ends;
    ``idle()`` shows what waits elsewhere and says in how many seconds it wants to be called again (None: no need)."""

    def __init__(
        self,
        deliver: "Callable[[Source, list[bytes]], None]",
        idle: "Callable[[], float | None]",
        failed: "Callable[[BaseException], None]",
        undo: _fd.Undo,
    ) -> None:
        self.deliver, self.idle, self.failed = deliver, idle, failed
        self.read_fd, self.write_fd = _fd.pipe()
        undo.push(self._close_pipe)
        self.wake_read, self.wake_write = _fd.pipe()
        undo.push(self._close_wake)
        os.set_blocking(self.wake_write, False)
        self.identity = _fd.identity(self.write_fd)
        self.wake_identity = _fd.identity(self.wake_write)
        self.shared = Source("fd1", self.read_fd)
        self.sources: dict[int, Source] = {self.read_fd: self.shared}
        self.ticking = self.stopping = self.running = False
        self.done = _thread.allocate_lock()

    def _close_pipe(self) -> None:
        for fd in (self.read_fd, self.write_fd):
            self._close(fd, self.identity)

    def _close_wake(self) -> None:
        for fd in (self.wake_read, self.wake_write):
            self._close(fd, self.wake_identity)

    @staticmethod
    def _close(fd: int, expected: "_fd.Identity | None") -> None:
        if _fd.identity(fd) == expected:
            os.close(fd)

    def start(self) -> None:
        """Start the pump; raises RuntimeError or MemoryError when no thread can be had."""
        self.done.acquire()
        try:
            self.stopping = False
            _thread.start_new_thread(self._pump, ())
            self.running = True
        except BaseException:
            self.done.release()
            raise

    def restart(self) -> None:
        """Start the pump again: in a fork that took the channel over, or after an exec that failed."""
        self.done, self.running = _thread.allocate_lock(), False
        self.start()

    def release_write(self) -> None:
        """Close our own write end, so that the end of what others write can be seen."""
        self._close(self.write_fd, self.identity)

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
            if source.tail.data:
                self.deliver(source, [source.tail.take()])

    def _pump(self) -> None:
        try:
            while not self.stopping:
                if self.read_fd not in self.sources:
                    raise OSError(errno.EBADF, "the channel was closed by a foreign hand")
                self.ticking = False
                wait = self._tails()
                self.ticking = wait is not None
                poller = select.poll()
                for fd in [self.wake_read, *self.sources]:
                    poller.register(fd, select.POLLIN)
                for fd, _ in poller.poll(None if wait is None else int(wait * 1000) + 1):
                    if fd == self.wake_read:
                        self._drain_wake()
                    elif fd in self.sources and not self.stopping:
                        self._read(self.sources[fd])
        except Exception as error:
            self.failed(error)
        finally:
            self.done.release()

    def _drain_wake(self) -> None:
        if _fd.identity(self.wake_read) != self.wake_identity:
            raise OSError(errno.EBADF, "the wake-up pipe was closed by a foreign hand")
        try:
            os.read(self.wake_read, CHUNK)
        except BlockingIOError:
            return

    def _tails(self) -> float | None:
        """Show the unfinished lines that are due; seconds until the next one is."""
        wait, now = self.idle(), monotonic()
        for source in list(self.sources.values()):
            if source.tail.data:
                left = source.tail.touched + TAIL_AFTER - now
                if left <= 0:
                    self.deliver(source, [source.tail.take()])
                else:
                    wait = left if wait is None else min(wait, left)
        return wait

    def _read(self, source: Source) -> bool:
        """One read; False when the pipe is empty, finished, or no longer ours."""
        if _fd.identity(source.fd) != source.identity:
            self.sources.pop(source.fd, None)
            return False
        try:
            data = os.read(source.fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.sources.pop(source.fd, None)
            if source.tail.data:
                self.deliver(source, [source.tail.take()])
            os.close(source.fd)
            return False
        lines = source.tail.add(data)
        if lines:
            self.deliver(source, lines)
        return True

    def hand_over(self, target: int) -> None:
        """At exit: pipes that children still write to go to a ``cat`` on ``target``, so that nobody gets SIGPIPE."""
        cat = next((path for path in ("/bin/cat", "/usr/bin/cat") if os.path.exists(path)), None)
        for source in list(self.sources.values()):
            if _fd.identity(source.fd) != source.identity:
                continue
            poller = select.poll()
            poller.register(source.fd, select.POLLIN)
            if cat and not any(event & select.POLLHUP for _, event in poller.poll(0)):
                os.set_blocking(source.fd, True)
                actions: list[Any] = [(os.POSIX_SPAWN_DUP2, source.fd, 0), (os.POSIX_SPAWN_DUP2, target, 1)]
                try:
                    os.posix_spawn(cat, [cat], os.environ, file_actions=actions)
                except OSError:
                    continue
            os.close(source.fd)

    def forget(self) -> None:
        """In a forked child: close every end of ours, so that the owner's end of file is seen; the pump is not here."""
        self._close_pipe()
        self._close_wake()
        for fd, source in self.sources.items():
            self._close(fd, source.identity)
        self.sources.clear()
        self.running = False
