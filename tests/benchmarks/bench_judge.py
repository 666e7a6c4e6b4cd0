"""What judging costs, as a multiple of json.loads over the same frames, from 1 KiB to 64 MiB. Not a test.

python tests/benchmarks/bench_judge.py [MAX_MIB]
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stdout_guard.jsonrpc import check_outgoing
from stdout_guard.transcript import judge

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


def result(value: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 12, "result": value}, separators=(",", ":")).encode()


def text(size: int) -> bytes:
    return result({"content": [{"type": "text", "text": (WORDS * (size // len(WORDS) + 1))[:size]}], "isError": False})


FRAMES = {
    "text 200 B": text(100),
    "text 1 KiB": text(900),
    "text 8 KiB": text(8000),
    "text 64 KiB": text(65000),
    "text 1 MiB": text(1 << 20),
    "lines 64 KiB": text(65000).replace(b"; ", b"\\n"),
    "10 tools": result({"tools": [TOOL] * 10}),
    "50 tools": result({"tools": [TOOL] * 50}),
    "progress": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.5}}',
    "5000 floats": result({"vector": [0.123456 + index for index in range(5000)]}),
    "1000 rows": result({"rows": [{"id": index, "name": "row", "ok": True} for index in range(1000)]}),
}
SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]


def cost(run: Callable[[], object], floor: float = 0.02) -> float:
    """The least process time of one run, in seconds."""
    best, spent, runs = float("inf"), 0.0, 0
    while spent < floor or runs < 3:
        started = time.process_time()
        run()
        took = time.process_time() - started
        best, spent, runs = min(best, took), spent + took, runs + 1
        if spent > 3:
            break
    return best


def loads(frames: list[bytes]) -> None:
    for frame in frames:
        json.loads(frame)


def main() -> None:
    """Print one table for kinds of frame, one for sizes, and the price of the outgoing check."""
    largest = int(float(sys.argv[1]) * (1 << 20)) if len(sys.argv) > 1 else 1 << 26
    gc.disable()
    print(f"python {sys.version.split()[0]}; process time, best of several; judge against json.loads of each frame")
    print(f"{'frame':14} {'bytes':>9} {'frames':>7} {'loads us':>10} {'judge us':>10} {'ratio':>6} {'check us':>9}")
    for name, frame in FRAMES.items():
        count = max(1, (1 << 18) // len(frame))
        frames, data = [frame] * count, (frame + b"\n") * count
        base, ours = cost(lambda f=frames: loads(f)), cost(lambda d=data: judge(d))
        check = cost(lambda f=frames: [check_outgoing(one) for one in f]) / count
        print(
            f"{name:14} {len(frame):9} {count:7} {base / count * 1e6:10.2f} {ours / count * 1e6:10.2f} "
            f"{ours / base:6.2f} {check * 1e6:9.2f}"
        )
    print(f"\n{'channel':14} {'bytes':>9} {'frames':>7} {'judge s':>10} {'ns a byte':>10} {'ratio':>6}")
    mixed = [FRAMES[name] for name in ("text 200 B", "progress", "text 1 KiB", "10 tools", "text 8 KiB", "50 tools")]
    for size in (size for size in SIZES if size <= largest):
        frames = []
        while sum(map(len, frames)) < size:
            frames += mixed if size > 1 << 14 else mixed[:2]
            if size > 1 << 20 and len(frames) < 10_000:
                frames *= 2
        data = b"\n".join(frames) + b"\n"
        base, ours = cost(lambda f=frames: loads(f)), cost(lambda d=data: judge(d))
        print(f"{size:14} {len(data):9} {len(frames):7} {ours:10.4f} {ours / len(data) * 1e9:10.2f} {ours / base:6.2f}")


if __name__ == "__main__":
    main()
