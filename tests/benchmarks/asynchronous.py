"""The asynchronous wire under unmodified MCP SDKs: small calls, large results, and a client that reads slowly."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import peers
from .measure import Ratio, Series, alternate
from .process import Child
from .roundtrip import Server, start
from .rows import OURS, Measured, Row, Run

TOOLS = """
import time, anyio
@server.tool()
async def echo(text: str) -> str:
    return text
@server.tool()
def plain(text: str) -> str:
    return text
@server.tool()
async def big(size: int) -> str:
    return "x" * size
@server.tool()
async def lag(seconds: float) -> str:
    worst, end = 0.0, time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        await anyio.sleep(0.002)
        worst = max(worst, time.monotonic() - begun - 0.002)
    return str(worst)
"""
SERVERS = {
    "mcp 1": Server("mcp1", f"from mcp.server.fastmcp import FastMCP\nserver = FastMCP('b')\n{TOOLS}server.run()\n"),
    "mcp 2": Server(
        "newest", f"from mcp.server import MCPServer\nserver = MCPServer('b')\n{TOOLS}server.run('stdio')\n"
    ),
    "FastMCP 4": Server(
        "newest", f"from fastmcp import FastMCP\nserver = FastMCP('b')\n{TOOLS}server.run(show_banner=False)\n"
    ),
}
THREADS = "stdout-guard, threads"
TOOL = {"echo": "", "plain": ", def tool"}  # mcp 2 and FastMCP run a def tool in a thread of theirs
Contestant = Callable[[], tuple[float, float]]
PRELUDES = {
    peers.NOTHING: "",
    OURS: "import stdout_guard\nstdout_guard.install(async_wire=True)\n",
    THREADS: peers.OF_SDKS[OURS],
}


def _call(ident: int, tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}).encode() + b"\n"


def at_once(child: Child, tool: str, flight: int, count: int) -> tuple[float, float]:
    """Wall and CPU seconds of a small call, ``flight`` of them in flight, ``count`` times."""
    request = b"".join(_call(ident, tool, text="x" * 100) for ident in range(flight))
    cpu, wall = child.cpu(), time.perf_counter()
    for _ in range(count):
        child.send(request)
        found = sorted(json.loads(child.line())["id"] for _ in range(flight))
        if found != list(range(flight)):
            raise AssertionError(f"not each call was answered once: {found}")
    wall = time.perf_counter() - wall
    return wall / count / flight, (child.cpu() - cpu) / count / flight


def large(child: Child, count: int) -> tuple[float, float]:
    """Wall and CPU seconds of a call with a result of 1 MB."""
    cpu, wall = child.cpu(), time.perf_counter()
    for _ in range(count):
        child.send(_call(7, "big", size=1_000_000))
        child.line()
    wall = time.perf_counter() - wall
    return wall / count, (child.cpu() - cpu) / count


def lag(child: Child) -> tuple[float, float]:
    """Seconds that a task of the server was late at worst while the client reads three large results slowly."""
    child.send(_call(0, "lag", seconds=0.6) + b"".join(_call(ident, "big", size=1_000_000) for ident in (1, 2, 3)))
    answers: list[dict[str, Any]] = []
    while len(answers) < 4:
        time.sleep(0.003)
        child._read(16384)
        while b"\n" in child.buffer:
            answers.append(json.loads(child.line()))
    (found,) = (answer["result"]["content"][0]["text"] for answer in answers if answer["id"] == 0)
    return float(found), 1.0


def measure(
    name: str, once: Callable[[Run, Child, str], Contestant], tools: tuple[str, ...], run: Run
) -> Iterator[Measured]:
    """One SDK, the contestants asked in turn; each tool's ratio to the stock server's."""
    alive = {rival: start(run, SERVERS[name], prelude) for rival, prelude in PRELUDES.items()}
    turns = {f"{rival}{TOOL[tool]}": once(run, child, tool) for tool in tools for rival, child in alive.items()}
    found = alternate(turns, run.rounds(30, 120))
    for child in alive.values():
        child.finish()
    for tool in tools:
        for rival in (OURS, THREADS):
            series = found[f"{rival}{TOOL[tool]}"]
            ratio = Ratio.of(series, found[f"{peers.NOTHING}{TOOL[tool]}"])
            detail = f"CPU {ratio.cpu:.2f}, {min(series.wall) * 1e6:.0f} us"
            yield Measured(f"{rival}{TOOL[tool]}", ratio.wall, detail, tuple(series.wall))


def measure_lag(name: str, run: Run) -> Iterator[Measured]:
    """How much later than in the stock server, in milliseconds: medians of each round's worst."""
    alive = {rival: start(run, SERVERS[name], prelude) for rival, prelude in PRELUDES.items()}
    found = alternate({rival: partial(lag, child) for rival, child in alive.items()}, run.rounds(5, 20))
    for child in alive.values():
        child.finish()
    base = _median(found[peers.NOTHING])
    for rival, series in found.items():
        if rival != peers.NOTHING:
            yield Measured(rival, _median(series) - base, f"stock {base:.1f} ms", tuple(series.wall))


def _median(series: Series) -> float:
    return statistics.median(series.wall) * 1e3


def _small(flight: int, run: Run, child: Child, tool: str) -> Contestant:
    return partial(at_once, child, tool, flight, 10 if flight == 1 else 1)


def _large(run: Run, child: Child, tool: str) -> Contestant:
    return partial(large, child, 2)


def _rows(name: str, one: float, many: float) -> Iterator[Row]:
    short, what = "async-" + name.replace(" ", "").lower(), f"asynchronous wire, {name}: "
    both = tuple(TOOL)
    yield Row(
        short, f"{what}a call of an async tool, guarded / not", one, partial(measure, name, partial(_small, 1), both)
    )
    yield Row(f"{short}-64", f"{what}the same, 64 in flight", many, partial(measure, name, partial(_small, 64), both))
    yield Row(f"{short}-1mb", f"{what}a result of 1 MB", 1.1, partial(measure, name, _large, both[:1]))
    lag = partial(measure_lag, name)
    yield Row(f"{short}-lag", f"{what}how much later than stock a task is beside a slow client", 10, lag, unit="ms")


GOALS = {"mcp 1": (0.9, 0.8), "mcp 2": (0.7, 0.6), "FastMCP 4": (0.9, 0.8)}
ROWS = [row for name, goals in GOALS.items() for row in _rows(name, *goals)]
