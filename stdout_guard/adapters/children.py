"""Children that would write to our fd 1 get a pipe of their own, so that every line is named by what started it."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from stdout_guard import _channel, _fd, _guard
from stdout_guard._guard import Guard

_wrapped: set[int] = set()


def wrap(subprocess: Any) -> None:
    """Wrap ``subprocess.Popen.__init__`` (asyncio's children come with it) and what multiprocessing starts workers with.

    Called once the module's body has run; the wrappers stay for the process and ask for the current guard.
    """
    if id(subprocess) in _wrapped:
        return
    _wrapped.add(id(subprocess))
    original = subprocess.Popen.__init__

    @functools.wraps(original)
    def init(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        positional = len(rest) > 3  # (bufsize, executable, stdin, stdout, ...)
        pipe = _own_pipe(rest[3] if positional else options.get("stdout"), args)
        if pipe is None:
            return original(self, args, *rest, **options)
        guard, source, write_end = pipe
        if positional:
            rest = (*rest[:3], write_end, *rest[4:])
        else:
            options["stdout"] = write_end
        try:
            original(self, args, *rest, **options)
        except BaseException:
            os.close(source.fd)
            raise
        finally:
            os.close(write_end)
        _begin(guard, source, self.pid)

    subprocess.Popen.__init__ = init
    _wrap_multiprocessing()


def _wrap_multiprocessing() -> None:
    """multiprocessing's spawn, forkserver and resource tracker start through this one C function, past Popen."""
    import _posixsubprocess

    original = _posixsubprocess.fork_exec
    stdout = 9  # c2pwrite: the child's stdout, -1 to inherit (the same place in 3.11 to 3.14)

    @functools.wraps(original)
    def fork_exec(*args: Any) -> int:
        pipe = _own_pipe(None, args[0]) if len(args) > stdout and args[stdout] == -1 else None
        if pipe is None:
            return int(original(*args))
        guard, source, write_end = pipe
        try:
            pid = int(original(*args[:stdout], write_end, *args[stdout + 1 :]))
        except BaseException:
            os.close(source.fd)
            raise
        finally:
            os.close(write_end)
        _begin(guard, source, pid)
        return pid

    _posixsubprocess.fork_exec = fork_exec


def _own_pipe(stdout: Any, args: Any) -> tuple[Guard, _channel.Source, int] | None:
    """A pipe for a child whose stdout would be our fd 1; None when it would not, or cannot have one."""
    guard = _guard.current
    if guard is None or guard.channel is None or guard.finished or guard.pid != os.getpid() or not _inherits(stdout):
        return None
    if len(guard.channel.sources) > _channel.CHILD_PIPES:
        return None
    site = guard.sites.find(sys._getframe(2))
    try:
        read_end, write_end = _fd.pipe()
    except OSError:  # out of descriptors: the shared pipe still keeps it off the wire
        return None
    source = _channel.Source(
        "child", read_end, _program(args), str(site) + (f" from {site.caller}" if site.caller else "")
    )
    if source.identity is not None:
        guard.marks.append(source.identity)
        del guard.marks[1 : -2 * _channel.CHILD_PIPES]
        guard.mark()
    return guard, source, write_end


def _inherits(stdout: Any) -> bool:
    if stdout is None:
        return True
    if isinstance(stdout, int):
        return stdout == 1
    try:
        return bool(stdout.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False


def _program(args: Any) -> str:
    first: Any = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "?")
    name = os.path.basename(os.fsdecode(first))
    return name.split()[0] if name.split() else "?"


def _begin(guard: Guard, source: _channel.Source, pid: int) -> None:
    source.pid = pid
    if guard.channel is not None:
        guard.channel.add_child(source)
