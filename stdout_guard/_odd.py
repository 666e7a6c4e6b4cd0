"""Processes that are no plain server: pytest, a notebook, a guarded parent's child, merged streams, a log file."""

import os
import sys

from . import _fd, _guard, _ledger, _outlets, _sinks
from .errors import GuardStateError, LateInstallWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._guard import Guard

MERGED_STATUS = 78  # EX_CONFIG of sysexits.h: strict, and stdout and stderr are one pipe


def start(guard: "Guard") -> bool:
    """Make the guard what this process allows; False when it is a plain server after all."""
    guard.take_in()
    session = _session()
    if session:
        guard.role = "watch"
        for stream in dict.fromkeys(stream for stream in (sys.stdout, sys.__stdout__) if stream is not None):
            guard.undo.append(_fd.hook(stream, _recorder(guard, stream)))
        if sys.stderr is not None:
            sys.stderr.write(f"{_outlets.PREFIX}running under {session}: stray writes are recorded, nothing is taken\n")
        return True
    kind = marked(1)
    if kind:
        guard.role, guard.intake.packed, guard.fd1 = "worker", kind == "thread", _fd.identity(1)
        guard.opened.refuse(
            f"the stdout of process {os.getpid()} is its parent's channel for stray output, not a wire; start this "
            "server with a stdout of its own (stdout=subprocess.PIPE)"
        )
        guard.sink = _outlets.stderr_sink()
        guard.undo.append(guard.sink.close)
    return bool(kind)


def _session() -> str:
    """The name of what runs us when this process is not a server, else ""."""
    for module, name in (("_pytest", "pytest"), ("ipykernel", "ipykernel")):
        if module in sys.modules:
            return name
    return "an interactive session" if sys.flags.interactive or hasattr(sys, "ps1") else ""


def marked(fd: int) -> str:
    """``"thread"`` or ``"dup"`` when ``fd`` is the stray channel of a guarded ancestor, else ""."""
    kind, _, names = os.environ.get(_guard.MARKER, "").partition(":")
    found = _fd.identity(fd)
    return kind if found and "{}:{}".format(*found) in names.split(",") else ""


def _recorder(guard: "Guard", stream: "Any") -> "Callable[[str], int]":
    """Watch only: note the write, then let the stream have it."""
    write: Callable[..., int] = stream.__class__.write

    def recording(text: str) -> int:
        if text.strip():
            site = guard.sites.find(sys._getframe(1))
            guard.ledger.add(_ledger.StrayWrite("python", text.rstrip("\n"), site))
        return int(write(stream, text))

    return recording


def open_sink(guard: "Guard", out: "_fd.Identity", err: "_fd.Identity | None") -> _outlets.Sink:
    """Where the report goes when a log file is named, or when stdout and stderr are the same (before fd 1 moved)."""
    merged = out == err and _sinks.is_stream(guard.wire_fd)
    if out == err and getattr(sys.modules.get("mcp.server.stdio"), "_claims", None):
        raise GuardStateError(
            "the mcp server is already running and has pointed fd 1 at stderr, so the wire cannot be found any more; "
            "install the guard first, before the server runs"
        )
    path = guard.settings.log
    if not path and not merged:
        return _outlets.stderr_sink()
    sink = _open_log(path, out) if path else _sinks.nowhere()
    reason = "stdout and stderr are the same pipe"
    if merged and guard.mode == "strict":
        sink.write(f"{guard.intake.note(f'strict: {reason}; exit status {MERGED_STATUS}')}\n".encode())
        os._exit(MERGED_STATUS)  # anything said on stderr would be on the wire
    if merged:
        _fd.divert(sink.fd, 2, guard.undo)
        said = f"{reason}: stderr is kept off the wire too and shown here"
        sink.write(f"{guard.intake.note(said)}\n".encode())
    return sink


def _open_log(path: str, out: "_fd.Identity") -> _outlets.Sink:
    try:
        sink = _sinks.LogSink(path)
    except OSError as error:
        raise GuardStateError(
            f"log {path!r} (STDOUT_GUARD_LOG) cannot be opened for appending: {error.strerror}; a symlink is not "
            "followed; the guard was not installed"
        ) from error
    if sink.identity in (out, _fd.identity(1)) and sink.identity != _sinks.null_identity():
        sink.close()
        raise GuardStateError(f"log {path!r} (STDOUT_GUARD_LOG) is this process's stdout; the guard was not installed")
    return sink


def warn_late(found: object) -> None:
    """Somebody replaced ``sys.stdout`` before us: what they hold further down is kept off the wire, but not named."""
    import warnings

    warnings.warn(
        f"sys.stdout had been replaced by a {type(found).__name__} before the guard was installed: writes that reach "
        "what was there before are kept off the wire, but not named; install the guard first",
        LateInstallWarning,
        stacklevel=4,
    )
