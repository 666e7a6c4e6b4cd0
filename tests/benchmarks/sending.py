"""What one frame of 200 bytes costs through FrameWriter, beside a plain write. One process, its stdout a pipe."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .measure import Ratio, Series
from .process import run_out
from .rows import OURS, Measured, Row, Run

PROGRAM = str(Path(__file__).parent / "programs" / "sending.py")


@functools.cache
def _series(run: Run) -> list[dict[str, Series]]:
    child, _, _ = run_out((run.python("peers"), PROGRAM, str(run.rounds(40, 150))))
    return [{name: Series(*both) for name, both in found.items()} for found in json.loads(bytes(child.errors))]


def measure(ours: str, base: str, run: Run) -> Iterator[Measured]:
    """The figure is wall clock for one frame to a client that waits for it; the burst is CPU time, back to back.

    In a burst the plain write is a copy into a pipe whose reader is awake: 0.7 us, a quarter of what json.loads takes.
    """
    burst, waited = _series(run)
    for name, label in ((ours, OURS), ("wire", "guard.wire.write"), ("unbuffered", "an unbuffered file's write")):
        one, many = Ratio.of(waited[name], waited[base]), Ratio.of(burst[name], burst[base])
        detail = (
            f"{statistics.median(waited[name].wall) * 1e6:.1f} us, CPU {one.cpu:.2f}; "
            f"in a burst {many.cpu:.2f}, {min(burst[name].cpu) * 1e6:.2f} us"
        )
        yield Measured(label, one.wall, detail, tuple(waited[name].wall))


def profile(run: Run) -> str:
    """cProfile over the three ways to send."""
    child, _, _ = run_out((run.python("peers"), PROGRAM, "profile"))
    return bytes(child.errors).decode()


_PLAIN = "`sys.stdout.buffer.write` + flush"
ROWS = [
    Row(
        "send-off",
        f"`FrameWriter.send(bytes)` of 200 bytes, check off / {_PLAIN}",
        2.0,
        partial(measure, "send unchecked", "raw"),
        profile=profile,
    ),
    Row(
        "send-on",
        f"the same, shape check on / {_PLAIN}",
        3.0,
        partial(measure, "send checked", "raw"),
        profile=profile,
        why="3.0 to 3.2 in runs of the same code: the frame is decoded strictly and its shape looked at before a byte "
        "is out, and the wire's own checks come on top.",
    ),
    Row(
        "send-mapping",
        "`send(mapping)` / `json.dumps` + write + flush",
        1.6,
        partial(measure, "send mapping", "dumps"),
        profile=profile,
    ),
]
