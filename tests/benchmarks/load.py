"""Many threads at once, and what the guard holds in memory."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator

from . import peers
from .noise import PROGRAMS, block
from .process import Child, run_out
from .rows import OURS, Measured, Row, Run

_PRIVATE = (
    "rows = [line.split() for line in open('/proc/self/smaps_rollup')]\n"
    "print(sum(int(row[1]) for row in rows if row[0].startswith('Private_')), file=__import__('sys').stderr)\n"
)


def threads(run: Run) -> Iterator[Measured]:
    """Each thread sends a mapping and prints a line; every line of the wire is read and counted. Beside it an unguarded
    server that holds a lock around its write."""
    file, rounds, frames = run.folder / "threads.json", run.rounds(5, 20), 1280
    for name, way in ((OURS, "guarded"), ("a lock around write + flush", "plain")):
        program = (run.python("peers"), str(PROGRAMS / "threads.py"), way)
        child, _, _ = run_out((*program, str(rounds), str(frames), str(file)))
        lines = bytes(child.buffer).split(b"\n")
        whole = sum(1 for line in lines if line and "result" in json.loads(line))
        wanted = frames * (1 + 2 * rounds)
        pairs = json.loads(file.read_bytes())
        ratio = statistics.median(many / one for one, many in pairs)
        rate = statistics.median(many for _, many in pairs)
        torn = wanted - whole + (lines[-1] != b"")
        detail = f"{rate:.0f} frames/s with 64 threads, {torn} torn or lost"
        yield Measured(name, 0.0 if torn else ratio, detail, tuple(many for _, many in pairs))


def at_rest(run: Run) -> Iterator[Measured]:
    """Private pages (smaps_rollup) of an idle process, less those of one without a guard."""
    names = (peers.NOTHING, OURS, peers.DUP2, peers.QUIETMCP, peers.WURLITZER)
    held: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(run.rounds(3, 9)):
        for name in names:
            child, _, _ = run_out((run.python("peers"), "-c", peers.AT_START[name] + _PRIVATE))
            held[name].append(int(bytes(child.errors).split()[-1]) / 1024)
    base = statistics.median(held[peers.NOTHING])
    for name in names[1:]:
        yield Measured(name, statistics.median(held[name]) - base, f"of {base:.1f} MiB", tuple(held[name]))


def _peak(run: Run, lines: str, way: str, times: int) -> float:
    program = str(PROGRAMS / "flooding.py")
    child = Child((run.python("peers"), program, lines, str(block(run)), str(times), way), deadline=600)
    child.close_stdin()
    tail, peak = b"", 0
    while child.open and child._read():
        tail = tail[-100:] + bytes(child.errors)
        child.errors.clear()
        if found := re.search(rb"^peak ([0-9]+)\n", tail, re.MULTILINE):
            peak = int(found[1])
    child.finish()
    return peak / 1024


def in_flood(run: Run) -> Iterator[Measured]:
    """Peak of resident memory of a flood through the channel, less that of a process whose child floods past it."""
    times = run.rounds(64, 1024)
    base = _peak(run, "import sys\n", "cat", 1)
    for name in (OURS, peers.WURLITZER):
        yield Measured(name, _peak(run, peers.BY_HAND[name], "direct", times) - base, f"{times} MiB of flood")


ROWS = [
    Row(
        "threads",
        "64 threads sending and printing / one thread (frames a second; 0: one torn)",
        0.8,
        threads,
        False,
        why="threads that meet at the wire's lock hand over the interpreter each time, and whether they meet is the "
        "scheduler's choice (0.4 to 0.95 in runs of the same code). One lock, held for one write, is what keeps frames "
        "whole; an unguarded server with a lock of its own keeps less of its rate.",
    ),
    Row("memory", "memory: guard at rest, less bare Python's", 1.5, at_rest, unit="MiB"),
    Row(
        "memory-flood",
        "memory: peak in a native flood of 1 GiB, less bare Python's",
        8.0,
        in_flood,
        unit="MiB",
    ),
]
