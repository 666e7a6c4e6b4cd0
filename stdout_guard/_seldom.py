"""What most processes never need: the strict verdict, the last words, exec, uninstall, children that outlive us."""

import os
import sys

from . import _fd, _guard, _outlets
from ._ledger import spelled
from .errors import GuardStateError, StrayWriteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, NoReturn

    from ._guard import Guard
    from ._outlets import Intake


_HELPERS = ("callback", "show_help", "main", "parse_args", "print_help")


def is_help(frame: "FrameType") -> bool:
    """True for argparse's, optparse's or click's own help or version output (usage errors go to stderr)."""
    module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
    if module in ("argparse", "optparse"):
        return function in ("_print_message", "print_help", "print_version")
    if str(module).removeprefix("typer._") == "click.utils" and frame.f_back is not None:  # typer brings its own copy
        by = str(frame.f_back.f_globals.get("__name__")).removeprefix("typer._")
        return by in ("click.core", "click.decorators") and frame.f_back.f_code.co_name in _HELPERS  # not secho, prompt
    if str(module).startswith("rich."):  # typer formats its help with rich
        step: FrameType | None = frame
        for _ in range(40):
            if step is None:
                return False
            if step.f_globals.get("__name__") == "typer.rich_utils":
                return True
            step = step.f_back
    return False


def refuse(intake: "Intake", data: bytes, frame: "FrameType | None") -> "NoReturn":
    """Strict: record what was written, then raise at the call site."""
    site = intake.sites.find(frame)
    strays = [intake.python(line, site) for line in data.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")]
    intake.record(strays)
    stray = next((stray for stray in strays if stray.note), strays[0])
    note = stray.note or "stdout belongs to the protocol: print to sys.stderr, or write frames to guard.wire"
    shown = _outlets.cut(_outlets.escape(stray.text), 600)
    raise StrayWriteError(f"stray write to stdout at {stray.where}: {shown!r}; {note}", stray)


def cut_off(guard: "Guard", error: BaseException) -> None:
    """The pump cannot go on (a foreign hand closed its pipe): fd 1 goes straight to stderr from now on."""
    channel, guard.channel = guard.channel, None
    if _fd.identity(1) == guard.fd1:
        _fd.point(guard.late_target, 1)
    guard.fd1 = _fd.identity(1)
    for source in list(channel.sources.values()) if channel is not None else ():
        if _fd.identity(source.fd) == source.identity:
            hand_over(source.fd, guard.late_target)  # children must not wait for a reader for ever
    guard.intake.tell(f"the channel broke ({error}); fd 1 goes straight to stderr, unnamed, from now on")


def too_late() -> GuardStateError:
    """There is no wire that a fork could adopt."""
    return GuardStateError(
        f"process {os.getpid()} holds no wire to adopt (it was closed at the fork, so that the client sees the end of "
        "file in time); call guard.adopt_after_fork() in the server before it forks"
    )


def foreign_hands(guard: "Guard") -> "Iterator[str]":
    """What others did to our descriptors and to ``sys.stdout``."""
    if guard.role == "owner" and _fd.identity(guard.wire_fd) != guard.wire_identity:
        yield f"the wire's descriptor {guard.wire_fd} was closed or replaced by a foreign hand"
    if guard.role in ("owner", "worker") and not _leads_to_us(guard, sys.stdout):
        kind = type(sys.stdout).__name__
        yield f"sys.stdout was replaced by a {kind}: what is written there is not named, only kept off the wire"


def _leads_to_us(guard: "Guard", stream: "Any") -> bool:
    for _ in range(8):
        if stream is guard.stream or stream is guard.bottom or stream is guard.original:
            return True
        inner = (getattr(stream, name, None) for name in ("buffer", "stream", "wrapped"))
        stream = next((found for found in inner if found is not None), None)
    return False


def own_channel(guard: "Guard", old: _fd.Channel) -> None:
    """In a fork that owns the wire: a channel of its own. The parent's would stay shared with the parent, whose pump
    reads it until it ends, and whose end changes its flags."""
    partly: _fd.Undo = []
    guard.channel, why = None, ""
    try:
        fresh = _fd.Channel(partly)
        fresh.start(guard.intake.deliver, guard.intake.idle, guard.intake.cut_off)
        guard.channel = fresh
        guard.undo.insert(0, lambda: _fd.unwind(partly))
    except (OSError, RuntimeError, MemoryError) as error:
        _fd.unwind(partly)
        why = str(error) or type(error).__name__
    _outlets.let_go(old, guard.late_target if guard.channel is None else guard.channel.write_fd)
    old.forget()
    guard.fd1 = _fd.identity(1)
    guard.pipe = guard.fd1 if guard.channel is None else guard.channel.identity
    os.environ[_guard.MARKER] = guard.mark()
    if why:
        guard.intake.tell(f"no pipe or thread for the fork's channel ({why}); fd 1 goes straight to stderr, unnamed")


# ---- exit


def prepare(guard: "Guard") -> None:
    """Before the last step: what C code has pending is counted too, and the verdict is made ready to be raised."""
    for found in guard.verify():
        guard.intake.tell(found, once=found)
    try:
        guard.stream.fileno()
    except ValueError:  # detached: a new one over the same bottom
        guard.stream = _fd.text_over(guard.bottom)
    if guard.mode == "strict":
        flush_c()
        guard.intake.verdict = StrayWriteError("strict: stray writes to stdout; exit status 120")
        sys.unraisablehook = _verdict(sys.unraisablehook, guard)


def _verdict(original: "Callable[[Any], Any]", guard: "Guard") -> "Callable[[Any], Any]":
    """The interpreter reports our last flush as an exception it ignored: say it as what it is."""

    def say(unraisable: "Any") -> None:
        if unraisable.exc_value is guard.intake.verdict:
            guard.intake.tell(f"strict: {_writes(guard.ledger.total)} to stdout in this run; exit status 120")
        else:
            original(unraisable)

    return say


def last_words(guard: "Guard") -> None:
    """The summary, and what else must be said before nothing can be."""
    if guard.opened.busy:
        guard.intake.tell("a frame was still being written at the end: the client may have got only its beginning")
    if guard.ledger.total:
        guard.intake.tell(_summary(guard))
    if guard.sink is not None:
        guard.sink.confess()
        if guard.sink.release is not None:
            from ._sinks import settle

            settle(guard.sink)


def _summary(guard: "Guard") -> str:
    """What is said at exit: how many, and from where."""
    counts = guard.counts
    shown = ", ".join(f"{_outlets.cut(place, 300)} ({n})" for place, n in counts.places[:8])
    more = len(counts.places) - 8
    rest = f" and {more} more places" if more > 0 else ""
    return f"{_writes(counts.strays)} kept off the wire: {shown}{rest}"


def _writes(number: int) -> str:
    return f"{number} stray write{'s' if number != 1 else ''}"


def flush_c() -> None:
    """Write out what C code left in libc's buffers."""
    try:
        import ctypes

        ctypes.CDLL(None).fflush(None)
    except (ImportError, OSError, AttributeError, TypeError):  # no ctypes, or no libc to be found by that name
        return


def hand_over(fd: int, target: int) -> None:
    """A pipe that children still write to goes to a ``cat`` on ``target``: nobody gets SIGPIPE. Closes ``fd``."""
    if _fd.identity(fd) == _fd.identity(target):  # it would feed itself for ever
        os.close(fd)
        return
    cat = next((path for path in ("/bin/cat", "/usr/bin/cat") if os.path.exists(path)), None)
    if cat is not None:
        os.set_blocking(fd, True)
        actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_DUP2, target, 1)]
        try:
            os.posix_spawn(cat, [cat], os.environ, file_actions=actions)
        except OSError:  # no process to be had: the children get SIGPIPE, as documented
            pass
    os.close(fd)


def take_away(guard: "Guard") -> None:
    """Undo the installation: fd 1 and ``sys.stdout`` are what they were. What C code had pending goes to stderr."""
    if guard.role == "owner":
        flush_c()
    _fd.unwind(guard.undo)
    guard.intake.flush_tails()  # of a guard that took nothing; the others are done
    guard.role = "ended"
    guard.opened.refuse("the guard was taken away by uninstall(); write to sys.stdout.buffer again")


# ---- breakpoint, exec


def passed_over(guard: "Guard", frame: "FrameType") -> None:
    """``breakpoint()`` in ``frame`` while the client's frames are on stdin."""
    guard.intake.tell(
        f"breakpoint() at {spelled(guard.sites.find(frame))} was passed over: a debugger would read the client's "
        "frames from stdin; use a remote one (PYTHONBREAKPOINT=debugpy.breakpoint or remote_pdb.set_trace)"
    )


def exec_from(guard: "Guard", original: "Callable[..., Any]", *args: "Any", **kwargs: "Any") -> "Any":
    """``os.execv`` or ``os.execve`` in the owner of the wire."""
    path: str | bytes | int = args[0] if args else kwargs.get("path", 0)
    if not isinstance(path, int) and (not os.access(path, os.X_OK) or os.path.isdir(path)):
        return original(*args, **kwargs)  # fails, as execvp does in folder after folder: the wire stays where it is
    with GivenBack(guard):
        return original(*args, **kwargs)


class GivenBack:
    """For an exec: the new image gets fd 0 and fd 1 back, blocking. Leaving the block means that the exec failed."""

    def __init__(self, guard: "Guard") -> None:
        self._guard, self._stopped = guard, True
        self._undo: _fd.Undo = []

    def __enter__(self) -> None:
        guard = self._guard
        if guard.channel is not None:
            self._stopped = guard.channel.stop(_fd.PATIENCE)
        guard.intake.flush_tails()
        if guard.channel is not None:
            guard.channel.drain()
        try:
            for private, fd in ((guard.wire_fd, 1), (guard.stdin_fd, 0)):
                if private >= 0:
                    _fd.divert(private, fd, self._undo)
                    if not os.get_blocking(fd):
                        os.set_blocking(fd, True)
        except OSError:
            self.__exit__()
            raise
        mark = os.environ.pop(_guard.MARKER, "")
        self._undo.append(lambda: os.environ.__setitem__(_guard.MARKER, mark))

    def __exit__(self, *raised: object) -> None:
        _fd.unwind(self._undo)
        if self._guard.channel is not None:
            self._guard.channel.stopping = False
            if self._stopped:  # else the old pump is still at it
                self._guard.channel.restart()
