"""What stands where stdout stood: descriptors below, a text stream above, and the pipe that takes everything else.

Rules: a descriptor is known by its identity (st_ino, st_dev), never by its number, since numbers are recycled, and is
looked at before every use; nothing of ours lands on 0 to 2; no flag of a description that others share is ever changed;
each step hands back its undo. The stream is a genuine TextIOWrapper of which only the lowest layer is ours, so that
everything works that code asks of a stdout (``.buffer``, ``detach()``, ``reconfigure()``, ``fileno()`` == 1); it is not
buffered, so the writer's frame is on the stack at the moment of the write. Nobody who writes to fd 1 is kept waiting
for long by a reader that is gone (the sink drops and counts); each wait has a poll object of its own, since a shared
one raises when it is reentered; children inherit the pipe, never our ends of it. One file: each costs the cold start
1 %.
"""

import _thread
import io
import os
import select
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    from typing_extensions import Buffer

    from ._ledger import Site

    Undo = list[Callable[[], object]]  # the steps that take back what was done

fcntl: "Any" = None  # on Windows: no private flags, no pipe sizes; the dup channel is used there
if os.name == "posix":
    import fcntl


Identity = tuple[int, ...]
HIGH = 64  # where private descriptors that nobody asked for by number go: above closerange(3, 20) and dup2(x, 10)
PIPE_SIZE = 1 << 20
PATIENCE = 1.0  # seconds without progress after which a reader counts as dead
TAIL_AFTER = 0.5  # seconds after its last piece when a line without its end is shown (a prompt)
CHUNK = 65536
CHILD_PIPES = 64  # children with a pipe of their own; the rest share fd 1's


def identity(fd: int) -> "Identity | None":
    """(st_ino, st_dev) of what ``fd`` is open on, or None when it is closed."""
    try:
        return os.fstat(fd)[1:3]  # a slice: this stands before every frame
    except OSError:
        return None


def close(fd: int, known: "Identity | None") -> None:
    """Close ``fd`` if it is still what it was when we made it; a number that was reused is somebody else's."""
    if known is not None and identity(fd) == known:
        os.close(fd)


def fill_standard() -> "list[int]":
    """Open the null device on each of 0, 1, 2 that is closed, so that no file of anybody's takes the number.

    Returns the numbers filled. Not undone: a closed standard descriptor helps nobody.
    """
    filled = [fd for fd in (0, 1, 2) if identity(fd) is None]
    for fd in filled:
        got = os.open(os.devnull, os.O_RDWR)
        if got != fd:
            os.dup2(got, fd)
            os.close(got)
        os.set_inheritable(fd, True)
    return filled


def private(fd: int, lowest: int = 3) -> int:
    """A copy of ``fd`` that no child inherits, numbered ``lowest`` or higher."""
    if hasattr(fcntl, "F_DUPFD_CLOEXEC"):
        try:
            return int(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest))
        except OSError:
            if lowest <= 3:
                raise
            return int(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))  # a low descriptor limit
    copy = os.dup(fd)
    return copy if copy > 2 else private(copy, lowest)


def pipe(most: int = PIPE_SIZE) -> "tuple[int, int]":
    """A pipe (read, write), both ends private and high, ``most`` bytes where allowed; its read end does not block."""
    low, ends = os.pipe(), list[int]()
    try:
        for fd in low:
            ends.append(private(fd, HIGH))
        os.set_blocking(ends[0], False)
    except OSError:
        for fd in ends:
            os.close(fd)
        raise
    finally:
        for fd in low:
            os.close(fd)
    if most and hasattr(fcntl, "F_SETPIPE_SZ"):
        for size in (most, most >> 2):
            try:
                fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, size)
                break
            except OSError:  # over the user's pipe-user-pages-soft: the default size does
                continue
    return ends[0], ends[1]


def point(source: int, target: int) -> None:
    """Make ``target`` what ``source`` is, inheritable when it is one of 0, 1, 2."""
    os.dup2(source, target, inheritable=target <= 2)


def twins(wanted: "Identity | None", ours: "set[int]") -> "Iterator[int]":
    """Writable descriptors above 2, not ``ours``, that were made of the same pipe or socket before we came."""
    try:
        if os.stat("/proc/self/fd").st_size == len(ours | {0, 1, 2}):  # how many are open, since Linux 6.2: no other
            return
    except OSError:  # no /proc
        pass
    names: list[str] = []
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            names = os.listdir(folder)
            break
        except OSError:
            continue
    for name in names:
        fd = int(name)
        if fd > 2 and fd not in ours and identity(fd) == wanted and access(fd) != os.O_RDONLY:
            yield fd


def access(fd: int) -> int:
    """O_RDONLY, O_WRONLY or O_RDWR; O_RDONLY where it cannot be told."""
    return int(fcntl.fcntl(fd, fcntl.F_GETFL)) & os.O_ACCMODE if fcntl else os.O_RDONLY


def divert(source: int, fd: int, undo: "Undo") -> None:
    """Make ``fd`` what ``source`` is; the undo gives it back as it was."""
    saved, inheritable = private(fd, HIGH), os.get_inheritable(fd)

    def back() -> None:
        os.dup2(saved, fd, inheritable=inheritable)
        os.close(saved)

    undo.append(back)
    os.dup2(source, fd, inheritable=inheritable)


def unwind(undo: "Undo") -> None:
    """Take back what was done, last step first; each runs though another failed. Nothing is left to take back."""
    while undo:
        step = undo.pop()
        try:
            step()
        except OSError:  # already closed by a foreign hand: there is nothing to give back
            continue


# ---- the stream


class StrayRaw(io.RawIOBase):
    """The stand-in's bottom: each write goes to ``took(data, frame of the writer)``, each flush to ``flushed()``."""

    name = "<stdout>"
    mode = "wb"
    closefd = False
    closed = False  # pyright: ignore  # not to be closed by whoever wrapped it

    def __init__(
        self, guard: object, took: "Callable[[bytes, FrameType | None], None]", flushed: "Callable[[], None]"
    ) -> None:
        self.stdout_guard = guard  # how a second copy of this package notices the first
        self._took, self._flushed = took, flushed

    # Bound at definition: module globals may be gone when an object's destructor prints.
    def write(self, data: "Buffer", /, _frame: "Callable[[], FrameType]" = sys._getframe) -> int:
        """Take bytes; a str is a TypeError, as it is for the real buffer."""
        piece = data if type(data) is bytes else bytes(memoryview(data))
        if piece:
            self._took(piece, _frame().f_back)  # None when C code alone called print: atexit.register(print, "bye")
        return len(piece)

    def flush(self) -> None:
        self._flushed()

    def fileno(self) -> int:
        return 1

    @property
    def raw(self) -> "StrayRaw":
        return self

    def detach(self) -> "StrayRaw":
        return self

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Inert: a wrapper that is collected must not take everybody's stream with it."""


def text_over(raw: io.RawIOBase, **options: "Any") -> io.TextIOWrapper:
    """A text stream over a bottom of ours: UTF-8, each write() handed down at once. Unless the options say otherwise,
    noise never raises and never becomes invalid UTF-8, whatever the locale."""
    bottom: Any = raw  # io wants a buffered object, and asks of it only what StrayRaw has
    chosen: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "write_through": True, **options}
    stream: Any = io.TextIOWrapper(bottom, **chosen)
    stream.mode = "w"
    return stream  # type: ignore[no-any-return]


def hook(stream: "Any", write: "Callable[..., Any]") -> "Callable[[], object]":
    """Give the *instance* another ``write``, for those who took hold of it before us; returns the undo. An object that
    has no __dict__ keeps its own: the descriptor still catches it, unnamed."""
    names: dict[str, Any] = getattr(stream, "__dict__", {})
    names["write"] = write
    return lambda: names.pop("write") if names.get("write") is write else None


# ---- the channel


class Source:
    """Where lines come from: fd 1's pipe, a child's own, or the prints of one thread (fd -1); and the line that is not
    finished yet. Progress bars keep their last state only; a huge line loses its middle."""

    kind, fd, program, pid, lost, touched = "python", -1, "", 0, 0, 0.0
    identity: "Identity | None" = None

    def __init__(self, site: "Site | None", kind: str = "", fd: int = -1, program: str = "") -> None:
        self.data, self.site = bytearray(), site
        if kind:
            self.kind, self.fd, self.program, self.identity = kind, fd, program, identity(fd)

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

    def __init__(self, undo: "Undo") -> None:
        self.read_fd, self.write_fd = pipe()
        self.identity = identity(self.write_fd)
        undo.append(self._close_pipe)
        self.wake_read, self.wake_write = pipe(0)  # small: pages of pipes are counted by user
        self.wake_identity = identity(self.wake_write)
        undo.append(self._close_wake)
        os.set_blocking(self.wake_write, False)
        self.shared = Source(None, "fd1", self.read_fd)
        self.sources: dict[int, Source] = {self.read_fd: self.shared}
        self.ticking = self.stopping = self.running = False
        self.chunk = CHUNK  # bytes of one read

    @property
    def numbers(self) -> "set[int]":
        """Its descriptors, children's pipes aside."""
        return {self.read_fd, self.write_fd, self.wake_read, self.wake_write}

    def _close_pipe(self) -> None:
        close(self.read_fd, self.identity)
        close(self.write_fd, self.identity)

    def _close_wake(self) -> None:
        close(self.wake_read, self.wake_identity)
        close(self.wake_write, self.wake_identity)

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
        if not self.ticking and identity(self.wake_write) == self.wake_identity:
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
                if self.read_fd not in self.sources or identity(self.wake_read) != self.wake_identity:
                    raise OSError("its pipe was closed by a foreign hand")
                self.ticking = False
                wait = self._tails()
                self.ticking = wait is not None
                poller = select.poll()
                for fd in [self.wake_read, *self.sources]:
                    poller.register(fd, select.POLLIN)
                for fd, _ in poller.poll(None if wait is None else int(wait * 1000) + 1):
                    if fd == self.wake_read and identity(fd) == self.wake_identity:
                        os.read(fd, 64)
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
        if identity(source.fd) != source.identity:
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
            close(fd, source.identity)
        self.sources.clear()
        self.running = False
