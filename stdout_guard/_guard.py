"""One owner of the wire: what stands between a process and its stdout, from install to verdict.

Rules: fd 1 moves first and Python's pending text is flushed after, so that it goes where strays go; fd 1 is never given
back at exit; a record is latched before anything is printed or raised; what failed half way is taken back whole.
"""

import _thread
import io
import os
import sys
from time import monotonic

from . import _callsite, _channel, _fd, _ledger, _stream, _wire
from .errors import GuardStateError, StrayWriteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ._settings import Settings

MERGED_STATUS = 78  # EX_CONFIG of sysexits.h: strict, and stdout and stderr are one pipe
MARKER = "_STDOUT_GUARD_CHANNEL"  # tells children which pipes are a guarded ancestor's channel: kind:dev:ino,dev:ino
REMEDY = {
    "python": "this looks like a protocol frame, but its module is not a named protocol writer, so no client saw it; "
    "set STDOUT_GUARD_WRITERS={module} or write frames to guard.wire",
    "child": "this looks like a protocol frame, but a child wrote it, so no client saw it; start that child with "
    "stdout=guard.wire.fileno()",
    "fd1": "this looks like a protocol frame, but it was written to fd 1, so no client saw it; write frames to guard.wire",
}


def marked(fd: int) -> str:
    """``"thread"`` or ``"dup"`` when ``fd`` is the stray channel of a guarded ancestor, else ""."""
    kind, _, names = os.environ.get(MARKER, "").partition(":")
    found = _fd.identity(fd)
    return kind if found and "{}:{}".format(*found) in names.split(",") else ""


def looks_like_frame(text: str) -> bool:
    return text.startswith("Content-Length:") or (text.startswith("{") and '"jsonrpc"' in text[:400])


class Guard:
    """The guard of this process. Made by :func:`stdout_guard.install`; one for a process, for its lifetime.

    ``mode`` is ``"redirect"`` or ``"strict"``; ``role`` says what this process is: ``"owner"`` of the wire, ``"worker"``
    (forked from or started by an owner: it names its strays, and the owner counts them), ``"watch"`` (pytest, ipykernel,
    an interactive session: nothing is taken, strays are recorded only) or ``"ended"`` after ``uninstall()``.
    """

    def __init__(self, settings: "Settings", installer: "FrameType | None") -> None:
        self.settings, self.mode, self.pid, self.role = settings, settings.mode, os.getpid(), "owner"
        self.ledger, self.sites = _ledger.Ledger(), _callsite.CallSites(installer)
        self.undo, self.tails = _fd.Undo(), dict[object, _channel.Tail]()
        self.sink: _channel.Sink | None = None
        self.channel: _channel.Channel | None = None
        self.children_piped = True
        self.finished = self.judged = self.heirs = False
        self.fd1: _fd.Identity | None = None
        self._local, self._told = _thread._local(), set[str]()
        self._render = _ledger.FORMATS[settings.log_format]
        self.redactor = settings.redact if callable(settings.redact) else None
        self.marks: list[_fd.Identity] = []
        self._stdin: io.BufferedReader | None = None
        self.stdin_fd, self._stdin_identity = -1, None
        self.bottom = _stream.StrayRaw(self, self.python_write, self.flushed)
        self.stream = _stream.text_over(self.bottom)
        self.original: Any = sys.stdout
        self._wire = _wire.Wire(-1, self.check_hands, "no wire was taken in this process")
        self._text_wire: io.TextIOWrapper | None = None

    def set_wire(self, wire: _wire.Wire) -> None:
        self._wire = wire

    def mark(self) -> None:
        """Leave the identities of our pipes where children can see them."""
        kind = "thread" if self.channel is not None else "dup"
        os.environ[MARKER] = kind + ":" + ",".join(f"{device}:{inode}" for device, inode in self.marks)

    # ---- what a server uses

    @property
    def wire(self) -> io.RawIOBase:
        """The real stdout, binary: one write() is one unit. In a worker every write raises GuardStateError."""
        if self.role == "watch":
            from ._off import GUARD

            return GUARD.wire
        return self._wire

    @property
    def wire_busy(self) -> bool:
        return self._wire.busy

    @property
    def text_wire(self) -> io.TextIOWrapper:
        """The wire as UTF-8 text, for SDKs that want a text stream; ``.buffer`` is :attr:`wire`."""
        if self._text_wire is None:
            self._text_wire = _wire.text_over(self._wire)
        return self._text_wire

    def take_stdin(self) -> io.BufferedReader:
        """The client's bytes, for this caller alone: from now on fd 0 is the null device for children and input()."""
        if self._stdin is None:
            from . import _stdin

            if self.role != "owner":
                return sys.stdin.buffer  # type: ignore[return-value]
            self.stdin_fd, self._stdin = _stdin.take(self.undo)
            self._stdin_identity = _fd.identity(self.stdin_fd)
        return self._stdin

    @property
    def stdin_taken(self) -> bool:
        return self._stdin is not None

    @property
    def strays(self) -> "tuple[_ledger.StrayWrite, ...]":
        """The newest 1,000 stray writes, oldest first."""
        return tuple(self.ledger.newest)

    @property
    def counts(self) -> _ledger.Counts:
        """How many strays, from where, and how much of the report nobody read: a frozen snapshot."""
        sink = self.sink
        return self.ledger.snapshot(sink.lost_lines if sink else 0, sink.lost_bytes if sink else 0)

    def verify(self) -> tuple[str, ...]:
        """Look for foreign hands on our descriptors and on ``sys.stdout``; repairs fd 1. Returns what was found wrong."""
        found = [*self.check_hands()]
        if self.role == "owner" and _fd.identity(self._wire.fileno()) != self._wire.identity:
            found.append(f"the wire's descriptor {self._wire.fileno()} was closed or replaced by a foreign hand")
        if self.role in ("owner", "worker") and not self._ours(sys.stdout):
            kind = type(sys.stdout).__name__
            found.append(f"sys.stdout was replaced by a {kind}: what is written there is not named, only kept off the wire")
        return tuple(found)

    def adopt_after_fork(self) -> None:
        """Call in the server before it forks its daemon self: the children of coming forks own the wire too, until the
        first frame is sent or this is called in the child. Raises GuardStateError where there is no wire to hand on."""
        if self.role != "owner":
            raise GuardStateError(
                f"process {os.getpid()} holds no wire to adopt (it was closed at the fork, so that the client sees the end "
                "of file in time); call guard.adopt_after_fork() in the server before it forks"
            )
        self.heirs, self._wire.inherited = not self._wire.inherited, False

    # ---- strays come in

    def python_write(self, data: bytes, frame: "FrameType") -> None:
        """A write to ``sys.stdout`` by Python code; ``frame`` is the writer's."""
        if self.role == "ended":
            os.write(1, data)
            return
        if self.pid != os.getpid():  # forked by C code, which runs no at-fork hooks
            self.after_fork()
        if self._for_a_person(data, frame):
            return
        if self.mode == "strict" and not self.finished:
            self._refuse(data, self.sites.find(frame), frame)
        key = self._key()
        tail = self.tails.pop(key, None)
        if tail is None or b"\r" in data:
            tail = tail or _channel.Tail()
            tail.site = self.sites.find(frame)
        for line in tail.add(data):
            self._named(line, tail.site, frame)
        if tail.data:
            if self.tails.setdefault(key, tail) is not tail:  # a signal handler printed meanwhile
                self._named(tail.take(), tail.site, frame)
            elif self.channel is not None:
                self.channel.wake()

    def _key(self) -> object:
        key = getattr(self._local, "key", None)
        if key is None:
            key = self._local.key = object()  # not the thread's ident: those are recycled
        return key

    def _text(self, line: bytes) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode("utf-8", "backslashreplace")
        text = text.rstrip("\r")
        if "\r" in text:  # a progress bar that was redrawn: its last state
            text = text.rpartition("\r")[2]
        return self.redactor(text) if self.redactor is not None else text

    def _python(self, line: bytes, site: "Any", frame: "FrameType | None") -> _ledger.StrayWrite:
        text, note = self._text(line), ""
        if looks_like_frame(text):
            module = frame.f_globals.get("__name__", "?") if frame is not None else "?"
            note = REMEDY["python"].format(module=module)
        return _ledger.StrayWrite("python", text, site.file, site.line, site.function, site.caller, note=note)

    def _named(self, line: bytes, site: "Any", frame: "FrameType | None" = None) -> None:
        self.record([self._python(line, site, frame)])

    def _refuse(self, data: bytes, site: "Any", frame: "FrameType") -> None:
        stray = self._python(data.rstrip(b"\r\n"), site, frame)
        self.record([stray])
        note = stray.note or "stdout belongs to the protocol: print to sys.stderr, or write frames to guard.wire"
        shown = _ledger.cut(_ledger.escape(stray.text), 600)
        raise StrayWriteError(f"stray write to stdout at {stray.where}: {shown!r}; {note}", stray)

    def deliver(self, source: _channel.Source, lines: list[bytes]) -> None:
        """Lines that came through a pipe: a child's, C code's, or finished records of our workers."""
        strays: list[_ledger.StrayWrite] = []
        for line in lines:
            if _ledger.MARK in line:
                line, _, record = line.partition(_ledger.MARK)
                stray = _ledger.unpack(_ledger.MARK + record)
                strays += [stray] if stray is not None else []
                if not line:
                    continue
            text = self._text(line)
            note = REMEDY[source.kind] if looks_like_frame(text) else ""
            site = {"caller": source.site, "pid": source.pid, "program": source.program} if source.pid else {}
            strays.append(_ledger.StrayWrite(source.kind, text, note=note, **site))  # type: ignore[arg-type]
        self.record(strays)

    def record(self, strays: "list[_ledger.StrayWrite]") -> None:
        """Latch, then show, in pieces that a pipe keeps whole."""
        for stray in strays:
            self.ledger.add(stray)
        if self.role == "watch" or self.sink is None:
            return
        batch = b""
        worker = self.role == "worker"
        for stray in strays:
            if worker and self.children_piped:
                line = _ledger.pack(stray)
            else:
                line = self._render(stray).encode("utf-8", "backslashreplace") + b"\n"
            if batch and len(batch) + len(line) > _channel.BATCH:
                self._show(batch)
                batch = b""
            batch += line
        if batch:
            self._show(batch)

    def _show(self, data: bytes) -> None:
        if self.role != "worker":
            assert self.sink is not None
            self.sink.write(data)
            return
        try:
            os.write(1, data)
        except OSError:  # the owner is gone, and its channel with it
            return

    def tell(self, text: str, once: str = "") -> None:
        """Something we have to say ourselves, on the same way as the report."""
        if (once and once in self._told) or self.sink is None:
            return
        self._told.add(once)
        if self.settings.log_format == "json":
            self.sink.write(_ledger.note_json(text).encode() + b"\n")
        else:
            self.sink.write(f"{_ledger.PREFIX}{_ledger.cut(_ledger.escape(text))}\n".encode("utf-8", "backslashreplace"))

    def _for_a_person(self, data: bytes, frame: "FrameType") -> bool:
        """Help and version output of argparse and click, before the first frame: not a server run, so not a stray."""
        if self._wire.frames or self.role != "owner" or self.finished or not _callsite.is_help(frame):
            return False
        self._wire.pass_through(data)
        return True

    # ---- unfinished lines

    def idle(self) -> float | None:
        """Show the unfinished lines that are due; seconds until the next one is, None when there is none."""
        wait, now = None, monotonic()
        for key, tail in list(self.tails.items()):
            left = tail.touched + _channel.TAIL_AFTER - now
            if left > 0:
                wait = left if wait is None else min(wait, left)
            elif self.tails.pop(key, None) is tail:
                self._named(tail.take(), tail.site)
        return wait

    def flush_tails(self) -> None:
        while self.tails:
            try:
                _, tail = self.tails.popitem()
            except KeyError:
                return
            self._named(tail.take(), tail.site)

    def flushed(self) -> None:
        """sys.stdout.flush(): nothing to do while the pump lives; at the interpreter's own last flush, the verdict."""
        if self.channel is None or self.finished:
            self.flush_tails()
        if self.finished and sys.is_finalizing() and self.convicted and not self.judged:
            self.judged = True  # makes the interpreter exit with 120, after the user's files are flushed
            raise StrayWriteError(
                f"strict: {self.ledger.total} stray writes to stdout in this run; exit status 120", self.strays[-1]
            )

    @property
    def convicted(self) -> bool:
        """True when strict mode must end this process with status 120."""
        return self.mode == "strict" and self.role == "owner" and self.pid == os.getpid() and self.ledger.total > 0

    # ---- foreign hands, fork

    def _ours(self, stream: object) -> bool:
        for _ in range(8):
            if stream is self.stream or stream is self.bottom or stream is self.original:
                return True
            stream = getattr(stream, "buffer", None) or getattr(stream, "stream", None) or getattr(stream, "wrapped", None)
        return False

    def check_hands(self) -> tuple[str, ...]:
        """Before each frame: is fd 1 still diverted? If it was closed, or made the wire again, it is diverted anew."""
        now = _fd.identity(1)
        if now == self.fd1 or self.role != "owner" or self.finished:
            return ()
        if now is not None and now != self._wire.identity:
            return ()  # pointed elsewhere on purpose, for a while: no harm to the wire
        _fd.point(self.channel.write_fd if self.channel is not None else self.late_target, 1)
        did = "closed" if now is None else "pointed at the wire again"
        found = f"fd 1 was {did} by a foreign hand (a dup2 of a descriptor saved earlier?); it is diverted again"
        self.tell(found, once="hands")
        return (found,)

    @property
    def late_target(self) -> int:
        """Where fd 1 goes when there is no channel."""
        return self.sink.fd if self.sink is not None and self.sink.path else 2

    def channel_failed(self, error: BaseException) -> None:
        """The pump cannot go on (a foreign hand closed its pipe): fd 1 goes straight to stderr from now on."""
        self.channel = None
        if _fd.identity(1) == self.fd1:
            _fd.point(self.late_target, 1)
        self.fd1 = _fd.identity(1)
        self.tell(f"the channel broke ({error}); fd 1 goes straight to stderr, unnamed, from now on")

    def after_fork(self) -> None:
        """In a forked child: hold nothing that keeps the client from seeing the end of file, own nothing."""
        self.pid = os.getpid()
        self.tails.clear()
        if self.role != "owner":
            return
        if self.heirs and not (self._wire.inherited and self._wire.frames):
            self._wire.adopt()
            if self.channel is not None:
                self.channel.restart()
            return
        self.role, owner = "worker", os.getppid()
        self._wire.refuse(_wire.forked(owner))
        self._wire.drop()
        if self.stdin_fd >= 0 and _fd.identity(self.stdin_fd) == self._stdin_identity:
            os.close(self.stdin_fd)
        self.children_piped = self.channel is not None
        if self.channel is not None:
            self.channel.forget()
            self.channel = None
