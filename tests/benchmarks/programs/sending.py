"""Runs in a child: what one frame costs through FrameWriter, beside what it would be written with else.

argv: rounds. stdout: the wire, read by the parent; the figures go to stderr as one JSON object.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stdout_guard.auto import guard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import alternate, compare

from stdout_guard.writer import FrameWriter

RESULT = {"content": [{"type": "text", "text": "x" * 110}], "isError": False}
MESSAGE = {"jsonrpc": "2.0", "id": 12, "result": RESULT}
BODY = json.dumps(MESSAGE, separators=(",", ":")).encode()
FRAME = BODY + b"\n"

buffered = os.fdopen(os.dup(guard.wire.fileno()), "wb")  # what sys.stdout.buffer is without a guard
unbuffered = os.fdopen(os.dup(guard.wire.fileno()), "wb", 0)
checked, trusting = FrameWriter(guard.wire), FrameWriter(guard.wire, check=False)


def raw(count: int) -> None:
    for _ in range(count):
        buffered.write(FRAME)
        buffered.flush()


def dumps(count: int) -> None:
    for _ in range(count):
        buffered.write(json.dumps(MESSAGE).encode() + b"\n")
        buffered.flush()


def bare(count: int) -> None:
    for _ in range(count):
        unbuffered.write(FRAME)


def wire(count: int) -> None:
    for _ in range(count):
        guard.wire.write(FRAME)


def sending(writer: FrameWriter, message: Any) -> Callable[[int], None]:
    def send(count: int) -> None:
        for _ in range(count):
            writer.send(message)

    return send


RUNS: dict[str, Callable[[int], None]] = {
    "raw": raw,
    "dumps": dumps,
    "unbuffered": bare,
    "wire": wire,
    "send unchecked": sending(trusting, BODY),
    "send checked": sending(checked, BODY),
    "send mapping": sending(checked, MESSAGE),
}


def paced(run: Callable[[int], None], frames: int = 25) -> Callable[[], tuple[float, float]]:
    """One frame at a time to a client that waits for it: the write wakes the reader, as an answer does."""
    left = bytearray(4)

    def once() -> tuple[float, float]:
        wall = cpu = 0.0
        for _ in range(frames):
            while True:  # until the reader has taken what was sent, and has had the time to sleep again
                fcntl.ioctl(buffered.fileno(), termios.FIONREAD, left)
                time.sleep(0.0002)
                if not any(left):
                    break
            began, used = time.perf_counter(), time.thread_time()
            run(1)
            cpu += time.thread_time() - used
            wall += time.perf_counter() - began
        return wall / frames, cpu / frames

    return once


def main() -> None:
    if sys.argv[1] == "profile":
        import cProfile
        import pstats

        with cProfile.Profile() as profile:
            for name in ("send unchecked", "send checked", "send mapping"):
                RUNS[name](20_000)
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(20)
        return
    rounds = int(sys.argv[1])
    burst = compare(RUNS, rounds)
    waited = alternate({name: paced(run) for name, run in RUNS.items()}, rounds)
    figures = [{name: [one.wall, one.cpu] for name, one in found.items()} for found in (burst, waited)]
    json.dump(figures, sys.stderr)


if __name__ == "__main__":
    main()
