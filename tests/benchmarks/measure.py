"""Ratios in alternation: A, B, C, A, B, C ... in one run, so that a busy machine slows all of them alike.

pyperf and pytest-benchmark measure one thing to its end before the next, and calibrate each by itself: on a machine
whose speed changes by half within seconds their ratios are noise. So the alternation is ours; pyperf, where it is
installed, gives the file format (see table.py).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class Series:
    """What one contestant took, round by round. ``wall`` and ``cpu`` in seconds for one operation."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float) -> None:
        """One round more."""
        self.wall.append(wall)
        self.cpu.append(cpu)


def paired(ours: list[float], base: list[float]) -> float:
    """The median of the ratios of neighbours in time: what slowed both is out of it."""
    return statistics.median(a / b for a, b in zip(ours, base, strict=True) if b)


@dataclass(frozen=True)
class Ratio:
    """How many times the base: by wall clock and by CPU time (medians of pairs), and between the least of both."""

    wall: float
    cpu: float
    least: float

    @classmethod
    def of(cls, ours: Series, base: Series) -> Ratio:
        """Of two series measured in alternation."""
        return cls(paired(ours.wall, base.wall), paired(ours.cpu, base.cpu), min(ours.cpu) / max(min(base.cpu), 1e-9))


def alternate(contestants: Mapping[str, Callable[[], tuple[float, float]]], rounds: int) -> dict[str, Series]:
    """Run every contestant once a round; each returns (wall, cpu) of one operation. The order turns each round."""
    found = {name: Series() for name in contestants}
    names = list(contestants)
    for turn in range(rounds + 1):
        for name in names if turn % 2 else reversed(names):
            took = contestants[name]()
            if turn:  # the first round warms up
                found[name].add(*took)
    return found


def timed(run: Callable[[int], object], count: int) -> Callable[[], tuple[float, float]]:
    """``run(count)`` in this thread, as a contestant."""

    def once() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.thread_time()
        run(count)
        return (time.perf_counter() - wall) / count, (time.thread_time() - cpu) / count

    return once


def fitting(run: Callable[[int], object], seconds: float = 0.002) -> int:
    """How often ``run`` goes into about so many seconds."""
    count = 1
    while True:
        started = time.thread_time()
        run(count)
        if (took := time.thread_time() - started) > seconds / 4:
            return max(1, round(count * seconds / max(took, 1e-9)))
        count *= 4


def compare(runs: Mapping[str, Callable[[int], object]], rounds: int, seconds: float = 0.002) -> dict[str, Series]:
    """Callables that repeat an operation so many times, each in batches of about ``seconds``, in alternation."""
    return alternate({name: timed(run, fitting(run, seconds)) for name, run in runs.items()}, rounds)
