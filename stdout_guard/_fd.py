"""Take fd 1 out of everyone's reach, and give it back.

Rules: a descriptor is known by its identity (st_dev, st_ino), never by its number, since numbers are recycled; nothing
of ours lands on 0 to 2; no flag of a description that others share is ever changed; each step hands back its undo.
"""

import os
import stat

try:
    import fcntl
except ImportError:  # Windows: no private flags, no pipe sizes; the dup channel is used there
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Identity = tuple[int, int]
HIGH = 64  # where private descriptors that nobody asked for by number go: above closerange(3, 20) and dup2(x, 10)
PIPE_SIZE = 1 << 20


def identity(fd: int) -> Identity | None:
    """(st_dev, st_ino) of what ``fd`` is open on, or None when it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def null_identity() -> Identity:
    status = os.stat(os.devnull)
    return status.st_dev, status.st_ino


def is_stream(fd: int) -> bool:
    """True for a pipe, FIFO or socket: what mixes the bytes of all who write, and reaches one reader."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def is_fifo(fd: int) -> bool:
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


def fill_standard() -> tuple[int, ...]:
    """Open the null device on each of 0, 1, 2 that is closed, so that no file of anybody's takes the number.

    Returns the numbers filled. Not undone: a closed standard descriptor helps nobody.
    """
    filled: list[int] = []
    for fd in (0, 1, 2):
        if identity(fd) is None:
            got = os.open(os.devnull, os.O_RDWR)
            if got != fd:
                os.dup2(got, fd)
                os.close(got)
            os.set_inheritable(fd, True)
            filled.append(fd)
    return tuple(filled)


def private(fd: int, lowest: int = 3) -> int:
    """A copy of ``fd`` that no child inherits, numbered ``lowest`` or higher."""
    if fcntl is not None and hasattr(fcntl, "F_DUPFD_CLOEXEC"):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            if lowest <= 3:
                raise
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)  # a low descriptor limit
    copy = os.dup(fd)
    return copy if copy > 2 else private(copy, lowest)


def pipe() -> tuple[int, int]:
    """A pipe (read end, write end), both private and high, 1 MiB where allowed, its read end non-blocking."""
    low = os.pipe()
    ends: list[int] = []
    try:
        for fd in low:
            ends.append(private(fd, HIGH))
    except OSError:
        for fd in ends:
            os.close(fd)
        raise
    finally:
        for fd in low:
            os.close(fd)
    os.set_blocking(ends[0], False)
    if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        for size in (PIPE_SIZE, PIPE_SIZE >> 2):
            try:
                fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, size)
                break
            except OSError:  # over the user's pipe-user-pages-soft: the default size does
                continue
    return ends[0], ends[1]


def point(source: int, target: int) -> None:
    """Make ``target`` what ``source`` is, inheritable when it is one of 0, 1, 2."""
    os.dup2(source, target, inheritable=target <= 2)


def twins(wanted: Identity, ours: "set[int]") -> "Iterator[int]":
    """Writable descriptors above 2, not ``ours``, that were made of the same pipe or socket before we came."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        fd = int(name)
        if fd > 2 and fd not in ours and identity(fd) == wanted and _writable(fd):
            yield fd


def _writable(fd: int) -> bool:
    if fcntl is None:
        return False
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def reopened(fd: int, flags: int) -> int | None:
    """The FIFO behind ``fd`` opened anew, with flags of its own; None where that cannot be had (setuid, no /proc)."""
    try:
        low = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return private(low, HIGH)
    finally:
        os.close(low)


def divert(source: int, fd: int, undo: "Undo") -> None:
    """Make ``fd`` what ``source`` is; the undo gives it back as it was."""
    saved, inheritable = private(fd, HIGH), os.get_inheritable(fd)

    def back() -> None:
        os.dup2(saved, fd, inheritable=inheritable)
        os.close(saved)

    undo.push(back)
    os.dup2(source, fd, inheritable=inheritable)


class Undo:
    """Steps that take back what was done, run last to first; each runs though another failed."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []

    def push(self, step: "Callable[[], object]") -> None:
        self.steps.append(step)

    def run(self) -> None:
        while self.steps:
            step = self.steps.pop()
            try:
                step()
            except OSError:  # already closed by a foreign hand: there is nothing to give back
                continue
