"""How strays become records: what Python code writes, what comes through the pipes, lines that are not finished.

Rules: a record is latched before anything is printed or raised; no lock is taken, since a signal handler may print
while its thread prints; text of one thread is put together to lines, text of two threads never.
"""

import _thread
import os
import sys
from time import monotonic

from . import _fd, _report
from ._channel import TAIL_AFTER, Source, Tail
from ._ledger import StrayWrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from ._guard import Guard

NOT_SEEN = "this looks like a protocol frame, but {0}, so no client saw it; {1}"
REMEDY = {
    "python": ("module {} is not a named protocol writer", "set STDOUT_GUARD_WRITERS={} or write frames to guard.wire"),
    "main": ("the script itself wrote it to sys.stdout", "write frames to guard.wire"),
    "named": ("{} holds the stream from before (a default argument, an attribute?)", "write frames to guard.wire"),
    "child": ("a child wrote it", "start that child with stdout=guard.wire.fileno()"),
    "fd1": ("it was written to fd 1", "write frames to guard.wire"),
}
_HELPERS = ("callback", "show_help", "main", "parse_args", "print_help")


class Intake:
    """The way of every stray of one guard into its ledger and its report."""

    def __init__(self, guard: "Guard") -> None:
        self.guard, self.ledger, self.sites = guard, guard.ledger, guard.sites
        self.tails: dict[object, Tail] = {}
        self.render: Callable[[StrayWrite], str] = _report.as_text
        self.note: Callable[[str], str] = _report.note
        if guard.settings.log_format != "text":
            from . import _formats

            self.render, self.note = _formats.FORMATS[guard.settings.log_format]
        self.redactor: Callable[[str], str] | None = None
        if callable(guard.settings.redact):
            self.redactor = guard.settings.redact
        elif guard.settings.redact:
            from ._redact import Redactor

            self.redactor = Redactor()
        self.packed = self.judged = False  # packed: records are sent to the owner, through the channel
        self.verdict: BaseException | None = None
        if guard.mode == "strict":
            from . import _seldom

            self.refused = _seldom.refused
        self._local, self._told = _thread._local(), set[str]()

    def python_write(self, data: bytes, frame: "FrameType | None") -> None:
        """A write to ``sys.stdout`` by Python code; ``frame`` is the writer's."""
        if self.guard.pid != os.getpid():  # forked by C code, which runs no at-fork hooks
            from ._leave import forked

            forked(self.guard)
        if self.guard.role == "ended":
            os.write(1, data)
            return
        if self._for_a_person(data, frame):
            return
        if self.guard.mode == "strict" and not self.guard.finished:
            site = self.sites.find(frame)
            lines = data.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
            strays = [self._python(line, site) for line in lines]
            self.record(strays)
            raise self.refused(next((stray for stray in strays if stray.note), strays[0]))
        try:
            self._assemble(data, frame)
        except Exception as error:  # ours: a print that went well without us must not fail with us
            text = "[not shown]" if self.redactor is not None else data[:500].decode("utf-8", "backslashreplace")
            self.record([StrayWrite("fd1", text, note=f"not named: {type(error).__name__}: {error}")])

    def _assemble(self, data: bytes, frame: "FrameType | None") -> None:
        """Put the pieces of one thread together to lines, and record those that are finished."""
        key = getattr(self._local, "key", None)
        if key is None:
            key = self._local.key = object()  # not the thread's ident: those are recycled
        tail = self.tails.pop(key, None)
        if tail is None or b"\r" in data:
            tail = tail or Tail()
            tail.site = self.sites.find(frame)
        lines = tail.add(data)
        if lines:
            self.record([self._python(line, tail.site) for line in lines])
        if tail.data:
            if self.tails.setdefault(key, tail) is not tail:  # a signal handler printed meanwhile
                self.record([self._python(tail.take(), tail.site)])
            elif self.guard.channel is not None:
                self.guard.channel.wake()

    def deliver(self, source: Source, lines: list[bytes]) -> None:
        """Lines that came through a pipe: a child's, C code's, or finished records of our workers."""
        strays: list[StrayWrite] = []
        for line in lines:
            if _report.MARK in line:
                before, _, packed = line.partition(_report.MARK)
                stray = _report.unpack(_report.MARK + packed)
                if stray is not None:  # else somebody's text that only looks like a record
                    strays.append(stray)
                    line = before
                    if not line:
                        continue
            text = self._text(line)
            note = self._note(source.kind, text)
            strays.append(StrayWrite(source.kind, text, source.site, note, source.pid, source.program))
        self.record(strays)

    def _python(self, line: bytes, site: "Any") -> StrayWrite:
        text = self._text(line)
        named = "named" if site.module in self.guard.settings.writers else "python"
        note = self._note("main" if site.module == "__main__" else named, text, site.module)
        return StrayWrite("python", text, site, note)

    def _text(self, line: bytes) -> str:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        if "\r" in text:  # a progress bar that was redrawn: its last state
            text = text.rpartition("\r")[2]
        return text if self.redactor is None else self._redacted(text)

    def _redacted(self, text: str) -> str:
        """A redactor that fails, or prints, withholds the text: it lets nothing out and breaks nothing."""
        if getattr(self._local, "redacting", False):
            return "[not shown: printed by the redact callable itself]"
        self._local.redacting = True
        try:
            hidden: Any = self.redactor(text) if self.redactor is not None else text
            return hidden if isinstance(hidden, str) else f"[not shown: redact returned a {type(hidden).__name__}]"
        except Exception as error:
            return f"[not shown: redact failed: {type(error).__name__}]"
        finally:
            self._local.redacting = False

    @staticmethod
    def _note(kind: str, text: str, module: str = "") -> str:
        if not (text.startswith("Content-Length:") or (text.startswith("{") and '"jsonrpc"' in text[:400])):
            return ""
        return NOT_SEEN.format(*(part.format(module) for part in REMEDY[kind]))

    def record(self, strays: "list[StrayWrite]") -> None:
        """Latch, then show, in pieces that a pipe keeps whole."""
        for stray in strays:
            self.ledger.add(stray)
        batch = b""
        for stray in strays:
            if self.packed:
                line = _report.pack(stray)
            else:
                line = self.render(stray).encode("utf-8", "backslashreplace") + b"\n"
            if batch and len(batch) + len(line) > _report.BATCH:
                self._show(batch)
                batch = b""
            batch += line
        self._show(batch)

    def _show(self, data: bytes) -> None:
        if self.guard.role == "worker":
            try:
                os.write(1, data)
            except OSError:  # the owner is gone, and its channel with it
                return
        elif self.guard.sink is not None and data:
            self.guard.sink.write(data)

    def tell(self, text: str, once: str = "") -> None:
        """Something we have to say ourselves, on the same way as the report."""
        if self.guard.sink is not None and not (once and once in self._told):
            self._told.add(once)
            self.guard.sink.write(self.note(text).encode("utf-8", "backslashreplace") + b"\n")

    def _for_a_person(self, data: bytes, frame: "FrameType | None") -> bool:
        """Help and version output of argparse and click, before the first frame: not a server run, so not a stray."""
        if self.guard.role != "owner" or self.guard.finished or self.guard.opened.frames:
            return False
        if not _is_help(frame):
            return False
        self.guard.wire.pass_through(data)
        return True

    def _convicted(self) -> bool:
        guard = self.guard
        return guard.mode == "strict" and guard.role == "owner" and guard.pid == os.getpid() and self.ledger.total > 0

    def cut_off(self, error: BaseException) -> None:
        """The pump cannot go on (a foreign hand closed its pipe): fd 1 goes straight to stderr from now on."""
        guard = self.guard
        guard.channel = None
        if _fd.identity(1) == guard.fd1:
            _fd.point(guard.late_target, 1)
        guard.fd1 = _fd.identity(1)
        self.tell(f"the channel broke ({error}); fd 1 goes straight to stderr, unnamed, from now on")

    # ---- unfinished lines

    def idle(self) -> float | None:
        """Show the unfinished lines that are due; seconds until the next one is, None when there is none."""
        wait, now = None, monotonic()
        for key, tail in list(self.tails.items()):
            left = tail.touched + TAIL_AFTER - now
            if left > 0:
                wait = left if wait is None else min(wait, left)
            elif self.tails.pop(key, None) is tail:
                self.record([self._python(tail.take(), tail.site)])
        return wait

    def flush_tails(self) -> None:
        for key in list(self.tails):
            tail = self.tails.pop(key, None)
            if tail is not None:
                self.record([self._python(tail.take(), tail.site)])

    def flushed(self) -> None:
        """sys.stdout.flush(): nothing to do while the pump lives; at the interpreter's own last flush, the verdict."""
        if self.guard.channel is None or self.guard.finished:
            self.flush_tails()
        if self.guard.finished and sys.is_finalizing() and self._convicted() and not self.judged:
            self.judged = True  # raising here makes the interpreter exit with 120, after the user's files are flushed
            raise self.verdict or SystemExit(120)


def _is_help(frame: "FrameType | None") -> bool:
    """True for argparse's, optparse's or click's own help or version output (usage errors go to stderr)."""
    if frame is None:
        return False
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
