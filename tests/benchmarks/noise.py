"""What strays cost: a print, a flood from native code, and what the flood does to frames."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from . import peers
from .measure import Ratio, Series
from .process import Child, run_out
from .rows import OURS, Measured, Row, Run

PROGRAMS = Path(__file__).parent / "programs"
LINE = b"a line of native output, such as a solver or a compiler prints by the thousand, 100 bytes with its end\n"
BLOCK = 1 << 20


def block(run: Run) -> Path:
    """A file of 1 MiB of whole lines."""
    path = run.folder / "block.txt"
    if not path.exists():
        path.write_bytes(LINE * (BLOCK // len(LINE)))
    return path


def stray_print(run: Run) -> Iterator[Measured]:
    """print() beside print(file=sys.stderr), in turns within one process of each contestant. The reader pauses: prints
    to stderr follow each other so fast that they find it awake, ours would wake it each time, for 10 us and more."""
    for name in (OURS, peers.STDERR, peers.DUP2, peers.QUIETMCP, peers.WURLITZER):
        file = run.folder / "printing.json"
        program = str(PROGRAMS / "printing.py")
        command = (run.python("peers"), program, peers.BY_HAND[name], str(run.rounds(15, 100)), str(file))
        run_out(command, pause=0.001)
        found = {key: Series(*both) for key, both in json.loads(file.read_bytes()).items()}
        ratio = Ratio.of(found["stray"], found["stderr"])
        detail = f"CPU of the thread {ratio.cpu:.2f}, {min(found['stray'].wall) * 1e6:.1f} us"
        yield Measured(name, ratio.wall, detail, tuple(found["stray"].wall))


def profile_print(run: Run) -> str:
    """cProfile over 20,000 stray prints."""
    child, _, _ = run_out((run.python("peers"), str(PROGRAMS / "printing.py"), peers.BY_HAND[OURS], "profile"))
    text = bytes(child.errors).decode("utf-8", "replace")
    return text[text.rindex("function calls") - 20 :]


def _flood(run: Run, lines: str, way: str, times: int) -> tuple[float, int]:
    """Bytes a second that came through, and how many lines did not."""
    child = Child((run.python("peers"), str(PROGRAMS / "flooding.py"), lines, str(block(run)), str(times), way))
    child.close_stdin()
    first, last, came, pieces = 0.0, 0.0, 0, list[bytes]()
    while child.open and child._read():
        if not first and child.errors.startswith(b"start\n"):
            first = time.perf_counter()
        if child.errors:
            pieces.append(bytes(child.errors))
            last = time.perf_counter()
            child.errors.clear()
    child.finish()
    came = b"".join(pieces).count(LINE[:40])
    wanted = times * (BLOCK // len(LINE))
    return came * len(LINE) / (last - first), wanted - came


def native_flood(run: Run) -> Iterator[Measured]:
    """A child of the server that floods fd 1, read off stderr with its tags; the base is one more cat in between."""
    times, rates, lost = run.rounds(16, 64), dict[str, list[float]](), dict[str, int]()
    rivals = {"cat": ("", "cat"), OURS: (peers.AT_START[OURS], "direct"), peers.WURLITZER: ("", "direct")}
    rivals[peers.WURLITZER] = (peers.BY_HAND[peers.WURLITZER], "direct")
    for _ in range(run.rounds(3, 5)):
        for name, (lines, way) in rivals.items():
            rate, missing = _flood(run, lines, way, times)
            rates.setdefault(name, []).append(rate)
            lost[name] = lost.get(name, 0) + missing
    for name in list(rivals)[1:]:
        ratio = statistics.median(a / b for a, b in zip(rates[name], rates["cat"], strict=True))
        detail = f"{statistics.median(rates[name]) / 1e6:.0f} MB/s, {lost[name]} lines lost"
        yield Measured(name, 0.0 if lost[name] else ratio, detail, tuple(rates[name]))


def _latencies(child: Child, count: int) -> list[float]:
    took = list[float]()
    for _ in range(count):
        started = time.perf_counter()
        child.send(b"ping\n")
        child.line()
        took.append(time.perf_counter() - started)
    return took


def _settle(child: Child) -> None:
    """Until what is left of the flood has been carried off, or the next quiet would not be quiet."""
    before = -1.0
    while child.cpu() - before > 0.0005:
        before = child.cpu()
        time.sleep(0.05)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def flooded_latency(run: Run) -> Iterator[Measured]:
    """The 99th percentile of request and answer: 500 quiet, 500 while a child floods, in turns."""
    for name in (OURS, peers.DUP2, peers.WURLITZER):
        sink = subprocess.Popen(["/bin/sh", "-c", "exec cat >/dev/null"], stdin=subprocess.PIPE)
        assert sink.stdin is not None
        lines = peers.BY_HAND[name]
        child = Child(
            (run.python("peers"), str(PROGRAMS / "echoing.py"), lines, str(block(run))), sink=sink.stdin.fileno()
        )
        ratios, worst, calm = list[float](), list[float](), list[float]()
        _latencies(child, 50)
        for _ in range(run.rounds(5, 15)):
            quiet = _latencies(child, 500)
            child.send(b"flood\n")
            child.line()
            loud = _latencies(child, 500)
            child.send(b"quiet\n")
            child.line()
            _settle(child)
            ratios.append(_p99(loud) / _p99(quiet))
            worst.append(_p99(loud))
            calm.append(_p99(quiet))
        child.finish()
        sink.stdin.close()
        sink.wait(30)
        detail = f"p99 {statistics.median(worst) * 1e3:.2f} ms, quiet {statistics.median(calm) * 1e3:.2f} ms"
        yield Measured(name, statistics.median(ratios), detail, tuple(worst))


ROWS = [
    Row(
        "print",
        "a stray print, guarded / print to stderr",
        4.0,
        stray_print,
        profile=profile_print,
        why="print() writes each value and blank by itself, and each is looked at so that the writer's frame is still "
        "there; a line then costs a walk up the stack, a record and four system calls (whose process, whose folder, "
        "whose stderr, the write), where print to stderr makes one. Buffering in C would be faster, and would name "
        "the wrong line and mix threads.",
    ),
    Row(
        "flood",
        "native flood through the channel / `cat` (throughput; 0: a line lost)",
        0.6,
        native_flood,
        False,
        why="every line is checked, counted, tagged and sent in writes of 4 KiB, which stay whole beside other writers "
        "of stderr; cat moves 128 KiB unseen. Rendering plain blocks in bulk brought it from 0.02. Writes of 64 KiB "
        "wait for room and were slower; reads of 256 KiB gave less than the spread between runs.",
    ),
    Row(
        "latency",
        "p99 of frame latency while a child floods stdout / quiet",
        3.0,
        flooded_latency,
        why="the server waits for the interpreter while the pump renders a chunk, 0.4 ms at worst. The pump reads less "
        "and sleeps 50 us between chunks while frames flow. Two cores for the child, the reader and the server are "
        "few: the dup2 snippet, where no Python code sees the flood, measured 2.4 to 6.5.",
    ),
]
