"""What was written that should not have been: records, counts, one line of text or JSON for each.

Rules: a record is made before anything is printed or raised, so that nothing is lost when printing fails; no lock is
taken (a signal handler may print while we count); every line is safe to show on a terminal or in a CI log.
"""

import os
import time
from _collections import deque
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREFIX = "stdout-guard: "
KEPT = 1000  # newest records kept for Guard.strays
PLACES = 500  # distinct places counted apart; the rest are counted together
LINE_BYTES = 3000  # a longer text is cut: with its prefix a line must fit PIPE_BUF (4096), which one write() keeps whole
RAW_BYTES = 65536  # format=raw keeps JSON log lines whole up to here
HEAD, TAIL = 500, 200  # characters kept of a text that is cut
MARK = b"\x1estdout-guard\x1f"  # opens a finished record that a worker process sends through the channel
FIELDS = ("source", "file", "line", "function", "caller", "pid", "program", "note", "text")


class StrayWrite:
    """One stray write: what, and who wrote it. Read only by convention; all attributes are plain values.

    ``source`` is ``"python"`` (file, line, function are exact; ``caller`` is the application's ``file:line`` behind a
    dependency), ``"child"`` (pid, program; ``caller`` is where it was started) or ``"fd1"`` (C code, ``os.write``,
    ``os.system``: nobody is guessed). ``text`` has no line end; ``note`` is what we have to say about it; ``time`` is
    in seconds since the epoch.
    """

    __slots__ = ("caller", "file", "function", "line", "note", "pid", "program", "source", "text", "time")

    def __init__(
        self,
        source: str,
        text: str,
        file: str = "",
        line: int = 0,
        function: str = "",
        caller: str = "",
        pid: int = 0,
        program: str = "",
        note: str = "",
    ) -> None:
        self.source, self.text, self.note = source, text, note
        self.file, self.line, self.function, self.caller = file, line, function, caller
        self.pid, self.program = pid or os.getpid(), program
        self.time = time.time()

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
        return _thaw, (tuple(getattr(self, name) for name in FIELDS), self.time)


def _thaw(values: "tuple[Any, ...]", when: float) -> StrayWrite:
    stray = StrayWrite(**dict(zip(FIELDS, values, strict=True)))
    stray.time = when
    return stray


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
    return f"{text[:HEAD]} ...[{len(text) - HEAD - TAIL} of {len(text)} characters cut]... {text[-TAIL:]}"


def as_text(stray: StrayWrite) -> str:
    """One line for people."""
    note = f"{stray.note}: " if stray.note else ""
    return f"{PREFIX}{cut(escape(stray.where), 900)}: {note}{cut(escape(stray.text))}"


def as_raw(stray: StrayWrite) -> str:
    """The text alone, for collectors that expect the application's own (JSON) log lines."""
    text = cut(escape(stray.text), RAW_BYTES)
    return "\\x3a" + text.lstrip()[1:] if text.lstrip().startswith("::") else text  # GitHub: "::command::"


def as_json(stray: StrayWrite) -> str:
    """One JSON object. The C encoder alone is loaded: package json would cost the cold start and may not be here yet."""
    from _json import encode_basestring_ascii as quote

    text = cut(stray.text)
    fields = {name: getattr(stray, name) for name in FIELDS if name != "text" and getattr(stray, name)}
    head = "".join(
        f', "{key}": {value if isinstance(value, int) else quote(cut(value, 600))}' for key, value in fields.items()
    )
    line = f'{{"tool": "stdout-guard", "kind": "stray", "time": {stray.time:.3f}{head}, "text": '
    while len(line) + len(quote(text)) > 4000:  # escapes may make a short text long
        text = text[: len(text) // 3] + "..." + text[-(len(text) // 3) :]
    return line + quote(text) + "}"


def note_json(text: str) -> str:
    """Something of our own, for collectors of JSON lines."""
    from _json import encode_basestring_ascii as quote

    return f'{{"tool": "stdout-guard", "kind": "note", "time": {time.time():.3f}, "text": {quote(cut(text, 1500))}}}'


FORMATS: "dict[str, Callable[[StrayWrite], str]]" = {"text": as_text, "json": as_json, "raw": as_raw}


def pack(stray: StrayWrite) -> bytes:
    """A record as the line a worker process sends to the owner; at most PIPE_BUF bytes, so it arrives whole."""
    values = [cut(escape(str(getattr(stray, name))), 300) for name in FIELDS[:-1]]
    return MARK + "\x1f".join([*values, cut(escape(stray.text), 2000)]).encode("utf-8", "backslashreplace") + b"\n"


def unpack(line: bytes) -> StrayWrite | None:
    """The record in a line of :func:`pack`, or None when it is not one."""
    values: dict[str, Any] = dict(
        zip(FIELDS, line[len(MARK) :].decode("utf-8", "replace").split("\x1f", len(FIELDS) - 1), strict=False)
    )
    try:
        values["line"], values["pid"] = int(values["line"]), int(values["pid"])
        return StrayWrite(**values)
    except (KeyError, ValueError, TypeError):
        return None


class Counts:
    """A frozen snapshot: ``strays`` in all, by source (``python``, ``child``, ``fd1``), ``places`` as (place, count)
    pairs, most frequent first, and what no reader took: ``dropped_lines`` and ``dropped_bytes``."""

    __slots__ = ("child", "dropped_bytes", "dropped_lines", "fd1", "places", "python", "strays")
    strays: int
    python: int
    child: int
    fd1: int
    places: tuple[tuple[str, int], ...]
    dropped_lines: int
    dropped_bytes: int

    def __init__(self, **values: object) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, values.get(name, () if name == "places" else 0))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"counts are a snapshot: {name} cannot be set")

    def __repr__(self) -> str:
        return "Counts(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


def _value(counter: "count[int]") -> int:
    return int(repr(counter)[6:-1])  # the only way to read an itertools.count without moving it


class Ledger:
    """The records of one process. Counting is by ``itertools.count``: one C call, so neither a thread nor a signal
    handler can lose a step of it."""

    def __init__(self) -> None:
        self.newest: deque[StrayWrite] = deque(maxlen=KEPT)
        self.places: dict[str, count[int]] = {}
        self.sources: dict[str, count[int]] = {name: count() for name in ("python", "child", "fd1")}

    def add(self, stray: StrayWrite) -> None:
        """Latch one record."""
        self.newest.append(stray)
        next(self.sources.get(stray.source) or self.sources["fd1"])
        self.tally(stray.place)

    def tally(self, place: str) -> None:
        counter = self.places.get(place)
        if counter is None:
            counter = self.places.setdefault(place if len(self.places) < PLACES else "elsewhere", count())
        next(counter)

    @property
    def total(self) -> int:
        return sum(_value(counter) for counter in list(self.sources.values()))

    def snapshot(self, dropped_lines: int, dropped_bytes: int) -> Counts:
        places = sorted(((place, _value(n)) for place, n in list(self.places.items())), key=lambda item: -item[1])
        by_source = {name: _value(counter) for name, counter in list(self.sources.items())}
        return Counts(
            strays=sum(by_source.values()),
            places=tuple(places),
            dropped_lines=dropped_lines,
            dropped_bytes=dropped_bytes,
            **by_source,
        )

    def summary(self) -> str:
        """The one line shown at exit."""
        counts = self.snapshot(0, 0)
        shown = ", ".join(f"{cut(escape(place), 300)} ({n})" for place, n in counts.places[:8])
        more = len(counts.places) - 8
        rest = f" and {more} more places" if more > 0 else ""
        writes = "stray write" if counts.strays == 1 else "stray writes"
        return f"{counts.strays} {writes} kept off the wire: {shown}{rest}"
