"""Children that would write to our fd 1 get a pipe of their own, so that every line is named by what started it."""

import functools
import os
import sys

from stdout_guard import _fd, _guard
from stdout_guard._ledger import spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_wrapped: "set[int]" = set()


def wrap(subprocess: "Any") -> None:
    """Wrap ``subprocess.Popen.__init__`` (asyncio's children come with it) and multiprocessing's way to start workers.

    Called once the module's body has run; the wrappers stay for the process and ask for the current guard.
    """
    if id(subprocess) in _wrapped:
        return
    _wrapped.add(id(subprocess))
    original = subprocess.Popen.__init__

    @functools.wraps(original)
    def init(self: "Any", args: "Any", *rest: "Any", **options: "Any") -> None:
        if not isinstance(args, str | bytes | list | tuple) and hasattr(args, "__next__"):
            args = list(args)  # an iterator: we look at its first word, and Popen needs it too
        positional = len(rest) > 3  # (bufsize, executable, stdin, stdout, ...)
        pipe = OwnPipe.for_child(rest[3] if positional else options.get("stdout"), args)
        if pipe is None:
            original(self, args, *rest, **options)
            return
        if positional:
            rest = (*rest[:3], pipe.write_end, *rest[4:])
        else:
            options["stdout"] = pipe.write_end
        env: Any = options.get("env")
        if len(rest) <= 9 and (env is None or _guard.MARKER in env):  # an environment of the user's own stays as it is
            options["env"] = {**(os.environ if env is None else env), _guard.MARKER: pipe.mark}
        pipe.start(lambda: original(self, args, *rest, **options) or self.pid)

    subprocess.Popen.__init__ = init
    _wrap_multiprocessing()


def _wrap_multiprocessing() -> None:
    """multiprocessing's spawn, forkserver and resource tracker start through this one C function, past Popen."""
    module: Any = sys.modules.get("_posixsubprocess")
    if module is None:
        return
    original = module.fork_exec
    stdout = 9  # c2pwrite: the child's stdout, -1 to inherit (the same place in 3.11 to 3.14)

    @functools.wraps(original)
    def fork_exec(*args: "Any") -> int:
        pipe = OwnPipe.for_child(None, args[0]) if len(args) > stdout and args[stdout] == -1 else None
        if pipe is None:
            return int(original(*args))
        env = args[stdout - 4]
        if env is None:
            marked = {**os.environ, _guard.MARKER: pipe.mark}
            env = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in marked.items()]
        with_pipe = (*args[: stdout - 4], env, *args[stdout - 3 : stdout], pipe.write_end, *args[stdout + 1 :])
        return pipe.start(lambda: int(original(*with_pipe)))

    module.fork_exec = fork_exec


class OwnPipe:
    """The pipe of one child: its write end goes to the child, the pump reads the other."""

    def __init__(self, channel: _fd.Channel, args: "Any", site: str) -> None:
        self.channel, self.mark = channel, ""
        read_end, self.write_end = _fd.pipe()
        self.source = _fd.Source(("", 0, "", site, ""), "child", read_end, _program(args))

    @classmethod
    def for_child(cls, stdout: "Any", args: "Any") -> "OwnPipe | None":
        """One for a child whose stdout would be our fd 1; None when it would not, or cannot have one."""
        guard = _guard.current
        if guard is None or guard.channel is None or guard.finished or guard.pid != os.getpid():
            return None
        if not _inherits(stdout) or len(guard.channel.sources) > _fd.CHILD_PIPES:
            return None
        try:
            pipe = cls(guard.channel, args, spelled(guard.sites.find(sys._getframe(2))))
        except (
            OSError,
            TypeError,
            ValueError,
        ):  # no descriptors, or arguments that Popen will refuse with its own words
            return None
        pipe.mark = guard.mark(pipe.source.identity)  # into the child's environment only: ours would grow for ever
        return pipe

    def start(self, start: "Callable[[], int]") -> int:
        """Start the child by ``start() -> pid``, and let the pump read what it writes; returns the pid."""
        try:
            self.source.pid = start()
        except BaseException:
            os.close(self.source.fd)
            raise
        finally:
            os.close(self.write_end)
        self.channel.add_child(self.source)
        return self.source.pid


def _inherits(stdout: "Any") -> bool:
    if stdout is None:
        return True
    if isinstance(stdout, int):
        return stdout == 1
    try:
        return bool(stdout.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False


def _program(args: "Any") -> str:
    if not isinstance(args, str | bytes) and not hasattr(args, "__fspath__"):
        args = next(iter(args), "?")
    words = os.path.basename(os.fsdecode(args)).split()
    return words[0] if words else "?"
