"""The asynchronous wire: an MCP SDK's transport without a thread for every line (STDOUT_GUARD_ASYNC=1).

Rules: a frame leaves by ``Wire.write`` alone, from the loop's thread where it cannot block, else from a worker thread:
room for all of it is looked for first, so that nothing is handed over half sent. No flag of a description that others
share is changed (uvloop makes non-blocking what it waits for: it gets an epoll of ours). What was read is kept before
anything can be cancelled. One transport at a time.
"""

from __future__ import annotations

import array
import os
import select
import socket
import stat
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from stdout_guard import _fd, _outlets
from stdout_guard._guard import Guard

CHUNK = 65536  # bytes of a read; a frame over this is a thread's work
SKB = 32768  # bytes that a stream socket takes in one piece once it says that it is writable
NAP, NAPS = 0.002, 10  # seconds, and how many of them, between the end of the input and the word of it
LONGEST = 64 << 20  # bytes of a line
TOO_LONG = b"a line over %d bytes was dropped here: " % LONGEST  # no JSON: answered as any other such line is


def hand_over(module: Any, guard: Guard) -> str:
    """Make ours the defaults of ``stdio_server(stdin=None, stdout=None)``; "" or why this version does not fit."""
    entry: Any = getattr(module, "stdio_server", None)
    entry = getattr(entry, "__wrapped__", entry)  # others hold the decorated function: what it calls is changed
    code, anyio = getattr(entry, "__code__", None), getattr(module, "anyio", None)
    if code is None or code.co_varnames[: code.co_argcount] != ("stdin", "stdout"):
        return "there is no stdio_server(stdin, stdout)"
    inner = {name for const in code.co_consts for name in getattr(const, "co_names", ())}
    if entry.__defaults__ != (None, None) or "wrap_file" not in code.co_names or not {"write", "flush"} <= inner:
        return "stdio_server() does not make asynchronous files of stdin and stdout where none are given"
    if not hasattr(anyio, "wait_readable") or not hasattr(select, "epoll"):
        return "it needs anyio 4.7 and epoll"
    entry.__defaults__ = (Lines(guard, anyio), Frames(guard, anyio))
    guard.undo.append(lambda: setattr(entry, "__defaults__", (None, None)))
    return ""


class Frames:
    """What the SDK writes to: one ``write`` is one frame. False, so that the SDK takes its own way, where there is no
    wire (a forked worker, after ``uninstall()``)."""

    def __init__(self, guard: Guard, anyio: Any) -> None:
        self._guard, self._anyio = guard, anyio
        self._room = room(guard.wire_fd)

    def __bool__(self) -> bool:
        return self._guard.role == "owner"

    async def write(self, text: str) -> None:
        """Put one frame on the wire; raises as ``Wire.write`` does."""
        frame, anyio = text.encode(), self._anyio
        if not self._at_once(frame):
            await anyio.to_thread.run_sync(self._guard.opened.write, frame, limiter=anyio.CapacityLimiter(1))

    async def flush(self) -> None:
        """Nothing waits here."""

    def _at_once(self, frame: bytes) -> bool:
        """Write ``frame`` unless that could block; False when nothing was written."""
        lock, got = self._guard.opened._lock, False
        try:
            for got in map(lock.acquire, (False,)):  # no gap between the lock and the note of it: see Wire._put
                if got and self._room(len(frame)):
                    self._guard.opened.write(frame)
                    return True
        finally:
            if got:
                lock.release()
        return False


def room(fd: int) -> Callable[[int], bool]:
    """What tells whether so many bytes can be written to ``fd`` at once and whole; True also where that will fail."""
    kind, poll, waiting = os.fstat(fd).st_mode, select.poll(), array.array("i", [0])
    poll.register(fd, select.POLLOUT)

    def in_pipe(size: int) -> bool:  # "writable" is one free page; an empty pipe has all of its pages
        if size <= select.PIPE_BUF:
            return bool(poll.poll(0))
        if size > CHUNK:
            return False
        import termios

        try:
            _fd.fcntl.ioctl(fd, termios.FIONREAD, waiting)
            return not waiting[0] and size <= _fd.fcntl.fcntl(fd, _fd.fcntl.F_GETPIPE_SZ)
        except OSError:  # no pipe any more: the write says what became of it
            return True

    if stat.S_ISFIFO(kind):
        return in_pipe
    if stat.S_ISSOCK(kind) and socket.getdefaulttimeout() is None:  # else the look itself would make it non-blocking
        with socket.socket(fileno=_fd.private(fd)) as copy:
            most = min(SKB, copy.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2 - 64)
            if copy.family == socket.AF_UNIX and copy.type == socket.SOCK_STREAM:
                return lambda size: size <= most and bool(poll.poll(0))
    return lambda size: False


class Lines:
    """What the SDK reads: the client's lines, for one transport at a time. False where :class:`Frames` is."""

    def __init__(self, guard: Guard, anyio: Any) -> None:
        self._guard, self._anyio = guard, anyio
        self._whole, self._part, self._ended = deque[bytes](), bytearray(), False
        self._waiter: select.epoll | None = None
        self._user: Any = None  # the coroutine of the task that reads
        self._begun, self._more, self._naps = False, False, NAPS

    def __bool__(self) -> bool:
        self._refuse_second()
        return self._guard.role == "owner"

    def _refuse_second(self) -> None:
        if self._user is not None and self._user.cr_frame is not None:
            raise RuntimeError("another stdio_server() in this process reads stdin and writes the wire already")

    def __aiter__(self) -> Lines:
        self._refuse_second()
        self._user = self._anyio.get_current_task().coro
        if not self._begun:
            self._begun = True
            self._take(_read_ahead(self._guard))
            fd = self._guard.stdin_fd
            if stat.S_ISFIFO(kind := os.fstat(fd).st_mode) or stat.S_ISSOCK(kind):
                self._waiter = select.epoll()
                self._waiter.register(fd, select.EPOLLIN)
        return self

    async def __anext__(self) -> str:
        anyio = self._anyio
        if self._whole:  # lines that came together are not answered in one turn of the loop: others have their turns
            await anyio.lowlevel.checkpoint()
        while not self._whole and not self._ended:
            if self._waiter is None:
                await anyio.to_thread.run_sync(self._read, limiter=anyio.CapacityLimiter(1))
                continue
            if self._more and self._waiter.poll(0):
                await anyio.lowlevel.checkpoint()
            else:
                await anyio.wait_readable(self._waiter.fileno())
            self._read()
        if not self._whole:
            await self._settle()
            raise StopAsyncIteration
        return self._whole.popleft().decode("utf-8", "replace")

    async def _settle(self) -> None:
        """The SDKs drop what is not answered when the end is told. A stock transport learns of it through a thread, and
        has the last answers out by then: this one takes no less time."""
        while self._naps:
            self._naps -= 1
            await self._anyio.to_thread.run_sync(time.sleep, NAP, limiter=self._anyio.CapacityLimiter(1))

    def _read(self) -> None:
        """One read(2), kept here. Blocks where nothing waits."""
        if _fd.identity(self._guard.stdin_fd) != self._guard.stdin_identity:
            raise _outlets.refused("the private stdin was closed or replaced by a foreign hand; nothing was read")
        data = os.read(self._guard.stdin_fd, CHUNK)
        self._more = len(data) == CHUNK
        self._take(data)
        if not data:
            self._ended = True
            self._whole.extend([bytes(self._part)] if self._part else [])

    def _take(self, data: bytes) -> None:
        head, *more = data.split(b"\n")
        self._part += head
        for piece in more:
            self._whole.append(bytes(self._part + b"\n"))
            self._part = bytearray(piece)
        if len(self._part) > LONGEST:  # what comes of it later is no JSON either
            self._part = bytearray(TOO_LONG)


def _read_ahead(guard: Guard) -> bytes:
    """What was read ahead into the guard's stdin: with the null device in its place, reading to the end gives that."""
    stream = guard.take_stdin()
    keep, hole = _fd.private(guard.stdin_fd), os.open(os.devnull, os.O_RDONLY)
    try:
        _fd.point(hole, guard.stdin_fd)
        return stream.read()
    finally:
        _fd.point(keep, guard.stdin_fd)
        os.close(hole)
        os.close(keep)
