"""The wire as a stream, and how a process leaves it: one write is one unit, from any thread, all of it or none.

Rules: no user-space buffer, so nothing is flushed twice after a fork or lost at exit; poison first and absolve last, so
that an interrupt between two bytecodes can never let a torn frame be followed by another; a signal handler that writes
while a write is under way is queued behind it; ``close()`` is inert, since SDKs drop wrappers that close what they hold
(modelcontextprotocol/python-sdk#1933). Hooks that cannot be unregistered are registered once for the process and ask
for the current guard; the step at exit is registered first, so that it runs last, and fd 1 is never given back there:
libc and late handlers still write. One file: each costs the cold start 1.5 %.
"""

import _thread
import os
import select
import sys
from os import getpid
from time import monotonic

from . import _channel, _fd, _guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from typing_extensions import Buffer

    from ._guard import Guard

EBADF, EPIPE = 9, 32  # everywhere; module errno costs the cold start 0.5 %
# seconds between looks at fd 1 while frames follow each other; the wire itself is looked at each time
VERIFY_EVERY = 0.005
TORN = "a frame was interrupted half way: another one would be read as its rest"
GETOWN = getattr(_fd.fcntl, "F_GETOWN", 0)
ask: "Callable[[int, int], int]" = _fd.fcntl.fcntl if GETOWN else lambda fd, what: -1


class Wire(_fd.StrayRaw):  # for its inert half: one class of this kind less costs less than a look at it
    """The real stdout. ``fileno()`` is the private descriptor, never 1 (mcp 2.x would claim that one for itself).

    ``refusal``: why no write is possible here, or ""; ``frames``: writes that went out whole.
    """

    name = "<wire>"

    def __init__(self, fd: int, verify: "Callable[[], object]") -> None:
        self._number, self.identity, self._verify = fd, _fd.identity(fd), verify
        self._pid, self.refusal, self.frames, self.lent = getpid(), "", 0, False
        self._lock, self._queue, self._busy = _thread.RLock(), list[bytes](), False
        self._dead, self._verified, self._target = "", 0.0, (fd,)
        own(fd, self._pid)

    @property
    def busy(self) -> bool:
        """True while a frame is on its way out, or was interrupted."""
        return self._busy or self._dead == TORN

    def write(self, data: "Buffer", /) -> int:  # type: ignore[override]  # no frame to look at here
        """Put ``data`` on the wire whole; returns its length in bytes.

        Raises BrokenPipeError when the client is gone, GuardStateError when this process may not write (forked child,
        torn frame, descriptor taken away). Nothing of ``data`` was written then, or the wire is dead for good.
        """
        frame = data if type(data) is bytes else bytes(memoryview(data))
        if self.refusal or getpid() != self._pid:
            raise refused(self.refusal or f"process {getpid()} is a fork: process {self._pid} owns the wire")
        with self._lock:
            if self._busy:  # we interrupted ourselves: the write under way sends this one too
                self._queue.append(frame)
                return len(frame)
            self._busy = True
            try:
                self._put(frame)
            finally:
                try:
                    while self._queue:  # also while an exception passes: a handler was promised these frames
                        self._put(self._queue.pop(0))
                finally:
                    self._busy = False
        return len(frame)

    def _put(self, frame: bytes) -> None:
        now, pid = monotonic(), self._pid
        try:  # owned() twice, without its calls
            usual = ask(self._number, GETOWN) == pid != ask(1, GETOWN)
        except OSError:
            usual = False
        if not usual or self._dead or now > self._verified + VERIFY_EVERY:
            self._look(now)
        self._dead, left = TORN, len(frame)
        try:
            while left:
                try:
                    # A loop over map() calls and stores without a gap: CPython runs signal handlers between the end of
                    # a call and the store of its result, and what a handler raises would take the count with it.
                    for done in map(
                        os.write, self._target, (memoryview(frame)[-left:] if left < len(frame) else frame,)
                    ):
                        left -= done
                except BlockingIOError:  # O_NONBLOCK was set by whoever shares the description
                    poller = select.poll()
                    poller.register(self._number, select.POLLOUT)
                    poller.poll()
        except OSError as error:
            if isinstance(error, ConnectionError) or error.errno == EBADF:
                self._dead = f"{error.strerror} on a frame of {len(frame)} bytes, {len(frame) - left} of them sent"
            raise
        finally:
            if self._dead is TORN and left in (0, len(frame)):
                self._dead = ""  # whole, or not begun: whatever passes here, no harm is done
        self.frames += 1

    def _look(self, now: float) -> None:
        """The whole look at the wire and at fd 1."""
        if self._dead or not (owned(self._number, self._pid) or _fd.identity(self._number) == self.identity):
            self._queue.clear()
            raise self._gone()
        self._verified = now
        self._verify()

    def _gone(self) -> Exception:
        if self._dead == TORN:
            return refused(f"the wire is closed: {TORN}; restart the server")
        if self._dead:
            return BrokenPipeError(EPIPE, f"the wire is closed: {self._dead}")
        return refused(
            f"the wire's descriptor {self._number} was closed or replaced by a foreign hand; nothing was written; keep "
            "os.closerange and os.dup2 away from descriptors that are not yours"
        )

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
        self._pid, self._lock, self._busy, self.frames = getpid(), _thread.RLock(), False, 0
        own(self._number, self._pid)

    def flush(self) -> None:
        """Nothing waits here."""

    def fileno(self) -> int:
        self.lent = True  # frames may leave by the descriptor from now on, uncounted
        return self._number


def refused(why: str) -> Exception:
    """GuardStateError, whose file a clean start does not pay for."""
    from .errors import GuardStateError

    return GuardStateError(why)


def own(fd: int, pid: int) -> bool:
    """Write our pid into the description behind ``fd`` (F_SETOWN: means nothing to anybody unless O_ASYNC is set)."""
    if fd < 0 or not hasattr(_fd.fcntl, "F_SETOWN"):
        return False
    try:
        _fd.fcntl.fcntl(fd, _fd.fcntl.F_SETOWN, pid)
    except OSError:  # a kind of file that has no owner: the slower look remains
        return False
    return owned(fd, pid)


def owned(fd: int, pid: int) -> bool:
    """True when ``fd`` is still the description that we marked: a recycled number has another owner, or none. A seventh
    of the time that fstat takes, for what is looked at before every frame; False proves nothing."""
    try:
        return ask(fd, GETOWN) == pid
    except OSError:
        return False


# ---- fork, exec, exit


def hook() -> None:
    """Register what stays for the life of the process."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    os.execv, os.execve = _exec(os.execv), _exec(os.execve)
    sys.breakpointhook = _breakpoint(sys.breakpointhook)


def _after_fork() -> None:
    if _guard.current is not None:
        forked(_guard.current)


def forked(guard: "Guard") -> None:
    """In a forked child: hold nothing that keeps the client from seeing the end of file, own nothing."""
    owner, guard.pid = guard.pid, getpid()
    guard.intake.tails.clear()
    guard.first_use = _thread.RLock()
    if guard.role != "owner":
        return
    if guard.heirs:
        guard.opened.adopt()
        if guard.channel is not None:
            from ._seldom import own_channel

            own_channel(guard, guard.channel)
        return
    guard.role, guard.intake.packed = "worker", guard.channel is not None
    guard.opened.refuse(
        f"process {guard.pid} was forked from the server (process {owner}), which alone owns the wire; send the result "
        "back to it, or, for a daemon, call guard.adopt_after_fork() in the server before it forks"
    )
    _fd.close(guard.wire_fd, guard.wire_identity)
    _fd.close(guard.stdin_fd, guard.stdin_identity)
    if guard.channel is not None:
        guard.channel.forget()
        guard.channel = None


def _exec(original: "Callable[..., Any]") -> "Callable[..., Any]":
    def exec_with_wire(*args: "Any", **kwargs: "Any") -> "Any":
        guard = _guard.current
        if guard is None or guard.role != "owner" or guard.pid != getpid() or guard.finished:
            return original(*args, **kwargs)
        from ._seldom import exec_from

        return exec_from(guard, original, *args, **kwargs)

    return exec_with_wire


def _breakpoint(original: "Callable[..., Any]") -> "Callable[..., Any]":
    def breakpoint_without_frames(*args: "Any", **kwargs: "Any") -> "Any":
        guard = _guard.current
        if guard is None or guard.role != "owner" or guard.stdin is not None or os.environ.get("PYTHONBREAKPOINT"):
            return original(*args, **kwargs)
        from ._seldom import passed_over

        return passed_over(guard, sys._getframe(1))

    return breakpoint_without_frames


def at_exit() -> None:
    """The last atexit step. From here on what arrives on fd 1 goes straight to stderr."""
    guard = _guard.current
    if guard is None or guard.role not in ("owner", "worker") or guard.finished:
        return
    if guard.pid != getpid():
        forked(guard)
    for stream in (sys.stdout, guard.original):
        try:
            stream.flush()
        except Exception:  # anybody's object, in any state: its trouble must not become the server's
            continue
    guard.intake.flush_tails()
    if guard.role == "owner":
        _last_step(guard)
    guard.finished = True


def _last_step(guard: "Guard") -> None:
    guard.check_hands()
    if guard.mode == "strict" or sys.stdout is not guard.stream:
        from ._seldom import prepare

        prepare(guard)
    sys.stdout = sys.__stdout__ = guard.stream  # type: ignore[misc]  # what the interpreter flushes last
    if _fd.identity(1) == guard.fd1:
        _fd.point(guard.late_target, 1)
    retire(guard)
    if guard.ledger.total or guard.opened.busy or (guard.sink is not None and guard.sink.lost_lines):
        from ._seldom import last_words

        last_words(guard)


def retire(guard: "Guard") -> None:
    """Stop the pump, show what the pipes still hold, and leave no writer of theirs without a reader."""
    target = guard.late_target
    channel, guard.channel = guard.channel, None
    if channel is None:
        return
    channel.stop(_channel.PATIENCE + 0.5)
    channel.drain()
    let_go(channel, target)
    for source in list(channel.sources.values()):
        if not _ended(source.fd) and _fd.identity(source.fd) == source.identity:
            from ._seldom import hand_over

            hand_over(source.fd, target)
        else:
            _fd.close(source.fd, source.identity)


def let_go(channel: "_channel.Channel", target: int) -> None:
    """Leave no writer of ours on the channel's pipe, or it would look like a child that still writes: each copy of it
    that this process has becomes ``target``."""
    _fd.close(channel.write_fd, channel.identity)

    def repoint(copies: "Iterable[int]") -> None:
        for copy in copies:
            os.dup2(target, copy, inheritable=os.get_inheritable(copy))

    repoint(fd for fd in (1, 2) if _fd.identity(fd) == channel.identity)
    if not _ended(channel.read_fd):  # somebody still writes: a child, or a descriptor of this process that we look for
        repoint(_fd.twins(channel.identity, {channel.read_fd}))


def _ended(fd: int) -> bool:
    """True when nobody can write to the pipe any more."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return any(event & select.POLLHUP for _, event in poller.poll(0))
