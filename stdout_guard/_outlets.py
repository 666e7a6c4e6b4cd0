"""The two outlets of a guarded process: frames to the client, strays to the report; and how a process leaves.

The wire: one write is one unit, from any thread, all of it or none. No user-space buffer, so nothing is flushed twice
after a fork or lost at exit; poison first and absolve last, so that an interrupt between two bytecodes can never let a
torn frame be followed by another; a signal handler that writes while a write is under way is queued behind it;
``close()`` is inert, since SDKs drop wrappers that close what they hold (modelcontextprotocol/python-sdk#1933).

The report: a record is latched before anything is printed or raised; no lock is taken, since a signal handler may print
while its thread prints; text of one thread is put together to lines, text of two threads never. Every line is safe to
show on a terminal or in a CI log, and short enough (PIPE_BUF) that one write() keeps it whole. A reader that is merely
slow is waited for (progress within a second counts as alive); a dead one never stops the server: lines are dropped,
counted, and said so when it is back. No flag of a shared description is changed, no Python stream object written to.

Leaving: hooks that cannot be unregistered are registered once for the process and ask for the current guard; the step
at exit is registered first, so that it runs last, and fd 1 is never given back there: libc and late handlers still
write. One file, loaded once fd 1 is diverted: each costs the cold start 1 %, and every server needs all of this.
"""

import _thread
import os
import select
import stat
import sys
import time
from os import getpid
from time import monotonic

from . import _fd, _guard
from ._fd import CHUNK, PATIENCE, TAIL_AFTER, Source
from ._ledger import FIELDS, StrayWrite, thaw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FrameType
    from typing import Any

    from typing_extensions import Buffer

    from ._guard import Guard
    from ._ledger import Site

# ---- the wire

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


# ---- the report: its forms

PREFIX = "stdout-guard: "
BATCH = 4096  # PIPE_BUF: one write of so much to a pipe is kept whole, or refused whole
LINE_BYTES = 3000  # a longer text is cut: with its prefix a line must fit PIPE_BUF (4096)
HEAD, TAIL = 500, 200  # characters kept of a text that is cut
MARK = b"\x1estdout-guard\x1f"  # opens a finished record that a worker process sends through the channel


def escape(text: str) -> str:
    """``text`` with every control, format and line-separating character spelled out, and no CI command left alive."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\t\xa0\u3000" else _spell(c) for c in text)
    if "##" in text:  # Azure and GitHub read "##[...]" and "##vso[...]" anywhere in a line
        for opener in ("##[", "##vso[", "##teamcity["):
            text = text.replace(opener, "#\\x23" + opener[2:])
    return text


def _spell(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str, limit: int = LINE_BYTES) -> str:
    """``text``, its middle replaced by a count when it needs more than ``limit`` bytes of UTF-8."""
    if len(text) * 4 <= limit or len(text.encode("utf-8", "surrogatepass")) <= limit:
        return text
    head, tail = min(HEAD, limit // 6), min(TAIL, limit // 6)
    return f"{text[:head]} ...[{len(text) - head - tail} of {len(text)} characters cut]... {text[-tail:]}"


def as_text(stray: StrayWrite) -> str:
    """One line for people."""
    note = f"{stray.note}: " if stray.note else ""
    return f"{PREFIX}{cut(escape(stray.where), 900)}: {note}{cut(escape(stray.text))}"


def note(text: str) -> str:
    """Something that the guard itself has to say."""
    return PREFIX + cut(escape(text))


def pack(stray: StrayWrite) -> bytes:
    """A record as the line a worker process sends to the owner."""
    values = [cut(escape(str(getattr(stray, name))), 300) for name in FIELDS[:-1]]
    packed = "\x1f".join([*values, cut(escape(stray.text), 1500)])
    return MARK + packed.encode("utf-8", "backslashreplace") + b"\n"


def unpack(line: bytes) -> "StrayWrite | None":
    """The record in a line of :func:`pack`, or None when it is not one."""
    parts = line[len(MARK) :].decode("utf-8", "replace").split("\x1f", len(FIELDS) - 1)
    if len(parts) != len(FIELDS) or not all(n.isascii() and n.isdigit() and len(n) < 12 for n in (parts[2], parts[5])):
        return None
    return thaw((*parts[:2], int(parts[2]), *parts[3:5], int(parts[5]), *parts[6:], time.time()))


# ---- its way out


class Sink:
    """A bounded way out: writes whole lines, waits for a slow reader, drops and counts when nobody reads."""

    path = ""  # of a log file

    def __init__(self, fd: int, put: "Callable[[bytes], int]") -> None:
        self.fd, self.put = fd, put
        self.identity, self.marked = _fd.identity(fd), 0
        self.moved = 0  # writes that went well: a sign of life for whoever waits meanwhile
        self.stalled = self.torn = False
        self.lost_lines = self.lost_bytes = self.told_lines = self.told_bytes = 0
        self.release: Callable[[], object] | None = None
        self.note: Callable[[str], str] = note  # how it says something itself

    def write(self, data: bytes) -> bool:
        """Write finished lines (at most BATCH bytes to stay whole beside other writers); False when they were lost."""
        if self.stalled and ready(self.fd, 0):  # only what a reader took makes room for a whole batch
            self.stalled = False
        if not self.stalled:
            self.confess()
            if self._write(data):
                return True
        self.lost_lines += data.count(b"\n")
        self.lost_bytes += len(data)
        return False

    def confess(self) -> None:
        """Say what was dropped since it was last said, if anything."""
        lines, size = self.lost_lines, self.lost_bytes
        if lines == self.told_lines:
            return
        lost = f"{lines - self.told_lines} lines ({size - self.told_bytes} bytes) dropped"
        if self._write(self.note(f"{lost}: nobody read them for {PATIENCE:g} s").encode() + b"\n"):
            self.told_lines, self.told_bytes = lines, size

    def _write(self, data: bytes) -> bool:
        if not self.standing():
            return False
        if self.torn:
            data = b"\n" + data
        since, moved = 0.0, -1
        while data:
            try:
                written = self.put(data)
            except BlockingIOError:
                now = monotonic()
                if moved != self.moved:
                    since, moved = now, self.moved
                if now > since + PATIENCE:
                    self.stalled = True
                    return False
                ready(self.fd, 0.02)  # short: a socket says "ready" only once three quarters of it are free
                continue
            except OSError:  # the reader is gone (EPIPE), the disk is full, a foreign hand closed it
                return False
            self.moved += 1
            self.torn = written < len(data)
            data = data[written:]
        return True

    def standing(self) -> bool:
        """False when this descriptor is no longer ours and cannot be had anew."""
        if (self.marked and owned(self.fd, self.marked)) or _fd.identity(self.fd) == self.identity:
            return True
        if _fd.identity(2) != self.identity:  # our copy was closed, its number reused, and stderr is not what it was
            return False
        fresh = stderr_sink()
        self.fd, self.put, self.release, self.marked = fresh.fd, fresh.put, fresh.release, fresh.marked
        return True

    def close(self) -> None:
        if self.release is not None:
            self.release()
        _fd.close(self.fd, self.identity)


def ready(fd: int, seconds: float) -> bool:
    """True when a write to ``fd`` would not block. A poll object of its own: a shared one raises when reentered."""
    if not hasattr(select, "poll"):
        return bool(select.select([], [fd], [], seconds)[1])
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(int(seconds * 1000)))


def plain(fd: int) -> "Callable[[bytes], int]":
    return lambda data: os.write(fd, data)


def reopened(fd: int, flags: int) -> "int | None":
    """The FIFO behind ``fd`` opened anew, with flags of its own; None where that cannot be had (setuid, no /proc)."""
    try:
        low = os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return _fd.private(low, _fd.HIGH)
    finally:
        os.close(low)


def stderr_sink() -> Sink:
    """A sink on what fd 2 is now, in the way that cannot block for its kind, and without touching its flags."""
    mode = os.fstat(2).st_mode
    if stat.S_ISFIFO(mode):
        fifo, pid = reopened(2, os.O_WRONLY | os.O_NONBLOCK), getpid()
        if fifo is not None:
            sink = Sink(fifo, plain(fifo))
            sink.marked = pid if own(fifo, pid) else 0
            return sink
    from . import _sinks

    return _sinks.over_stderr(mode)


# ---- its way in


NOT_SEEN = "this looks like a protocol frame, but {0}, so no client saw it; {1}"
REMEDY = {
    "python": ("module {} is not a named protocol writer", "set STDOUT_GUARD_WRITERS={} or write frames to guard.wire"),
    "main": ("the script itself wrote it to sys.stdout", "write frames to guard.wire"),
    "named": ("{} holds the stream from before (a default argument, an attribute?)", "write frames to guard.wire"),
    "child": ("a child wrote it", "start that child with stdout=guard.wire.fileno()"),
    "fd1": ("it was written to fd 1", "write frames to guard.wire"),
}
HELP = ("argparse", "optparse", "click", "typer", "rich")  # packages that write help and version output
PLAIN = bytes(range(32, 127)) + b"\t\n"  # bytes that need no escape


class Intake:
    """The way of every stray of one guard into its ledger and its report."""

    def __init__(self, guard: "Guard") -> None:
        self.guard, self.ledger, self.sites = guard, guard.ledger, guard.sites
        self.tails: dict[Source, Source] = {}  # by thread; a key is touched when its line was shown unfinished
        self.render: Callable[[StrayWrite], str] = as_text
        self.note: Callable[[str], str] = note
        if guard.settings.log_format != "text":
            from . import _formats

            self.render, self.note = _formats.FORMATS[guard.settings.log_format]
        self.redactor: Callable[[str], str] | None = None
        if guard.settings.redact:
            from . import _redact

            self.redactor = _redact.withholding(guard.settings.redact)
        self.packed = self.judged = self.began = False  # packed: records are sent to the owner, through the channel
        self.verdict: BaseException | None = None
        if guard.mode == "strict":
            from . import _seldom

            self.refuse = _seldom.refuse
        self._local, self._told, self._frames = _thread._local(), set[str](), 0
        self._innocent: CodeType | None = None  # the last that wrote no help

    def python_write(self, data: bytes, frame: "FrameType | None") -> None:
        """A write to ``sys.stdout`` by Python code; ``frame`` is the writer's."""
        guard = self.guard
        if guard.pid != getpid():  # forked by C code, which runs no at-fork hooks
            forked(guard)
        if guard.role != "owner" and (
            guard.role == "ended" or (guard.role == "worker" and _fd.identity(1) != guard.fd1)
        ):
            os.write(1, data)  # not our channel: a worker that was given a stdout of its own
            return
        if not self.began and self._for_a_person(data, frame):
            return
        if guard.mode == "strict" and not guard.finished:
            self.refuse(self, data, frame)
        try:
            self._assemble(data, frame)
        except Exception as error:  # ours: a print that went well without us must not fail with us
            text = "[not shown]" if self.redactor is not None else data[:500].decode("utf-8", "backslashreplace")
            self.record([StrayWrite("fd1", text, note=f"not named: {type(error).__name__}: {error}")])

    def _assemble(self, data: bytes, frame: "FrameType | None") -> None:
        """Put the pieces of one thread together to lines, and record those that are finished."""
        try:
            key = self._local.key
        except AttributeError:
            key = self._local.key = Source(None)  # not the thread's ident: those are recycled
        tail = self.tails.pop(key, None)
        if tail is None:
            shown, key.touched = key.touched, 0.0
            if shown and data == b"\n":
                return  # the end of a line that was shown unfinished
            tail = Source(self.sites.find(frame))
        elif 13 in data:  # a carriage return
            tail.site = self.sites.find(frame)
        lines = tail.take() if data == b"\n" else tail.add(data)
        if lines is not None:
            self.record([self.python(line, tail.site) for line in lines.split(b"\n")])
        if not tail.data:
            return
        if self.tails.setdefault(key, tail) is not tail:  # a signal handler printed meanwhile
            self.record([self.python(tail.take(), tail.site)])
        elif (channel := self.guard.channel) is not None and not channel.ticking:
            channel.wake()

    def deliver(self, source: Source, block: bytes) -> None:
        """Lines that came through a pipe: a child's, C code's, or finished records of our workers."""
        try:
            if len(block) < BATCH:
                self._deliver(source, block)
            else:
                if not self._plainly(source, block):
                    self._deliver(source, block)
                self._make_way()
        except Exception as error:  # ours: the pump must go on
            count = block.count(b"\n") + 1
            self.record([StrayWrite("fd1", f"[{count} lines not shown]", note=f"{type(error).__name__}: {error}")])

    def _plainly(self, source: Source, block: bytes) -> bool:
        """A flood of lines none of which needs care is shown without a look at each, ten times as fast; False when one
        needs it."""
        if self.render is not as_text or self.redactor is not None or block.translate(None, PLAIN):
            return False
        lines = block.split(b"\n")
        if len(max(lines, key=len)) > LINE_BYTES or b"##" in block or b'"jsonrpc"' in block or b"Content-L" in block:
            return False
        like = StrayWrite(source.kind, "", source.site, "", source.pid, source.program)
        self.ledger.add_lines(like, lines)
        lead = as_text(like).encode("utf-8", "backslashreplace")
        shown, at = lead + block.replace(b"\n", b"\n" + lead) + b"\n", 0
        while at < len(shown):
            end = shown.rfind(b"\n", at, at + BATCH) + 1
            self._show(shown[at:end])
            at = end
        return True

    def _make_way(self) -> None:
        """While frames flow: read less at once, and sleep. A thread that waits for the interpreter loses every race for
        it against one that never does, and is let in after 5 ms only."""
        frames, channel = self.guard.opened.frames, self.guard.channel
        flow, self._frames = frames != self._frames, frames
        if channel is not None:
            channel.chunk = CHUNK // 4 if flow else CHUNK
        if flow:
            time.sleep(0.00005)

    def _deliver(self, source: Source, block: bytes) -> None:
        strays: list[StrayWrite] = []
        for line in block.split(b"\n"):
            if MARK in line:
                before, _, packed = line.partition(MARK)
                stray = unpack(MARK + packed)
                if stray is not None:  # else somebody's text that only looks like a record
                    strays.append(stray)
                    line = before
                    if not line:
                        continue
            text = self._text(line)
            note = self._note(source.kind, text)
            strays.append(StrayWrite(source.kind, text, source.site, note, source.pid, source.program))
        self.record(strays)

    def python(self, line: bytes, site: "Site | None") -> StrayWrite:
        """The record of a line that Python code wrote at ``site``."""
        text = self._text(line)
        module = site[4] if site is not None else ""
        named = "named" if module in self.guard.settings.writers else "python"
        note = self._note("main" if module == "__main__" else named, text, module)
        return StrayWrite("python", text, site, note, self.guard.pid)

    def _text(self, line: bytes) -> str:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        if "\r" in text:  # a progress bar that was redrawn: its last state
            text = text.rpartition("\r")[2]
        return text if self.redactor is None else self.redactor(text)

    @staticmethod
    def _note(kind: str, text: str, module: str = "") -> str:
        if not text.startswith(("{", "Content-Length:")) or (text[0] == "{" and '"jsonrpc"' not in text[:400]):
            return ""
        return NOT_SEEN.format(*(part.format(module) for part in REMEDY[kind]))

    def record(self, strays: "list[StrayWrite]") -> None:
        """Latch, then show, in pieces that a pipe keeps whole."""
        for stray in strays:
            self.ledger.add(stray)
        batch = b""
        for stray in strays:
            line = pack(stray) if self.packed else self.render(stray).encode("utf-8", "backslashreplace") + b"\n"
            if batch and len(batch) + len(line) > BATCH:
                self._show(batch)
                batch = b""
            batch += line
        self._show(batch)

    def _show(self, data: bytes) -> None:
        guard = self.guard
        if guard.role == "worker":
            try:
                os.write(1, data)
            except OSError:  # the owner is gone, and its channel with it
                return
        elif guard.sink is not None and data:
            guard.sink.write(data)

    def tell(self, text: str, once: str = "") -> None:
        """Something we have to say ourselves, on the same way as the report."""
        if self.guard.sink is not None and not (once and once in self._told):
            self._told.add(once)
            self.guard.sink.write(self.note(text).encode("utf-8", "backslashreplace") + b"\n")

    def _began(self) -> bool:
        """True once frames go either way, or where there is no wire at all."""
        guard = self.guard
        return guard.role != "owner" or bool(guard.opened.frames) or guard.opened.lent or guard.stdin is not None

    def _for_a_person(self, data: bytes, frame: "FrameType | None") -> bool:
        """Help and version output of argparse and click, before the first frame: not a server run, so not a stray."""
        if frame is None or frame.f_code is self._innocent:
            return False
        self.began = self._began() or self.guard.finished
        if self.began or str(frame.f_globals.get("__name__")).partition(".")[0] not in HELP:
            self._innocent = frame.f_code
            return False
        from ._seldom import is_help

        if not is_help(frame):
            return False
        self.guard.wire.pass_through(data)
        return True

    def _convicted(self) -> bool:
        guard = self.guard
        return guard.mode == "strict" and guard.role == "owner" and guard.pid == os.getpid() and self.ledger.total > 0

    def cut_off(self, error: BaseException) -> None:
        """The pump cannot go on."""
        from ._seldom import cut_off

        cut_off(self.guard, error)

    # ---- unfinished lines

    def idle(self) -> "float | None":
        """Show the unfinished lines that are due; seconds until the next one is, None when there is none."""
        wait, now = None, monotonic()
        for key, tail in list(self.tails.items()):
            left = tail.touched + TAIL_AFTER - now
            if left > 0:
                wait = left if wait is None else min(wait, left)
            else:
                self._show_tail(key)
        return wait

    def flush_tails(self) -> None:
        for key in list(self.tails):
            self._show_tail(key)

    def _show_tail(self, key: Source) -> None:
        tail = self.tails.pop(key, None)
        if tail is not None:
            key.touched = tail.touched
            self.record([self.python(tail.take(), tail.site)])

    def flushed(self) -> None:
        """sys.stdout.flush(): nothing to do while the pump lives; at the interpreter's own last flush, the verdict."""
        if self.guard.channel is None or self.guard.finished:
            self.flush_tails()
        if self.guard.finished and sys.is_finalizing() and self._convicted() and not self.judged:
            self.judged = True  # raising here makes the interpreter exit with 120, after the user's files are flushed
            raise self.verdict or SystemExit(120)


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
    if guard.role == "owner":
        _last_step(guard)
    else:
        guard.intake.flush_tails()
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
    if channel is not None:
        channel.stop(PATIENCE + 0.5)
    guard.intake.flush_tails()  # not before: a redactor that the pump runs may be half way through a print
    if channel is None:
        return
    channel.drain()
    let_go(channel, target)
    for source in list(channel.sources.values()):
        if not _ended(source.fd) and _fd.identity(source.fd) == source.identity:
            from ._seldom import hand_over

            hand_over(source.fd, target)
        else:
            _fd.close(source.fd, source.identity)


def let_go(channel: _fd.Channel, target: int) -> None:
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
