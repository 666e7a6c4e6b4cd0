"""What was written that should not have been: the records and their counts.

Rules: a record is made before anything is printed or raised, so that nothing is lost when printing fails; no lock is
taken, since a signal handler may print while we count: ``next()`` of a range iterator is one C call.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator
    from typing import Any
else:
    from _collections import deque  # the C type, without the package around it

KEPT = 1000  # newest records kept for Guard.strays
PLACES = 500  # places counted apart; the rest are counted together
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
        self, source: str, text: str, site: "Any" = None, note: str = "", pid: int = 0, program: str = ""
    ) -> None:
        self.source, self.text, self.note, self.program = source, text, note, program
        parts: tuple[str, int, str, str] = ("", 0, "", "") if site is None else site.parts
        self.file, self.line, self.function, self.caller = parts
        self.pid, self.time = pid or os.getpid(), time.time()

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


ENDLESS = range(1 << 62)


def value(counter: "Iterator[int]") -> int:
    """How many steps an iterator of ENDLESS has made: its length hint is exact, and reading it moves nothing."""
    hint: Any = counter
    return len(ENDLESS) - int(hint.__length_hint__())


class Ledger:
    """The records of one process."""

    def __init__(self) -> None:
        self.newest: deque[StrayWrite] = deque(maxlen=KEPT)
        self.places: dict[str, Iterator[int]] = {}
        self.sources: dict[str, Iterator[int]] = {name: iter(ENDLESS) for name in ("python", "child", "fd1")}

    def add(self, stray: StrayWrite) -> None:
        """Latch one record."""
        self.newest.append(stray)
        next(self.sources.get(stray.source) or self.sources["fd1"])
        place = stray.place
        counter = self.places.get(place)
        if counter is None:
            counter = self.places.setdefault(place if len(self.places) < PLACES else "elsewhere", iter(ENDLESS))
        next(counter)

    @property
    def total(self) -> int:
        return sum(value(counter) for counter in list(self.sources.values()))
