"""Who wrote it: a dirty server is run a second time under the guard, and strays are matched to the bytes by their text.

The guard is brought in through a temporary folder on PYTHONPATH, with wrapt in its pure-Python form, so that it works
in an environment that holds neither. Where nobody can be named, it is said why; a guess is never made.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stdout_guard.testing.blame import (
    AROUND,
    DIFFERS,
    MERGED,
    NATIVE,
    NO_PRINT,
    NO_PYTHON,
    UNGUARDED,
    WRITER,
    WRITERS,
)  # fmt: skip
from stdout_guard.testing.protocols import Json, mapping
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run, Server, execute
from stdout_guard.testing.verdicts import Outcome

PACKAGE = Path(__file__).resolve().parent.parent
WIRE = "_STDOUT_GUARD_WITNESS_WIRE"
ATTEMPTS = 3  # second runs for one server


@dataclass(frozen=True)
class Witness:
    """What the second run showed: its strays, its stdout, and how the guard fared in it."""

    strays: Strays
    stdout: bytes
    states: tuple[str, ...]
    passed: Passed

    @property
    def guarded(self) -> bool:
        """Whether the guard stood in the process on the wire."""
        return "guarded" in self.states


def investigate(server: Server, outcomes: Sequence[Outcome], replay: bytes = b"") -> None:
    """Add to each dirty problem who wrote it; ``replay`` is sent instead of the condition's script."""
    known: dict[bytes, Problem] = {}
    attempts = 0
    if not any(_asks(problem) for outcome in outcomes for problem in outcome.problems):
        return
    with kit() as folder:
        for outcome in outcomes:
            dirty = [problem for problem in outcome.problems if _asks(problem)]
            if outcome.run.session is not None and outcome.run.session.merged:
                for problem in dirty:
                    problem.culprits = [MERGED]
            for problem in dirty:
                if problem.raw in known:
                    problem.culprits, problem.blame = known[problem.raw].culprits, known[problem.raw].blame
            open_ones = [problem for problem in dirty if not problem.culprits]
            if not open_ones or attempts >= ATTEMPTS:
                continue
            attempts += 1
            witness = ask(server, outcome.run, folder, replay)
            for problem in open_ones:
                _name(problem, witness)
                known[problem.raw or b""] = problem


def _asks(problem: Problem) -> bool:
    return problem.check in ("framing", "shape", "session") and bool(problem.raw) and problem.line is not None


@contextmanager
def kit() -> Generator[str]:
    """A folder with the sitecustomize, our package, and what it needs in a form that any interpreter loads."""
    with tempfile.TemporaryDirectory(prefix="stdout-guard-witness-", ignore_cleanup_errors=True) as folder:
        compiled = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "testing")
        shutil.copytree(PACKAGE, os.path.join(folder, "package", "stdout_guard"), ignore=compiled)
        needs = os.path.join(folder, "needs")
        os.mkdir(needs)
        for name in ("wrapt", "typing_extensions"):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations:
                shutil.copytree(spec.submodule_search_locations[0], os.path.join(needs, name), ignore=compiled)
            elif spec is not None and spec.origin:
                shutil.copy(spec.origin, needs)
        shutil.copy(PACKAGE / "testing" / "_witness.py", os.path.join(folder, "sitecustomize.py"))
        yield folder


def ask(server: Server, dirty: Run, folder: str, replay: bytes = b"") -> Witness:
    """Run it again as ``dirty`` was run, under the guard."""
    condition = replace(dirty.condition, script=("replay", "close")) if replay else dirty.condition
    log = os.path.join(folder, "strays.jsonl")
    for old in [log, *map(str, Path(folder).glob("state-*")), *map(str, Path(folder).glob("passed-*"))]:
        Path(old).unlink(missing_ok=True)
    before = dirty.changes.get("PYTHONPATH", None if server.isolated else os.environ.get("PYTHONPATH"))
    env: dict[str, str | None] = {
        "PYTHONPATH": os.pathsep.join(filter(None, (folder, before))),
        "STDOUT_GUARD": "redirect",
        "STDOUT_GUARD_FORMAT": "json",
        "STDOUT_GUARD_LOG": log,
    }
    runs = execute(dirty.learnt(server), condition, env, WIRE, replay)
    run = runs[min(dirty.number, len(runs)) - 1]
    states = [line for path in Path(folder).glob("state-*") for line in path.read_text("utf-8").splitlines()]
    passed = Passed(path.read_bytes() for path in sorted(Path(folder).glob("passed-*")))
    return Witness(Strays(_strays(log)), run.stdout, tuple(states), passed)


def _strays(log: str) -> Generator[Json]:
    try:
        lines = Path(log).read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record: Any = json.loads(line)
        except ValueError:
            continue
        if mapping(record).get("kind") == "stray":
            yield mapping(record)


def _name(problem: Problem, witness: Witness) -> None:
    raw = problem.raw or b""
    found = witness.strays.matching(raw) or _unprintable(raw, witness.strays)
    writer = witness.passed.writer_of(raw)
    if found and not (writer and _is_message(raw)):
        told = {_told(stray): stray for stray in found}
        problem.culprits = list(told)[:3]
        problem.blame = [place for place in map(_place, told.values()) if place is not None]
    elif writer is not None:
        problem.culprits = [WRITERS.format(_told(writer).removeprefix("written by "))]
        problem.blame = [place for place in [_place(writer)] if place is not None]
    elif not witness.guarded:
        why = (
            "; ".join(witness.states)
            or f"{NO_PYTHON} (a pipeline's has not), or it ignores PYTHONPATH (-I, -E, -S, env -i)"
        )
        problem.culprits = [UNGUARDED + why]
    elif _stands_in(raw, witness.stdout) is not None:
        problem.culprits = [f"{WRITER}{NO_PRINT}" if b'"jsonrpc"' in raw else AROUND]
    else:
        problem.culprits = [DIFFERS]


def _stands_in(raw: bytes, data: bytes) -> int | None:
    """Where the line is in ``data``; an empty one is found by the end of the line before it."""
    if raw.strip():
        at = data.find(raw.strip())
        return None if at < 0 else at
    if data.startswith(raw):
        return 0
    at = data.find(b"\n" + raw)
    return None if at < 0 else at + 1


def _is_message(raw: bytes) -> bool:
    """Whether the bytes are one JSON value: then a stray that happens to be a part of it did not write it."""
    try:
        return isinstance(json.loads(raw), dict | list)
    except (ValueError, RecursionError):
        return False


def _unprintable(raw: bytes, strays: Strays) -> list[Json]:
    """The strays without a letter (a byte order mark, NUL bytes) that are in the dirty bytes."""
    texts = ((one, data) for one in strays.matching(b"") for data in _unescaped(str(one.get("text", ""))))
    found = [one for one, data in texts if data in raw or (len(set(data)) == 1 and data[:1] in raw)]
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _unescaped(text: str) -> Iterator[bytes]:
    """The bytes that a record may stand for: an escape below 256 is a character, or a byte that was no UTF-8."""
    for encoding in ("utf-8", "latin-1"):
        plain = _ESCAPE.sub(lambda escape: chr(int(escape[0][2:], 16)), text)
        with suppress(UnicodeEncodeError):
            if data := plain.encode(encoding).strip():
                yield data


_ESCAPE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")


class Passed:
    """What the guard let through to the wire in the second run, with the line that wrote each piece."""

    def __init__(self, records: Iterable[bytes]) -> None:
        self._starts: list[int] = []
        self._places: list[Json] = []
        pieces: list[bytes] = []
        size = 0
        for data in records:
            while data:
                header, _, data = data.partition(b"\n")
                length, *where = header.decode("utf-8", "replace").split("\t")
                self._starts.append(size)
                self._places.append({"source": "python", **dict(zip(_SITE, where, strict=False))})
                pieces.append(data[: int(length)])
                size, data = size + len(pieces[-1]), data[int(length) :]
        self._data = b"".join(pieces)

    def writer_of(self, raw: bytes) -> Json | None:
        """Who wrote these bytes; None when nobody did, or the place is not known."""
        at = _stands_in(raw, self._data)
        if at is None:
            return None
        place = self._places[bisect_right(self._starts, at) - 1]
        return place if "file" in place else None


_SITE = ("file", "line", "function", "caller")


def matching(raw: bytes, strays: Sequence[Json]) -> list[Json]:
    """The strays whose text is in the dirty bytes: the whole line if there is one, else the longest part of it.

    Of those that say the same of the same text, one stands for all.
    """
    return Strays(strays).matching(raw)


class Strays:
    """The strays of a run by their text, each text prepared once, whatever their number and that of the problems."""

    def __init__(self, strays: Iterable[Json]) -> None:
        self._kinds: dict[str, Json] = {}  # by what is told of it, one of each
        self._by_text: dict[str, dict[str, str]] = {}  # bare text: what is told, and the text of the record
        self._cut: dict[tuple[str, str], str] = {}
        for stray in strays:
            told, text = _told(stray), str(stray.get("text", ""))
            told = str(self._kinds.setdefault(told, {**stray, "told": told})["told"])  # one string for all
            self._by_text.setdefault(_bare(text), {}).setdefault(told, text)
            if stray.get("source") != "python" and (unit := _unit(_bare(text))):
                self._by_text.setdefault(unit, {}).setdefault(told, text)
            if _CUT.search(text):
                self._cut[_bare(text.partition("...")[0]), _bare(text.rpartition("...")[2])] = _bare(text)

    def matching(self, raw: bytes) -> list[Json]:
        """See ``matching``."""
        line = _bare(raw.decode("utf-8", "backslashreplace"))
        if line in self._by_text or not line:
            return self._with(line)
        for (head, tail), text in self._cut.items():
            if len(line) > len(head) + len(tail) and line.startswith(head) and line.endswith(tail):
                return self._with(text)
        if len(line) * len(self._by_text) > _MOST_COMPARED:
            line = line[:_ENDS] + line[-_ENDS:]
        parts = [text for text in self._by_text if len(text) > 2 and (text in line or line in text)]
        longest = max(map(len, parts), default=0)
        return [stray for text in parts if len(text) == longest for stray in self._with(text)]

    def _with(self, text: str) -> list[Json]:
        return [{**self._kinds[told], "text": own} for told, own in self._by_text.get(text, {}).items()]


_CUT = re.compile(r"\.\.\.\[\d+ of \d+ characters cut\]\.\.\. ")  # how the guard shortens a long line in a record
_MOST_COMPARED = 1 << 30  # characters of a line times texts looked for in it; beyond it only the ends are compared
_ENDS = 4096  # characters
_UNLIKE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\x20-\x7e]")


def _bare(text: str) -> str:
    """Text without what differs between a raw line and a record of it: ends, blanks, control characters, escapes."""
    text = text.strip()
    if "\\" not in text and text.isascii() and text.isprintable():
        return text
    return _UNLIKE.sub("", text).strip()


def _unit(text: str) -> str:
    """What ``text`` repeats: pieces without a newline, written one after the other, are one record; else nothing."""
    period = (text + text).find(text, 1) if len(text) < _ENDS else 0
    return text[:period] if 2 < period < len(text) else ""


def _told(stray: Json) -> str:
    caller = stray.get("caller")
    if stray.get("source") == "python":
        behind = f", from {caller}" if caller else ""
        return f"written by {stray.get('file')}:{stray.get('line')} in {stray.get('function')}{behind}"
    if stray.get("source") == "child":
        return f"written by a child process ({stray.get('program')}), started at {caller}"
    return NATIVE


def _place(stray: Json) -> tuple[str, int] | None:
    if stray.get("source") == "python":
        return str(stray.get("file")), int(stray.get("line") or 0)
    file, _, line = str(stray.get("caller") or "").rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None
