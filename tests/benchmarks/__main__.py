"""How fast the project is: every row a ratio measured in alternation in this run, peers beside us. Not a test.

python -m tests.benchmarks [--quick] [--only NAME ...] [--table FILE] [--json FILE] [--profile NAME] [--list]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from . import asynchronous, gate, judging, load, noise, roundtrip, sending, startup, table
from .rows import OURS, Measured, Row, Run

PARTS = (startup, sending, roundtrip, asynchronous, noise, load, judging, gate)
ROWS: dict[str, Row] = {row.name: row for part in PARTS for row in part.ROWS}


def chosen(names: list[str]) -> list[Row]:
    """The rows whose name is, or begins with, one of ``names``; all when there are none."""
    found = [row for row in ROWS.values() if not names or any(row.name.startswith(name) for name in names)]
    if not found:
        raise SystemExit(f"no row is named {', '.join(names)}: {', '.join(ROWS)}")
    return found


def take(row: Row, run: Run) -> list[Measured]:
    """Measure one row, telling its figures as they come; a row that fails is an empty one, with the reason told."""
    print(f"{row.name}: {row.what}", file=sys.stderr, flush=True)
    started, found = time.perf_counter(), list[Measured]()
    try:
        for measured in row.measure(run):
            found.append(measured)
            value = f"{measured.value:.2f} {row.unit}"
            print(f"    {measured.contestant:24} {value:>10}   {measured.detail}", file=sys.stderr, flush=True)
    except Exception as error:
        print(f"    failed: {type(error).__name__}: {error}", file=sys.stderr)
    ours = next((measured.value for measured in found if measured.contestant == OURS), None)
    verdict = "failed" if ours is None else "met" if row.met(ours) else "not met"
    bound = "at most" if row.at_most else "at least"
    print(f"    {bound} {row.goal} {row.unit}: {verdict} ({time.perf_counter() - started:.0f} s)", file=sys.stderr)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes: under three minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="rows whose names begin so")
    parser.add_argument("--table", type=Path, metavar="FILE", help="put the table between the marks in this file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every round, for pyperf (which must be installed)")
    parser.add_argument("--profile", metavar="NAME", help="show where a row's time goes, and measure nothing")
    parser.add_argument("--list", action="store_true", help="the rows and their goals")
    options = parser.parse_args()
    if options.json:
        import pyperf  # noqa: F401  # missing: said now, not after ten minutes
    if options.list:
        for row in ROWS.values():
            print(f"{row.name:16} {'<=' if row.at_most else '>='} {row.goal:<5} {row.unit:4} {row.what}")
        return
    with tempfile.TemporaryDirectory(prefix="stdout-guard-bench-") as folder:
        run = Run(options.quick, Path(folder))
        if options.profile:
            row = ROWS[options.profile]
            if row.profile is None:
                raise SystemExit(f"{row.name} has no profile: {', '.join(n for n, r in ROWS.items() if r.profile)}")
            print(row.profile(run))
            return
        found = [(row, take(row, run)) for row in chosen(options.only)]
    text = table.markdown(found, quick=options.quick)
    print(text)
    if options.table:
        table.replace(options.table, text)
    if options.json:
        table.save(options.json, found)


if __name__ == "__main__":
    main()
