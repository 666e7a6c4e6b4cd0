"""Runs in a child: a stray print beside a print to stderr. argv: contestant's lines, rounds or "profile", file.

The figures go to the file named last.
"""

from __future__ import annotations

import sys

exec(sys.argv[1])

import json  # noqa: E402
from pathlib import Path  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import compare  # noqa: E402

ERROR = sys.stderr


def stray(count: int) -> None:
    for number in range(count):
        print("listing tables of database", number)


def to_stderr(count: int) -> None:
    for number in range(count):
        print("listing tables of database", number, file=ERROR)


if sys.argv[2] == "profile":
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        stray(20_000)
    pstats.Stats(profile, stream=ERROR).sort_stats("tottime").print_stats(25)
else:
    found = compare({"stderr": to_stderr, "stray": stray}, int(sys.argv[2]))
    ERROR.flush()
    sys.stdout.flush()
    with open(sys.argv[3], "w") as file:
        json.dump({name: [series.wall, series.cpu] for name, series in found.items()}, file)
