"""Who wrote it: a dirty server is run a second time under the guard, and strays are matched to the bytes by their text.

The guard is brought in through a temporary folder on PYTHONPATH, with wrapt in its pure-Python form, so that it works
in an environment that holds neither. Where nobody can be named, it is said why; a guess is never made.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from stdout_guard.testing.at_once import AT_ONCE_STEP
from stdout_guard.testing.blame import (
    AROUND,
    DIFFERS,
    MERGED,
    NO_PRINT,
    NO_PYTHON,
    UNGUARDED,
    WRITER,
    WRITERS,
)  # fmt: skip
from stdout_guard.testing.protocols import Json, mapping
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run, Server, execute
from stdout_guard.testing.strays import Passed, Strays, shape, stands_in, told_of, unprintable
from stdout_guard.testing.verdicts import Outcome

PACKAGE = Path(__file__).resolve().parent.parent
WIRE = "_STDOUT_GUARD_WITNESS_WIRE"
_MOST_SHAPED = 1 << 20  # bytes of stdout that are compared with their numbers made equal
ATTEMPTS = 3  # second runs for one server
SOON = 8.0  # seconds for an answer that never came in the first run


@dataclass(frozen=True)
class Witness:
    """What the second run showed: its strays, its stdout, and how the guard fared in it."""

    strays: Strays
    stdout: bytes
    states: tuple[str, ...]
    passed: Passed

    @cached_property
    def shapes(self) -> set[str]:
        """The lines of stdout with their numbers made equal, frames left out."""
        lines = self.stdout.splitlines() if len(self.stdout) < _MOST_SHAPED else []
        return {shape(line) for line in lines if not line.startswith(b'{"jsonrpc"')} - {""}

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
            at_once = any(problem.step == AT_ONCE_STEP for problem in open_ones)
            run = outcome.run if at_once else _without_at_once(outcome.run)
            witness = ask(server, run, folder, replay)
            for problem in open_ones:
                _name(problem, witness)
                known[problem.raw or b""] = problem


def _without_at_once(run: Run) -> Run:
    """The run with a script that calls each tool once: enough where nothing is asked of what came then."""
    script = tuple(word for word in run.condition.script if word != "at-once")
    return replace(run, condition=replace(run.condition, script=script))


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
    """Run it again as ``dirty`` was run, under the guard.

    Frames that go around Python's streams do not come through, and no session begins: then what was sent the first
    time is sent all at once.
    """
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
    runs = execute(_impatient(dirty.learnt(server), dirty), condition, env, WIRE, replay)
    run = runs[min(dirty.number, len(runs)) - 1]
    if not replay and _began(dirty) and not _began(run) and list(Path(folder).glob("state-*")):
        return ask(server, dirty, folder, dirty.stdin)
    states = [line for path in Path(folder).glob("state-*") for line in path.read_text("utf-8").splitlines()]
    passed = Passed(path.read_bytes() for path in sorted(Path(folder).glob("passed-*")))
    return Witness(Strays(_strays(log)), run.stdout, tuple(states), passed)


def _began(run: Run) -> bool:
    return run.session is not None and run.session.opened


def _impatient(server: Server, first: Run) -> Server:
    """The second run is awaited as long as the first one took, and a little."""
    took = first.marks[0].seconds if first.marks else 0.0
    limits = server.limits
    if not _began(first):
        return replace(server, limits=replace(limits, start=min(limits.start, SOON)))
    return replace(server, limits=replace(limits, quiet=min(limits.quiet, took + SOON / 4)))


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
    found = witness.strays.matching(raw) or unprintable(raw, witness.strays)
    writer = witness.passed.writer_of(raw)
    if not found and writer is None and not _is_message(raw):
        found = witness.strays.alike(raw)
    if found and not (writer and _is_message(raw)):
        told = {told_of(stray): stray for stray in found}
        problem.culprits = list(told)[:3]
        problem.blame = [place for place in map(_place, told.values()) if place is not None]
    elif writer is not None:
        told_writer = told_of(writer)
        if problem.code != "echoes-input":
            told_writer = WRITERS.format(told_writer.removeprefix("written by "))
        problem.culprits = [told_writer]
        problem.blame = [place for place in [_place(writer)] if place is not None]
    elif not witness.guarded:
        why = (
            "; ".join(witness.states)
            or f"{NO_PYTHON} (a pipeline's has not), or it ignores PYTHONPATH (-I, -E, -S, env -i)"
        )
        problem.culprits = [UNGUARDED + why]
    elif stands_in(raw, witness.stdout) is not None or shape(raw) in witness.shapes:
        problem.culprits = [f"{WRITER}{NO_PRINT}" if b'"jsonrpc"' in raw else AROUND]
    else:
        problem.culprits = [DIFFERS]


def _is_message(raw: bytes) -> bool:
    """Whether the bytes are one JSON value: then a stray that happens to be a part of it did not write it."""
    try:
        return isinstance(json.loads(raw), dict | list)
    except (ValueError, RecursionError):
        return False


def _place(stray: Json) -> tuple[str, int] | None:
    if stray.get("source") == "python":
        return str(stray.get("file")), int(stray.get("line") or 0)
    file, _, line = str(stray.get("caller") or "").rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None
