"""What was written that should not have been, and who wrote it: records, their counts, call sites found on the stack.

Rules: a record is made before anything is printed or raised, so that nothing is lost when printing fails; no lock is
taken, since a signal handler may print while we count: ``next()`` of a range iterator is one C call. Print plumbing is
never blamed, nor is whatever ``warnings`` calls. The nearest frame of the application is; when the write came from a
dependency, the dependency's frame comes first and the application's behind it. A handler of one's own behind
``logging`` is named together with the line that logged. One file: each costs the cold start 1 %.
"""

import os
import sys
from os import getpid
from time import time as now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType
    from typing import Any

    Site = tuple[str, int, str, str, str]  # file as a terminal can open it, line, function, caller's file:line, module

KEPT = 1000  # newest records kept for Guard.strays
PLACES = 500  # places counted apart; the rest are counted together
NOWHERE: "Site" = ("", 0, "", "", "")
ENDLESS = range(1 << 62)
FIELDS = ("source", "file", "line", "function", "caller", "pid", "program", "note", "text")


class StrayWrite:
    """One stray write: what, and who wrote it. Plain values, pickled as such.

    ``source`` is ``"python"`` (file, line, function are exact; ``caller`` is the application's ``file:line`` behind a
    dependency), ``"child"`` (pid, program; ``caller`` is where it was started) or ``"fd1"`` (C code, ``os.write``,
    ``os.system``: nobody is guessed). ``text`` has no line end; ``note`` is what we have to say about it; ``time`` is
    in seconds since the epoch.
    """

    # No __slots__ here and beside: each costs the cold start more than a thousand records save.

    def __init__(
        self, source: str, text: str, site: "Site | None" = None, note: str = "", pid: int = 0, program: str = ""
    ) -> None:
        self.source, self.text, self.note, self.program = source, text, note, program
        self.file, self.line, self.function, self.caller, _ = site or NOWHERE
        self.pid, self.time = pid or getpid(), now()

    @property
    def place(self) -> str:
        """The key under which this is counted."""
        if self.source == "python":
            return f"{self.file}:{self.line}"
        return f"[child {self.program}]" if self.source == "child" else "[fd 1]"

    @property
    def where(self) -> str:
        """The call site as the report shows it."""
        if self.source == "python":
            behind = f" (from {self.caller})" if self.caller else ""
            return f"{self.file}:{self.line} in {self.function}{behind}"
        if self.source == "child":
            return f"[child {self.pid} {self.program}, started at {self.caller}]"
        return "[fd 1]"

    def __repr__(self) -> str:
        return f"<stray write: {self.where}: {self.text!r}>"

    def __reduce__(self) -> "tuple[Any, ...]":
        return thaw, (tuple(getattr(self, name) for name in (*FIELDS, "time")),)


def thaw(values: "tuple[Any, ...]") -> StrayWrite:
    """A record of these values: FIELDS, then the time."""
    stray = StrayWrite("", "")
    for name, value in zip((*FIELDS, "time"), values, strict=False):
        setattr(stray, name, value)
    return stray


def value(counter: "Iterator[int]") -> int:
    """How many steps an iterator of ENDLESS has made: its length hint is exact, and reading it moves nothing."""
    hint: Any = counter
    return len(ENDLESS) - int(hint.__length_hint__())


class Ledger:
    """The records of one process."""

    def __init__(self) -> None:
        self.newest: list[StrayWrite | tuple[StrayWrite, list[bytes]]] = []  # oldest first; no deque: 0.5 % of a start
        self.places: dict[str, Iterator[int]] = {}
        self.sources: dict[str, Iterator[int]] = {name: iter(ENDLESS) for name in ("python", "child", "fd1")}

    def add(self, stray: StrayWrite) -> None:
        """Latch one record."""
        self.newest.append(stray)
        if len(self.newest) > KEPT:
            del self.newest[:-KEPT]
        next(self.sources.get(stray.source) or self.sources["fd1"])
        next(self._place(stray.place))

    def add_lines(self, stray: StrayWrite, lines: "list[bytes]") -> None:
        """Latch many lines at once, each like ``stray`` but for its text; called by one thread only, the pump."""
        self.newest.append((stray, lines[-KEPT:]))
        for counter in (self.sources[stray.source], self._place(stray.place)):
            all(zip(range(len(lines)), counter, strict=False))  # in C, a step for each
        held, kept = list(self.newest), 0
        while held and kept < KEPT:
            newest = held.pop()
            kept += 1 if isinstance(newest, StrayWrite) else len(newest[1])
        for old in held:  # older than the newest 1,000
            if old in self.newest:  # else dropped by add() of another thread meanwhile
                self.newest.remove(old)

    def _place(self, place: str) -> "Iterator[int]":
        counter = self.places.get(place)
        if counter is None:
            counter = self.places.setdefault(place if len(self.places) < PLACES else "elsewhere", iter(ENDLESS))
        return counter

    @property
    def total(self) -> int:
        return sum(value(counter) for counter in list(self.sources.values()))


# ---- call sites

OURS, PLUMBING, STDLIB, DEPENDENCY, APPLICATION, ROUTER, WARNINGS = range(7)

_SEP = os.sep
_PACKAGE = os.path.dirname(sys._getframe().f_code.co_filename) + _SEP  # as code objects say it, frozen ones too
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + _SEP
_INSTALLED = (f"{_SEP}site-packages{_SEP}", f"{_SEP}dist-packages{_SEP}")
_START = ("site", "sitecustomize", "usercustomize")  # modules that run before the application does
KINDS = {
    **dict.fromkeys(("logging", "loguru", "structlog"), ROUTER),
    **dict.fromkeys(("rich", "click", "tqdm", "typer", "colorama", "termcolor"), PLUMBING),
    **dict.fromkeys(("pprint", "traceback", "contextlib", "codecs", "threading", "concurrent"), PLUMBING),
    **dict.fromkeys(("runpy", "wrapt", "coverage"), PLUMBING),
    "warnings": WARNINGS,
}


def spelled(site: "Site") -> str:
    """A call site in a sentence."""
    return f"{site[0]}:{site[1]}" + (f" from {site[3]}" if site[3] else "")


class CallSites:
    """Finds call sites, given the frame that installed the guard (it says what the application is)."""

    def __init__(self, installer: "FrameType | None") -> None:
        self.kinds: dict[tuple[str, object], int] = {}  # not by code: its hash is that of all its constants
        try:
            self.start = os.getcwd()
        except OSError:  # the working directory is gone
            self.start = ""
        self.package, self.root, self.paths = "", "", dict[str, str]()
        while installer is not None and (
            installer.f_code.co_filename.startswith((_PACKAGE, "<frozen "))
            or installer.f_code.co_name == "exec_module"  # an import hook: PyInstaller's, pytest's
        ):
            installer = installer.f_back
        self.known, self.installer = False, dict[str, object]()
        if (
            installer is not None
        ):  # its names, not its globals: what holds those keeps them from being destroyed at exit
            names = installer.f_globals
            self.installer = {"__name__": names.get("__name__"), "__package__": names.get("__package__")}
            self.installer["__file__"] = installer.f_code.co_filename

    def learn(self, names: "Mapping[str, object]", file: str) -> None:
        package = str(names.get("__package__") or "")
        path = os.path.normpath(os.path.join(self.start, file))
        folder = os.path.dirname(path) if not file.startswith("<") else ""
        for _ in range(package.count(".")):
            folder = os.path.dirname(folder)
        self.package, self.root = package.partition(".")[0], folder and folder.rstrip(_SEP) + _SEP
        if not package and self.root.endswith(_INSTALLED):
            self.package, self.root = str(names.get("__name__")), ""  # one installed file, among everybody's
        self.known = True
        self.kinds.clear()

    def _learn(self) -> None:
        """At the first stray: what is the application? The module that installed the guard, or the main one."""
        names: Mapping[str, object] = self.installer
        if (not names or names["__name__"] in _START) and "__main__" in sys.modules:
            names = vars(sys.modules["__main__"])
        if "__file__" in names:
            self.learn(names, str(names["__file__"]))

    def _kind(self, frame: "FrameType") -> int:
        """The kind of a frame whose module was not seen yet, or whose ``__name__`` is no name."""
        if len(self.kinds) > 4096:  # generated code must not make us grow
            self.kinds.clear()
            self.paths.clear()
        if not self.known:
            self._learn()
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__") or "")
        self.kinds[file, name] = kind = self._classify(file, name)
        return kind

    def _classify(self, file: str, module: str) -> int:
        top = module.partition(".")[0]
        if file.startswith(_PACKAGE):
            return OURS
        if top == "__main__" or (self.package and top == self.package):
            return APPLICATION
        if top in KINDS:
            return KINDS[top]
        if file.startswith("<"):
            return STDLIB
        path = file if os.path.isabs(file) else os.path.join(self.start, file)
        installed = any(folder in path for folder in _INSTALLED)
        if (path.startswith(_STDLIB) and not installed) or (top in sys.stdlib_module_names and path != file):
            return STDLIB  # by its path, or frozen and so without one
        if self.root and path.startswith(self.root):
            below = _SEP + path[len(self.root) :]
            if not any(folder in below for folder in _INSTALLED):
                return APPLICATION
        return DEPENDENCY

    def find(self, frame: "FrameType | None") -> "Site":
        """The site to blame for a write made by ``frame`` (the writer's own frame, or None at the very end)."""
        blamed = behind = last = None
        routed = walked = stop = first = 0
        while frame is not None and walked < 400:
            try:
                kind = self.kinds[frame.f_code.co_filename, frame.f_globals.get("__name__")]
            except (KeyError, TypeError):
                kind = self._kind(frame)
            if kind == WARNINGS:
                blamed, routed = None, 0
            elif kind == ROUTER:
                routed = 1
            elif kind in (APPLICATION, DEPENDENCY):
                if blamed is None:
                    blamed, first, routed, stop = frame, kind, 0, walked + (12 if kind == APPLICATION else 400)
                elif (kind == APPLICATION or routed) and (routed or first == DEPENDENCY):
                    behind = frame
                    break
            elif last is None and kind != OURS:
                last = frame
            if blamed is not None and walked >= stop:
                break
            frame, walked = frame.f_back, walked + 1
        blamed = blamed or last
        if blamed is None:
            return "<unknown>", 0, "?", "", ""
        function = blamed.f_code.co_qualname.rpartition("<locals>.")[2]
        caller = f"{self.shown(behind)}:{behind.f_lineno}" if behind is not None else ""
        return self.shown(blamed), blamed.f_lineno or 0, function, caller, str(blamed.f_globals.get("__name__"))

    def shown(self, frame: "FrameType") -> str:
        """The frame's file: relative when below the working directory, else absolute."""
        file = frame.f_code.co_filename
        if file.startswith("<"):
            return file
        path = self.paths.get(file)
        if path is None:
            self.paths[file] = path = file if os.path.isabs(file) else os.path.join(self.start, file)
        try:
            here = os.getcwd() + _SEP  # of the root, two: everything is below it, and nothing is told by that
        except OSError:  # the working directory is gone
            return path
        return path[len(here) :] if path.startswith(here) else path
