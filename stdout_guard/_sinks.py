"""Ways out that are not a plain pipe: sockets, terminals, the log file, nowhere."""

import errno
import os
import stat

from . import _fd
from ._outlets import BATCH, Sink, plain, ready

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def null_identity() -> _fd.Identity:
    return os.stat(os.devnull)[1:3]


def is_stream(fd: int) -> bool:
    """True for a pipe, FIFO or socket: what mixes the bytes of all who write, and reaches one reader."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def over_stderr(mode: int) -> Sink:
    """A sink on a copy of fd 2, whose ``st_mode`` is given."""
    fd = _fd.private(2, _fd.HIGH)
    if stat.S_ISSOCK(mode):
        return _over_socket(fd)
    if stat.S_ISREG(mode) or _fd.identity(fd) == null_identity():
        return Sink(fd, plain(fd))
    return Sink(fd, _polled(fd, BATCH if stat.S_ISFIFO(mode) else 512))


def _over_socket(fd: int) -> Sink:
    import _socket  # send() alone can be told not to wait for one call only

    sock = _socket.socket(fileno=fd)
    flag = getattr(_socket, "MSG_DONTWAIT", 0)
    sink = Sink(fd, lambda data: sock.send(data, flag))
    sink.release = sock.detach  # else its destructor would close the number once more
    return sink


def _polled(fd: int, most: int) -> "Callable[[bytes], int]":
    def put(data: bytes) -> int:
        if not ready(fd, 0):
            raise BlockingIOError(errno.EAGAIN, "would block")
        return os.write(fd, data[:most])

    return put


def settle(sink: Sink) -> None:
    """At exit: keep only the bare descriptor, so that no destructor has anything to complain about."""
    if sink.release is not None:
        sink.release()
        sink.release, sink.put = None, _polled(sink.fd, BATCH)


def nowhere() -> Sink:
    """Counts, and shows nothing."""
    low = os.open(os.devnull, os.O_WRONLY)
    try:
        fd = _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)
    return Sink(fd, plain(fd))


class LogSink(Sink):
    """A log file: appended, mode 0600, no symlink followed, opened anew when it was rotated away."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        fd = _open_log(self.path)
        super().__init__(fd, plain(fd))

    def standing(self) -> bool:
        try:
            if os.lstat(self.path)[1:3] == self.identity == _fd.identity(self.fd):
                return True
            fd = _open_log(self.path)
        except OSError:  # moved away, or a symlink now
            try:
                fd = _open_log(self.path)
            except OSError:
                return _fd.identity(self.fd) == self.identity
        self.close()
        self.fd, self.identity, self.put = fd, _fd.identity(fd), plain(fd)
        return True


def _open_log(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    low = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        return _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)
