"""Start-up rows: a process from its birth to its end, or to an SDK server's first answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import peers
from .measure import Ratio, alternate
from .process import Child, run_out
from .roundtrip import HELLO, SERVERS
from .rows import OURS, Measured, Row, Run

ASYNC = "import asyncio, subprocess\n"


def _bare(run: Run, body: str, names: tuple[str, ...], rounds: tuple[int, int] = (25, 120)) -> Iterator[Measured]:
    """A process that does ``body`` and ends, behind each contestant's lines."""
    python, contestants = run.python("peers"), dict[str, Callable[[], tuple[float, float]]]()
    for name in names:
        environment = {"STDOUT_GUARD": "off"} if name == peers.OFF else {}
        command = (python, "-c", peers.AT_START[name] + body)

        def once(command: tuple[str, ...] = command, environment: dict[str, str] = environment) -> tuple[float, float]:
            _, wall, cpu = run_out(command, environment)
            return wall, cpu

        contestants[name] = once
    yield from against_nothing(alternate(contestants, run.rounds(*rounds)))


def against_nothing(found: dict[str, object]) -> Iterator[Measured]:  # series by contestant
    """The CPU ratio is the figure: child CPU time repeats to a few per cent where wall clock does not."""
    base = found[peers.NOTHING]
    for name, series in found.items():
        if name != peers.NOTHING:
            ratio = Ratio.of(series, base)  # type: ignore[arg-type]
            detail = f"wall {ratio.wall:.2f}, least {ratio.least:.2f}, {min(series.cpu) * 1e3:.1f} ms of CPU"  # type: ignore[attr-defined]
            yield Measured(name, ratio.cpu, detail, tuple(series.cpu))  # type: ignore[attr-defined]


def bare(run: Run) -> Iterator[Measured]:
    """An empty program."""
    every = (peers.NOTHING, OURS, peers.STDERR, peers.DUP2, peers.QUIETMCP, peers.WURLITZER)
    yield from _bare(run, "", every)


def off(run: Run) -> Iterator[Measured]:
    """An empty program under STDOUT_GUARD=off."""
    for found in _bare(run, "", (peers.NOTHING, peers.OFF)):
        yield Measured(OURS, found.value, found.detail, found.values)


def imports(run: Run) -> Iterator[Measured]:
    """What most servers import, SDK or not."""
    every = (peers.NOTHING, OURS, peers.DUP2, peers.QUIETMCP, peers.WURLITZER)
    yield from _bare(run, ASYNC, every, (12, 50))


def mcp2(run: Run) -> Iterator[Measured]:
    """A server on mcp 2.x, to its answer to initialize and its end at end of input."""
    python = run.python("newest")

    def contestant(name: str) -> Callable[[], tuple[float, float]]:
        def once() -> tuple[float, float]:
            child = Child((python, "-c", peers.OF_SDKS[name] + SERVERS["mcp 2"].source), {"PYTHONPATH": run.peers()})
            child.send(HELLO["mcp"][0])
            child.line()
            return child.finish()

        return once

    found = alternate({name: contestant(name) for name in peers.OF_SDKS}, run.rounds(4, 15))
    yield from against_nothing(found)  # type: ignore[arg-type]


def _import_times(run: Run, lines: str, python: str) -> str:
    child, _, _ = run_out((run.python(python), "-X", "importtime", "-c", lines))
    rows = [row for row in bytes(child.errors).decode().splitlines() if row.startswith("import time:")]
    return "\n".join([rows[0], *sorted(rows[1:], key=lambda row: -int(row.split("|")[0].split(":")[1]))[:30]])


ROWS = [
    Row(
        "startup",
        "bare start-up with the guard / bare Python",
        1.25,
        bare,
        profile=lambda run: _import_times(run, peers.AT_START[OURS], "peers"),
        why="three milliseconds over a process of eleven: two thirds are the code of six files read, a tenth the C "
        "modules select and fcntl (built into some interpreters: 1.25 on Debian's), the rest pipes and the pump. Fewer "
        "files, no errno and no deque, hooks loaded late took it from 1.35; loading the report at the first stray "
        "would take it below, but a signal handler or a fork could meet it half loaded.",
    ),
    Row("startup-off", "the same with STDOUT_GUARD=off", 1.1, off),
    Row(
        "startup-imports",
        "start-up of a server that imports asyncio and subprocess, guarded / not",
        1.1,
        imports,
        profile=lambda run: _import_times(run, peers.AT_START[OURS] + ASYNC, "peers"),
    ),
    Row(
        "startup-mcp2",
        "start-up of an mcp 2.x server to its first answer and its end, guarded / not",
        1.03,
        mcp2,
        why="within what runs of the same code differ (1.00 to 1.04): 10 ms of guard and wrapt in a process of 800.",
        profile=lambda run: _import_times(run, peers.OF_SDKS[OURS] + "import mcp.server.stdio\n", "newest"),
    ),
]
