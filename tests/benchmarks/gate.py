"""Gate rows: ``check`` over a clean server beside a minimal client that sends the same bytes and reads to the end."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stdout_guard.testing.conditions import SCRIPT

from .measure import Ratio, alternate
from .process import CLEAN, Child, ChildFailed
from .roundtrip import SERVERS
from .rows import OURS, Measured, Row, Run

IDLE = next(float(word.partition(":")[2]) for word in SCRIPT if word.startswith("idle:"))  # seconds; a step, too
HAND_WRITTEN = Path(__file__).parent.parent / "gate" / "servers" / "clean.py"


def _check(run: Run, server: tuple[str, ...], *options: str) -> None:
    """The verb as users call it, in its plain condition; raises when it does not say "clean"."""
    command = [run.python("newest"), "-m", "stdout_guard", "check", "--condition", "plain", *options, "--", *server]
    done = subprocess.run(command, env=CLEAN, capture_output=True, timeout=120, check=False)
    if done.returncode:
        raise ChildFailed(f"status {done.returncode}: {command}\n{done.stdout.decode()}\n{done.stderr.decode()}")


def _expected(sent: bytes) -> list[tuple[bytes, bool]]:
    """The lines that the gate sent, and which of them are answered: requests that are in order."""
    found: list[tuple[bytes, bool]] = []
    for line in sent.splitlines(keepends=True):
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        request = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and "id" in message
        found.append((line, request and isinstance(message.get("params", {}), dict)))
    return found


def _client(server: tuple[str, ...], lines: list[tuple[bytes, bool]]) -> None:
    """Start it, send each line, wait for each answer, be idle, close its input, read both streams to their end."""
    child = Child(server)
    for line, answered in lines:
        child.send(line)
        while answered and "id" in (message := json.loads(child.line())):
            if message["id"] == json.loads(line)["id"]:
                break
    time.sleep(IDLE)
    child.finish()


def _processor() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _over(run: Run, server: tuple[str, ...], rounds: int) -> Iterator[Measured]:
    """Ours and the client in alternation; the figure is the wall clock, which is what a release waits for."""
    folder = run.folder / "gate"
    _check(run, server, "--out", str(folder))
    (sent,) = folder.glob("*/plain/stdin.bin")
    lines = _expected(sent.read_bytes())
    subprocess.run(["rm", "-r", str(folder)], check=True)

    def timed(work: Callable[[], None]) -> Callable[[], tuple[float, float]]:
        def once() -> tuple[float, float]:
            began, used = time.perf_counter(), _processor()
            work()
            return time.perf_counter() - began, _processor() - used

        return once

    contestants = {OURS: timed(lambda: _check(run, server)), "client": timed(lambda: _client(server, lines))}
    found = alternate(contestants, rounds)
    ratio = Ratio.of(found[OURS], found["client"])
    least = {name: min(series.wall) for name, series in found.items()}
    times = f"{least[OURS]:.2f} s against {least['client']:.2f} s: {least[OURS] / least['client']:.2f}"
    silent = least[OURS] / (least["client"] - IDLE)
    detail = f"least {times}; CPU {ratio.cpu:.2f}; a client that leaves the idle step out: {silent:.2f}"
    yield Measured(OURS, ratio.wall, detail, tuple(found[OURS].wall))


def mcp2(run: Run) -> Iterator[Measured]:
    """A small server on mcp 2.x."""
    yield from _over(run, (run.python("newest"), "-c", SERVERS["mcp 2"].source), run.rounds(5, 15))


def hand_written(run: Run) -> Iterator[Measured]:
    """A server that starts in 50 ms: here the gate's own start is most of the time."""
    yield from _over(run, (run.python("newest"), str(HAND_WRITTEN)), run.rounds(5, 25))


ROWS = [
    Row("gate-mcp2", "check (plain) of a clean mcp 2.x server / a client doing the same steps", 1.3, mcp2),
    Row(
        "gate-bare",
        "check (plain) of a hand-written server that starts in 50 ms / the same",
        1.3,
        hand_written,
        why="the gate is a Python program that starts, judges and reports, which takes its time whatever it sees; the "
        "client here does neither. The judge is loaded while the server starts.",
    ),
]
