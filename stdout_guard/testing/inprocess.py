"""Stray writes of code that runs inside a test: recorded where they happen, whatever pytest captures.

Rules: what pytest shows does not change; Python writes are named at the write, children by the line that started them,
the rest of what reaches descriptor 1 is unnamed; a record is kept before anything is raised; all is put back after each
phase of a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, cast

from stdout_guard import _fd
from stdout_guard._fd import StrayRaw, hook, text_over
from stdout_guard._ledger import CallSites, StrayWrite
from stdout_guard.errors import StrayWriteError
from stdout_guard.testing.safe import cut, plain, quote
from stdout_guard.testing.scratch import Child, program_of, scratch

if TYPE_CHECKING:
    from stdout_guard._ledger import Site

__tracebackhide__ = True  # pytest shows the line that wrote, not how it was caught
setattr(_fd, "__tracebackhide__", True)  # noqa: B010
MARK = b"\x1estdout-guard-test\x1f"  # opens the record of a forked worker on descriptor 1
CURE = "print to sys.stderr, or let this test write: @pytest.mark.allow_stray_writes('the reason')"
_STDOUT_ARGUMENT = 4  # of subprocess.Popen: place of stdout among the positional ones


class Watch:
    """Watches one test of the project in ``root``.

    ``raising`` makes a Python write raise StrayWriteError at its line, after it was recorded; ``capturing`` says that
    the test captures descriptor 1 for itself.
    """

    def __init__(self, root: str, raising: bool, capturing: bool) -> None:
        self.raising = raising
        self._descriptors = not capturing
        self._found: list[StrayWrite] = []
        self._sites = _sites(root)
        self._pid = os.getpid()
        self._children: list[Child] = []
        self._fd1: IO[bytes] | None = None
        self._fd1_read = 0
        self._known: list[tuple[int, int]] = []
        self._saved = -1
        self._onward: Any = sys.stdout
        self._lines: dict[int, tuple[bytes, Site]] = {}

    # ---- what was found

    @property
    def strays(self) -> list[StrayWrite]:
        """All so far, oldest first; those of descriptors and children are read now."""
        self._collect()
        return list(self._found)

    def clear(self) -> None:
        """Forget what was found so far."""
        self._collect()
        self._found.clear()

    # ---- one phase of a test

    @contextlib.contextmanager
    def phase(self) -> Generator[None]:
        """Watch while the body runs."""
        with contextlib.ExitStack() as undo:
            if self._descriptors:
                self._divert(undo)
                self._wrap_popen(undo)
            self._stand_in(undo)
            try:
                yield
            finally:
                self._end_lines()
                self._collect()

    def _stand_in(self, undo: contextlib.ExitStack) -> None:
        """A stream of ours as sys.stdout; who took hold of the one before is heard too."""
        before = self._onward = sys.stdout
        bottom = StrayRaw(None, self._took, lambda: None)
        ours = text_over(bottom)
        undo.callback(hook(before, text_over(bottom).write))
        sys.stdout = ours

        def back() -> None:
            if sys.stdout is ours:  # else the capture was suspended meanwhile and has its own way back
                sys.stdout = before

        undo.callback(back)

    def _divert(self, undo: contextlib.ExitStack) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        try:
            self._saved = os.dup(1)
        except OSError:  # descriptor 1 is closed: nothing can arrive there
            return
        self._fd1, self._fd1_read = scratch(), 0
        os.dup2(self._fd1.fileno(), 1)
        undo.callback(self._give_back)

    def _give_back(self) -> None:
        self._collect()
        os.dup2(self._saved, 1)
        os.close(self._saved)
        self._saved = -1
        if self._fd1 is not None:
            self._fd1.close()
            self._fd1 = None

    def _wrap_popen(self, undo: contextlib.ExitStack) -> None:
        original: Callable[..., None] = subprocess.Popen.__init__
        watch = self

        def started(popen: Any, *args: Any, **kwargs: Any) -> None:
            if len(args) > _STDOUT_ARGUMENT or kwargs.get("stdout") is not None or watch._pid != os.getpid():
                return original(popen, *args, **kwargs)
            site = watch._sites.find(sys._getframe(1))
            child = Child(program_of(args, kwargs), f"{site[0]}:{site[1]}", scratch())
            watch._children.append(child)
            original(popen, *args, **{**kwargs, "stdout": child.output.fileno()})
            child.pid = popen.pid
            popen.stdout = None
            return None

        subprocess.Popen.__init__ = started  # type: ignore[method-assign, assignment]
        undo.callback(setattr, subprocess.Popen, "__init__", original)

    # ---- Python writes

    def _took(self, data: bytes, frame: FrameType | None) -> None:
        """A write by Python code; the place that began a line has written it."""
        if not _of_protocol(frame):
            site = self._sites.find(frame)
            if self.raising and data.strip():
                self._refuse(data, site)
            key = threading.get_ident()
            pending, began = self._lines.pop(key, (b"", site))
            *lines, rest = (pending + data).split(b"\n")
            for number, line in enumerate(lines):
                self._add(line, site if number else began)
            if rest:
                self._lines[key] = (rest, site if lines else began)
        self._forward(data)

    def _forward(self, data: bytes) -> None:
        """Hand it on as if nobody watched; what thereby reaches descriptor 1 is not counted a second time."""
        stream, start = self._onward, self._size()
        kind = cast("Any", type(stream))
        kind.write(stream, data.decode("utf-8", "backslashreplace"))
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
            getattr(stream, "_other", stream).flush()  # pytest's tee
        if self._size() > start:
            self._known.append((start, self._size()))

    def _size(self) -> int:
        return 0 if self._fd1 is None else os.fstat(self._fd1.fileno()).st_size

    def _end_lines(self) -> None:
        while self._lines:
            _, (line, site) = self._lines.popitem()
            self._add(line, site)

    def _add(self, line: bytes, site: Site) -> StrayWrite:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        stray = StrayWrite("python", text, site)
        if os.getpid() != self._pid:  # a forked worker: its memory is not ours, descriptor 1 is
            with contextlib.suppress(OSError):
                os.write(1, MARK + json.dumps([stray.pid, text, *site]).encode() + b"\n")
        else:
            self._found.append(stray)
        return stray

    def _refuse(self, data: bytes, site: Site) -> None:
        stray = self._add(data.rstrip(b"\n"), site)
        raise StrayWriteError(f"stray write to stdout at {told(stray)}; {CURE}", stray)

    # ---- descriptor 1 and children

    def _collect(self) -> None:
        for child in self._children:
            for line in self._passed_on(child.news()):
                stray = StrayWrite("child", line, pid=child.pid, program=child.program)
                stray.caller = child.site
                self._found.append(stray)
        if self._fd1 is None:
            return
        known, self._known = self._known, []
        for start, end in [*known, (self._size(), self._size())]:
            between = os.pread(self._fd1.fileno(), max(start - self._fd1_read, 0), self._fd1_read)
            self._found += [StrayWrite("fd1", line) for line in self._passed_on(between)]
            own = os.pread(self._fd1.fileno(), end - start, start)
            if own:
                os.write(self._saved, own)
            self._fd1_read = max(end, self._fd1_read)

    def _passed_on(self, data: bytes) -> list[str]:
        """Hand bytes to where descriptor 1 led; the lines in them that are not records of forked workers."""
        lines: list[str] = []
        plain: list[bytes] = []
        for line in data.splitlines(keepends=True):
            if line.startswith(MARK) and line.endswith(b"]\n"):
                pid, text, *parts = json.loads(line[len(MARK) :])
                self._found.append(StrayWrite("python", text, (*parts,), pid=pid))
                continue
            plain.append(line)
            lines.append(line.decode("utf-8", "backslashreplace").rstrip("\r\n"))
        if plain:
            target = self._saved if self._saved >= 0 else 1
            with contextlib.suppress(OSError):
                os.write(target, b"".join(plain))
        return lines


def _sites(root: str) -> CallSites:
    """Call sites with the project under test as the application (the process's main module is pytest)."""
    sites = CallSites(None)
    sites.learn({}, os.path.join(root, "conftest.py"))
    return sites


def told(stray: StrayWrite) -> str:
    """One line for people: who wrote what."""
    return quote(plain(f"{stray.where}: {cut(stray.text, 600)!r}"))


def _of_protocol(frame: FrameType | None) -> bool:
    """A write of pytest's own reporting, or of a guard's wire that stands in the tested code: nobody's stray."""
    ours = ("stdout_guard._off", "stdout_guard._outlets", "stdout_guard.writer")
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return module.startswith(("_pytest._io", "_pytest.terminal", "xdist", *ours))
