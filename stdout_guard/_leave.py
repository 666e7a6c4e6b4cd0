"""How a process is left: the last step at exit, fork, exec, and what a debugger must not do.

Rules: hooks that cannot be unregistered are registered once for the process and ask for the current guard; the step at
exit is registered first, so that it runs last, and fd 1 is never given back there: libc and late handlers still write.
"""

import _thread
import os
import select
import sys

from . import _fd, _guard
from ._report import PATIENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._guard import Guard


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
    owner, guard.pid = guard.pid, os.getpid()
    guard.intake.tails.clear()
    guard.first_use = _thread.RLock()
    if guard.role != "owner":
        return
    if guard.heirs:
        guard.wire.adopt()
        if guard.channel is not None:
            guard.channel.restart()
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
        if guard is None or guard.role != "owner" or guard.pid != os.getpid() or guard.finished:
            return original(*args, **kwargs)
        path: str | bytes | int = args[0] if args else kwargs.get("path", 0)
        if not isinstance(path, int) and (not os.access(path, os.X_OK) or os.path.isdir(path)):
            return original(*args, **kwargs)  # fails, as execvp does in folder after folder: the wire stays where it is
        from ._seldom import GivenBack

        with GivenBack(guard):
            return original(*args, **kwargs)

    return exec_with_wire


def _breakpoint(original: "Callable[..., Any]") -> "Callable[..., Any]":
    def breakpoint_without_frames(*args: "Any", **kwargs: "Any") -> "Any":
        guard = _guard.current
        if guard is None or guard.role != "owner" or guard.stdin is not None or os.environ.get("PYTHONBREAKPOINT"):
            return original(*args, **kwargs)
        guard.intake.tell(
            f"breakpoint() at {guard.sites.find(sys._getframe(1))} was passed over: a debugger would read the client's "
            "frames from stdin; use a remote one (PYTHONBREAKPOINT=debugpy.breakpoint or remote_pdb.set_trace)"
        )
        return None

    return breakpoint_without_frames


def at_exit() -> None:
    """The last atexit step. From here on what arrives on fd 1 goes straight to stderr."""
    guard = _guard.current
    if guard is None or guard.role not in ("owner", "worker") or guard.finished:
        return
    if guard.pid != os.getpid():
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
    channel.stop(PATIENCE + 0.5)
    channel.drain()
    _fd.close(channel.write_fd, channel.identity)
    ours = [fd for fd in (1, 2) if _fd.identity(fd) == channel.identity]
    for copy in [
        *ours,
        *_fd.twins(channel.identity, {channel.read_fd}),
    ]:  # they would look like a child that still writes
        os.dup2(target, copy, inheritable=os.get_inheritable(copy))
    for source in list(channel.sources.values()):
        if _written(source.fd) and _fd.identity(source.fd) == source.identity:
            from ._seldom import hand_over

            hand_over(source.fd, target)
        else:
            _fd.close(source.fd, source.identity)


def _written(fd: int) -> bool:
    """True when somebody else can still write to the pipe."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return not any(event & (select.POLLHUP | select.POLLNVAL) for _, event in poller.poll(0))
