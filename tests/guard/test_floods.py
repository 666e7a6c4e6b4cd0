"""Many native lines at once are shown in bulk, and nobody can tell it from line by line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard.harness import Result

LINES = [f"line {number} of a solver, \t{'=' * (number * 37 % 2900)} ~" for number in range(300)]
ODD = {
    "escape": ("\x1b[2Jgone", "\\x1b[2Jgone"),
    "command": ("##vso[task.complete]", "#\\x23vso[task.complete]"),
    "long": ("y" * 3500, f"{'y' * 500} ...[2800 of 3500 characters cut]... {'y' * 200}"),
    "frame": (
        '{"jsonrpc":"2.0","id":9,"result":{}}',
        "this looks like a protocol frame, but it was written to fd 1, so no client saw it; write frames to "
        'guard.wire: {"jsonrpc":"2.0","id":9,"result":{}}',
    ),
    "redrawn": ("10%\r20%\r30%", "30%"),
    "other letters": ("naïve 漢字", "naïve 漢字"),
}


@pytest.mark.parametrize("odd", [None, *ODD])
def test_a_flood_is_shown_line_by_line(run: Callable[..., Result], odd: str | None) -> None:
    """Each line comes whole, in order, once, with its prefix, also beside one that needs care; the counts are exact and
    the newest 1,000 records are kept, as they are when lines come alone.

    Seen to fail with the bulk taken for every block (the escape arrives alive), with its records not kept, and with
    its lines counted once.
    """
    raw, shown = ODD[odd] if odd else ("plain", "plain")
    done = run(
        f"""
import os, time
lines = {[*LINES, raw, *LINES, *LINES, *LINES]!r}
data = "".join(line + "\\n" for line in lines).encode()
while data: data = data[os.write(1, data):]
os.write(1, b"the end\\n")
while guard.counts.strays < 1202: time.sleep(0.01)
assert guard.counts.fd1 == 1202 and guard.counts.places == (("[fd 1]", 1202),), guard.counts
kept = [stray.text for stray in guard.strays]
assert len(kept) == 1000 and kept[-1] == "the end" and kept[:-1] == [line.rpartition("\\r")[2] for line in lines[-999:]]
assert {{(stray.source, stray.where) for stray in guard.strays}} == {{("fd1", "[fd 1]")}}
answer()
"""
    )
    assert done.status == 0
    assert done.report == [f"[fd 1]: {line}" for line in [*LINES, shown, *LINES, *LINES, *LINES, "the end"]]
