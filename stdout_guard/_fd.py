"""What stands where stdout stood: descriptors below, a text stream above.

Rules: a descriptor is known by its identity (st_ino, st_dev), never by its number, since numbers are recycled; nothing
of ours lands on 0 to 2; no flag of a description that others share is ever changed; each step hands back its undo.
The stream is a genuine TextIOWrapper of which only the lowest layer is ours, so that everything works that code asks of
a stdout (``.buffer``, ``detach()``, ``reconfigure()``, ``fileno()`` == 1); it is not buffered, so the writer's frame is
on the stack at the moment of the write. One file: each costs the cold start 1.5 %.
"""

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    from typing_extensions import Buffer

    Undo = list[Callable[[], object]]  # the steps that take back what was done

fcntl: "Any" = None  # on Windows: no private flags, no pipe sizes; the dup channel is used there
if os.name == "posix":
    import fcntl


Identity = tuple[int, ...]
HIGH = 64  # where private descriptors that nobody asked for by number go: above closerange(3, 20) and dup2(x, 10)
PIPE_SIZE = 1 << 20


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
