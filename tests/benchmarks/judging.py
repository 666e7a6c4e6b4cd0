"""What judging costs, as a multiple of json.loads over the same frames: by kind of frame, by size, by number."""

from __future__ import annotations

import contextlib
import cProfile
import ctypes
import gc
import io
import json
import pstats
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stdout_guard.boundary import AuthorizedAction, Boundary, Tool
from stdout_guard.transcript import judge

from .measure import Ratio, Series, compare
from .rows import OURS, Measured, Row, Run

TOOL = {
    "name": "get_weather",
    "description": "Current weather for a place. Units are metric unless asked otherwise.\nSee also: forecasts.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "city or coordinates"},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "days": {"type": "integer", "minimum": 0},
        },
        "required": ["location"],
    },
}
WORDS = "The quick brown fox jumps over the lazy dog, and then it rests; "


def _packed(message: object) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def result(value: object) -> bytes:
    """An answer."""
    return _packed({"jsonrpc": "2.0", "id": 12, "result": value})


def text(size: int) -> bytes:
    """A tool's answer with so much text."""
    return result({"content": [{"type": "text", "text": (WORDS * (size // len(WORDS) + 1))[:size]}], "isError": False})


# what servers send all day; the first column of the table is the worst of these
ORDINARY = {
    "text 200 B": text(100),
    "text 1 KiB": text(900),
    "text 8 KiB": text(8000),
    "text 64 KiB": text(65000),
    "10 tools": result({"tools": [TOOL] * 10}),
    "50 tools": result({"tools": [TOOL] * 50}),
    "progress": _packed(
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "t", "progress": 0.5}}
    ),
}
OTHERS = {
    "text 1 MiB": text(1 << 20),
    "lines 64 KiB": text(65000).replace(b"; ", b"\\n"),
    "5000 floats": result({"vector": [0.123456 + index for index in range(5000)]}),
    "1000 rows": result({"rows": [{"id": index, "name": "row", "ok": True} for index in range(1000)]}),
}
SIZES = [1 << 20, 1 << 23, 1 << 26]


def _loads(frames: list[bytes]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            for frame in frames:
                json.loads(frame)

    return run


def _repeat(judged: Callable[[], object]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            judged()

    return run


def _worst(found: dict[str, tuple[Series, Series]], others: tuple[str, ...] = ()) -> Iterator[Measured]:
    """The median kind of ordinary frame is the figure; every kind is in the details."""
    ratios = {name: Ratio.of(ours, base).cpu for name, (ours, base) in found.items()}
    ordinary = [ratio for name, ratio in ratios.items() if name not in others]
    detail = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    yield Measured(OURS, statistics.median(ordinary), detail, tuple(ordinary))


def judging(run: Run) -> Iterator[Measured]:
    """judge() of 256 KiB of each kind."""
    found = {}
    for name, frame in (ORDINARY | OTHERS).items():
        count = max(1, (1 << 18) // len(frame))
        data = (frame + b"\n") * count
        runs = {"loads": _loads([frame] * count), "judge": _repeat(lambda data=data: judge(data))}  # type: ignore[misc]
        series = compare(runs, run.rounds(9, 60))
        found[name] = series["judge"], series["loads"]
    yield from _worst(found, tuple(OTHERS))


# ------------------------------------------------------------------------------------------------------------ boundary

_OPENING = (
    _packed(
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        }
    )
    + b"\n"
    + _packed({"jsonrpc": "2.0", "method": "notifications/initialized"})
    + b"\n"
)


def _calls(size: int, count: int) -> list[bytes]:
    filler = (WORDS * (size // len(WORDS) + 1))[:size]
    return [
        _packed(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": {"text": filler}},
            }
        )
        for number in range(1, count + 1)
    ]


def _valid(arguments: Mapping[str, Any]) -> bool:
    return isinstance(arguments.get("text"), str)


def _boundary() -> Boundary:
    """With a validator that costs next to nothing: what jsonschema takes is not ours."""
    boundary = Boundary([Tool("echo", validate=_valid)], lambda call: True)
    boundary.feed(_OPENING)
    return boundary


def _fed(data: bytes) -> int:
    return sum(isinstance(event, AuthorizedAction) for event in _boundary().feed(data))


def feeding(run: Run) -> Iterator[Measured]:
    """Boundary.feed() of tool calls, each to an authorised action; 1 MiB a session, since opening one is no feeding."""
    found = {}
    for size in (100, 1000, 8000, 65000):
        frames = _calls(size, (1 << 20) // size)
        data = b"".join(frame + b"\n" for frame in frames)
        assert _fed(data) == len(frames), "a call was refused: nothing was measured"
        runs = {"loads": _loads(frames), "feed": _repeat(lambda data=data: _fed(data))}  # type: ignore[misc]
        series = compare(runs, run.rounds(7, 40))
        found[f"call {size} B"] = series["feed"], series["loads"]
    yield from _worst(found)


# ------------------------------------------------------------------------------------------------------------ linear


def _growth(make: Callable[[int], bytes], small: int, large: int) -> tuple[float, float]:
    """How much more a unit costs in one input of ``large`` units than in as many small ones one after the other (short
    runs alone would meet a faster processor), and its seconds in the large one."""
    ratios, least = list[float](), float("inf")
    for _ in range(2):
        took = list[float]()
        for units, times in ((small, large // small), (large, 1)):
            data = make(units)
            started = time.thread_time()
            for _ in range(times):
                judge(data)
            took.append((time.thread_time() - started) / (units * times))
        ratios.append(took[1] / took[0])
        least = min(least, took[1])
    return statistics.mean(ratios), least


def linear(run: Run) -> Iterator[Measured]:
    """Time for a byte at the largest size and for a frame at the largest number, over those at the smallest."""
    mixed = [ORDINARY[name] for name in ("text 200 B", "progress", "text 1 KiB", "10 tools", "text 8 KiB")]
    unit, frame = b"\n".join(mixed) + b"\n", ORDINARY["progress"] + b"\n"
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc keeps large blocks or gives them back by what was freed before,
        ctypes.CDLL(None).mallopt(-3, 1 << 16)  # which doubles the cost of a byte or not: here they always go back
    size, count = (SIZES[1], 100_000) if run.quick else (SIZES[2], 1_000_000)
    bytes_ratio, a_byte = _growth(lambda size: unit * (size // len(unit)), SIZES[0], size)
    frames_ratio, a_frame = _growth(lambda count: frame * count, 10_000, count)
    one_ratio, in_one = _growth(lambda size: text(size) + b"\n", 3 << 20, 9 << 20)  # neither fits a cache
    ratios = (bytes_ratio, frames_ratio, one_ratio)
    detail = f"{size >> 20} MiB: {bytes_ratio:.2f}, {a_byte * 1e9:.1f} ns a byte"
    detail += f"; {count} frames: {frames_ratio:.2f}, {a_frame * 1e6:.1f} us each"
    detail += f"; one frame of 9 MiB: {one_ratio:.2f}, {in_one * 1e9:.1f} ns a byte"
    yield Measured(OURS, max(ratios), detail, ratios)


def _profiled(run: Callable[[], object]) -> str:
    with cProfile.Profile() as profile:
        run()
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(25)
    return out.getvalue()


ROWS = [
    Row(
        "judge",
        "`judge` / `json.loads` on ordinary frames (median of the kinds)",
        2.0,
        judging,
        profile=lambda run: _profiled(
            lambda: judge((ORDINARY["text 200 B"] + b"\n" + ORDINARY["progress"] + b"\n") * 20_000)
        ),
    ),
    Row(
        "boundary",
        "`Boundary.feed` / `json.loads` on ordinary calls (median of the sizes)",
        3.0,
        feeding,
        profile=lambda run: _profiled(lambda: _fed(b"".join(frame + b"\n" for frame in _calls(100, 20_000)))),
    ),
    Row(
        "linear",
        "`judge`, linear: cost of a byte or frame at 64 MiB, 10^6 frames, in one 9 MiB frame / at 1 MiB, 10^4, 3 MiB",
        1.5,
        linear,
        why="quick runs of the same code gave 1.1 to 2.4, whole ones 1.0 to 1.3: the cost of a byte of one long frame "
        "is that of fresh memory, which the machine gives at its own pace.",
    ),
]
