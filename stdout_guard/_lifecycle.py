"""The guard's life: stand, be forked, exec, exit, be taken away.

Rules: ``stand`` leaves everything as it was when it raises; hooks that cannot be unregistered are registered once for
the process and ask for the current guard; at exit fd 1 is never given back, since libc and late handlers write after us.
"""

import atexit
import os
import sys

from . import _channel, _fd, _guard, _ledger, _stream, _wire
from .errors import GuardStateError, StrayWriteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._guard import Guard

current: "Guard | None" = None
_hooked = False


# ---- stand


def stand(guard: "Guard") -> None:
    """Make ``guard`` the owner of this process's wire, or what else the process allows; all of it or nothing."""
    global current
    if os.environ.get(_guard.MARKER) is None:
        _refuse_late()
    filled = _fd.fill_standard()
    try:
        if _session():
            _watch_only(guard)
        elif kind := _guard.marked(1):
            _join(guard, kind)
        else:
            _claim(guard)
        _stand_in(guard)
        if guard.settings.redact is True:
            from ._redact import Redactor

            guard.redactor = Redactor()
        current = guard
        guard.undo.push(_forget)
        _hooks()
        atexit.register(_at_exit)
        guard.undo.push(lambda: atexit.unregister(_at_exit))
        from . import _watch

        _watch.begin(guard)
    except BaseException:
        guard.undo.run()
        raise
    if 1 in filled and guard.role == "owner":
        guard.tell("stdout was closed when this process started: protocol frames go to the null device")


def _forget() -> None:
    global current
    current = None


def _refuse_late() -> None:
    """mcp 2.x points fd 1 at stderr while it serves: taking *that* for the wire would lose every frame."""
    stdio = sys.modules.get("mcp.server.stdio")
    if stdio is not None and getattr(stdio, "_claims", None) and _fd.identity(1) == _fd.identity(2):
        raise GuardStateError(
            "the mcp server is already running and has pointed fd 1 at stderr, so the wire cannot be found any more; "
            "install the guard first, before the server runs"
        )


def _session() -> str:
    """The name of what runs us when this process is not a server, else ""."""
    for module, name in (("_pytest", "pytest"), ("ipykernel", "ipykernel")):
        if module in sys.modules:
            return name
    return "an interactive session" if sys.flags.interactive or hasattr(sys, "ps1") else ""


def _watch_only(guard: "Guard") -> None:
    guard.role = "watch"
    if sys.stderr is not None:
        sys.stderr.write(f"{_ledger.PREFIX}running under {_session()}: stray writes are recorded, nothing is taken\n")


def _join(guard: "Guard", kind: str) -> None:
    guard.role, guard.children_piped = "worker", kind == "thread"
    guard.sink = _channel.stderr_sink()
    guard.undo.push(guard.sink.close)
    guard.set_wire(
        _wire.Wire(
            -1, guard.check_hands, f"the stdout of process {os.getpid()} is its parent's channel for stray output, not a "
            "wire; start this server with a stdout of its own (stdout=subprocess.PIPE)"
        )
    )  # fmt: skip


def _claim(guard: "Guard") -> None:
    undo, out = guard.undo, _fd.identity(1)
    assert out is not None
    merged = out == _fd.identity(2) and _fd.is_stream(1)
    guard.sink = _open_sink(guard, merged, out)
    undo.push(guard.sink.close)
    if merged and guard.mode == "strict":
        guard.sink.write(b"stdout-guard: strict: stdout and stderr are the same pipe; exit status 78\n")
        os._exit(_guard.MERGED_STATUS)  # anything said on stderr would be on the wire
    wire_fd = _fd.private(1)
    undo.push(lambda: os.close(wire_fd))
    guard.set_wire(_wire.Wire(wire_fd, guard.check_hands))
    why = _open_channel(guard)
    target = guard.channel.write_fd if guard.channel is not None else guard.late_target
    ours = {wire_fd, target, guard.sink.fd}
    undo.push(lambda: _fd.point(wire_fd, 1))
    _fd.point(target, 1)
    guard.fd1 = _fd.identity(1)
    for twin in list(_fd.twins(out, ours)):
        _divert(target, twin, undo)
    if merged:
        _divert(guard.sink.fd, 2, undo)
        guard.tell("stdout and stderr are the same pipe: stderr is kept off the wire too; set STDOUT_GUARD_LOG to see it")
    if why:
        guard.tell(f"no pipe or thread for the channel ({why}); fd 1 goes straight to stderr, unnamed")
    marks = guard.channel.identity if guard.channel is not None else guard.fd1
    guard.marks = [] if marks is None else [marks]
    guard.mark()
    undo.push(lambda: os.environ.pop(_guard.MARKER, None))


def _open_sink(guard: "Guard", merged: bool, out: "_fd.Identity") -> _channel.Sink:
    path = guard.settings.log
    if not path:
        return _channel.null_sink() if merged else _channel.stderr_sink()
    try:
        sink = _channel.log_sink(path)
    except OSError as error:
        raise GuardStateError(
            f"log {path!r} (STDOUT_GUARD_LOG) cannot be opened for appending: {error.strerror}; a symlink is not followed; "
            "the guard was not installed"
        ) from error
    if sink.identity == out and sink.identity != _fd.null_identity():
        sink.close()
        raise GuardStateError(f"log {path!r} (STDOUT_GUARD_LOG) is this process's stdout; the guard was not installed")
    return sink


def _open_channel(guard: "Guard") -> str:
    """Give the guard its channel; why it has none, when one was wanted and could not be had."""
    if guard.settings.channel == "dup" or _fd.fcntl is None:
        return ""
    partly = _fd.Undo()
    try:
        channel = _channel.Channel(guard.deliver, guard.idle, guard.channel_failed, partly)
        channel.start()
    except (OSError, RuntimeError, MemoryError) as error:
        partly.run()
        return str(error) or type(error).__name__
    guard.channel = channel
    guard.undo.push(partly.run)
    guard.undo.push(lambda: _retire(guard))
    return ""


def _retire(guard: "Guard") -> None:
    if (channel := guard.channel) is not None:
        channel.stop(_channel.PATIENCE + 0.5)
        channel.drain()
        channel.release_write()
        channel.hand_over(guard.late_target)
        guard.channel = None


def _divert(source: int, fd: int, undo: _fd.Undo) -> None:
    saved, inheritable = _fd.private(fd, _fd.HIGH), os.get_inheritable(fd)

    def back() -> None:
        os.dup2(saved, fd, inheritable=inheritable)
        os.close(saved)

    undo.push(back)
    os.dup2(source, fd, inheritable=inheritable)


def _stand_in(guard: "Guard") -> None:
    """Put our stream where Python code finds stdout. Text pending in the old one goes to fd 1 now, after that moved."""
    before = sys.stdout, sys.__stdout__
    for stream in dict.fromkeys(before):
        if stream is None:
            continue
        if guard.role == "watch":
            guard.undo.push(_stream.hook(stream, _recorder(guard, stream)))
            continue
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or no stream at all
            pass
        guard.undo.push(_stream.hook(stream, _stream.text_over(guard.stream.buffer).write))  # type: ignore[arg-type]
    if guard.role == "watch":
        return

    def back() -> None:
        sys.stdout, sys.__stdout__ = before  # type: ignore[misc]

    guard.undo.push(back)
    sys.stdout = sys.__stdout__ = guard.stream  # type: ignore[misc]


def _recorder(guard: "Guard", stream: "Any") -> "Callable[[str], int]":
    """Watch only: note the write, then let the stream have it."""
    write = type(stream).write

    def recording(text: str) -> int:
        if text.strip():
            site = guard.sites.find(sys._getframe(1))
            guard.ledger.add(_ledger.StrayWrite("python", text.rstrip("\n"), site.file, site.line, site.function, site.caller))
        return int(write(stream, text))

    return recording


# ---- fork, exec, breakpoint: hooks for the life of the process


def _hooks() -> None:
    global _hooked
    if _hooked:
        return
    _hooked = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    for name in ("execv", "execve"):
        setattr(os, name, _exec(getattr(os, name)))
    sys.breakpointhook = _breakpoint(sys.breakpointhook)


def _after_fork() -> None:
    if current is not None:
        current.after_fork()


def _exec(original: "Callable[..., Any]") -> "Callable[..., Any]":
    """The new image gets fd 0 and fd 1 back, blocking; when it cannot be had, all is diverted again."""

    def exec_with_wire(*args: "Any", **kwargs: "Any") -> "Any":
        guard = current
        if guard is None or guard.role != "owner" or guard.pid != os.getpid() or guard.finished:
            return original(*args, **kwargs)
        guard.flush_tails()
        if guard.channel is not None:
            guard.channel.stop(_channel.PATIENCE)
            guard.channel.drain()
        undo = _fd.Undo()
        try:
            _give_back(guard, undo)
            return original(*args, **kwargs)
        finally:  # reached only when the exec failed
            undo.run()
            if guard.channel is not None:
                guard.channel.restart()

    return exec_with_wire


def _give_back(guard: "Guard", undo: _fd.Undo) -> None:
    for private, fd in ((guard.wire.fileno(), 1), (guard.stdin_fd, 0)):
        if private >= 0:
            _divert(private, fd, undo)
            if not os.get_blocking(fd):
                os.set_blocking(fd, True)
    mark = os.environ.pop(_guard.MARKER, "")
    undo.push(lambda: os.environ.__setitem__(_guard.MARKER, mark))


def _breakpoint(original: "Callable[..., Any]") -> "Callable[..., Any]":
    def breakpoint_without_frames(*args: "Any", **kwargs: "Any") -> "Any":
        guard = current
        debugger = os.environ.get("PYTHONBREAKPOINT", "")
        if guard is None or guard.role != "owner" or guard.stdin_taken or debugger:
            return original(*args, **kwargs)
        site = guard.sites.find(sys._getframe(1))
        guard.tell(
            f"breakpoint() at {site} was passed over: a debugger would read the client's frames from stdin; use a remote "
            "one (PYTHONBREAKPOINT=debugpy.breakpoint, or remote-pdb's PYTHONBREAKPOINT=remote_pdb.set_trace)"
        )
        return None

    return breakpoint_without_frames


# ---- exit


def _at_exit() -> None:
    guard = current
    if guard is None or guard.role not in ("owner", "worker") or guard.finished:
        return
    if guard.pid != os.getpid():
        guard.after_fork()
    _stream_back(guard)
    guard.flush_tails()
    if guard.role == "owner":
        _last_step(guard)
    guard.finished = True


def _stream_back(guard: "Guard") -> None:
    """Our object is what the interpreter flushes last; whatever stood in its place is flushed here."""
    replaced = sys.stdout
    for stream in (replaced, guard.original):
        try:
            stream.flush()
        except Exception:  # anybody's object, in any state: its trouble must not become the server's
            continue
    try:
        guard.stream.fileno()
    except ValueError:  # detached: a new one over the same bottom
        guard.stream = _stream.text_over(guard.bottom)
    sys.stdout = sys.__stdout__ = guard.stream  # type: ignore[misc]


def _last_step(guard: "Guard") -> None:
    sink, channel = guard.sink, guard.channel
    assert sink is not None
    guard.verify()
    if guard.mode == "strict":
        flush_c()
    if _fd.identity(1) == guard.fd1:
        _fd.point(guard.late_target, 1)
    if channel is not None:
        channel.stop(_channel.PATIENCE + 0.5)
        channel.drain()
    if guard.wire_busy:
        guard.tell("a frame was still being written when the server ended: the client may have got only its beginning")
    if guard.ledger.total:
        guard.tell(guard.ledger.summary())
    sink.confess()
    guard.finished = True
    if channel is not None:
        channel.release_write()
        channel.hand_over(guard.late_target)
        guard.channel = None
    sink.settle()
    if guard.mode == "strict":
        sys.unraisablehook = _verdict(sys.unraisablehook, guard)


def flush_c() -> None:
    """Write out what C code left in libc's buffers."""
    try:
        import ctypes

        ctypes.CDLL(None).fflush(None)
    except (ImportError, OSError, AttributeError, TypeError):  # no ctypes, or no libc to be found by that name
        return


def _verdict(original: "Callable[[Any], Any]", guard: "Guard") -> "Callable[[Any], Any]":
    def say(unraisable: "Any") -> None:
        if isinstance(unraisable.exc_value, StrayWriteError) and guard.judged:
            guard.tell(str(unraisable.exc_value))
        else:
            original(unraisable)

    return say


def take_away(guard: "Guard") -> None:
    """Undo ``stand``: fd 1 and ``sys.stdout`` are what they were. What C code had pending still goes to stderr."""
    if guard.role == "owner":
        flush_c()
    _stream_back_flush(guard)
    guard.flush_tails()
    guard.undo.run()
    guard.role = "ended"


def _stream_back_flush(guard: "Guard") -> None:
    try:
        guard.original.flush()
    except Exception:  # anybody's object
        return
