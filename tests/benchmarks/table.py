"""The table that README shows, and the file that pyperf reads."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

from .rows import OURS, Measured, Row

_QUICK = ", quick run (64 MiB of flood, 8 MiB and 10^5 frames judged)"
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
Found = list[tuple[Row, list[Measured]]]


def markdown(found: Found, *, quick: bool) -> str:
    """One line a row: goal, ours, verdict, the peers; then why some are not met, and machine, versions and date."""
    reasons = list[str]()
    lines = ["| what | goal | measured | | peers |", "|---|---|---|---|---|"]
    for row, measured in found:
        ours = next((one for one in measured if one.contestant == OURS), None)
        shown = "failed" if ours is None else _figure(ours.value, row)
        verdict = "" if ours is None else "met" if row.met(ours.value) else "**not met**"
        others = ", ".join(f"{one.contestant} {_figure(one.value, row)}" for one in measured if one.contestant != OURS)
        bound = "at most" if row.at_most else "at least"
        lines.append(f"| {row.what} | {bound} {row.goal:g}{_unit(row)} | {shown} | {verdict} | {others} |")
        if row.why and (ours is None or not row.met(ours.value)):
            reasons.append(f"- {row.what}: {row.why}")
    missed = ["", "What stands between:", "", *reasons] if reasons else []
    return "\n".join([*lines, *missed, "", machine(quick=quick)])


def _figure(value: float, row: Row) -> str:
    return f"{value:.2f}{_unit(row)}"


def _unit(row: Row) -> str:
    return "" if row.unit == "x" else f" {row.unit}"


def machine(*, quick: bool) -> str:
    """Where and when."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or "unknown processor",
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    load = os.getloadavg()[0]
    return (
        f"{today}, CPython {platform.python_version()}, stdout-guard {importlib.metadata.version('stdout-guard')}, "
        f"{platform.system()} {platform.release()}, {os.cpu_count()} x {model}, load {load:.1f}"
        f"{_QUICK if quick else ''}: ratios measured in alternation in one run by `python -m tests.benchmarks`."
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def replace(path: Path, text: str) -> None:
    """Put ``text`` between the two marks in a file. Raises SystemExit when they are not there."""
    whole = path.read_text("utf-8")
    if BEGIN not in whole or END not in whole:
        raise SystemExit(f"{path}: put {BEGIN} and {END} where the table is to stand")
    head, tail = whole.split(BEGIN, 1)[0], whole.split(END, 1)[1]
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", "utf-8")


def save(path: Path, found: Found) -> None:
    """Every round of every contestant as a pyperf benchmark suite: ``python -m pyperf stats FILE`` and compare_to."""
    import pyperf

    suite = [
        pyperf.Benchmark([pyperf.Run(one.values, metadata={"name": f"{row.name}: {one.contestant}"})])
        for row, measured in found
        for one in measured
        if one.values and all(one.values)
    ]
    pyperf.BenchmarkSuite(suite).dump(str(path), replace=True)
