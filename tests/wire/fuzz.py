"""Fuzz the judge: no input may make it raise, hang or tell two stories. Not collected by pytest.

python tests/wire/fuzz.py SECONDS          mutations of the tables
python tests/wire/fuzz.py -atheris ARGS    libFuzzer's own arguments, corpus folder included
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from wire.tables import channel, rows  # noqa: E402

from stdout_guard.jsonrpc import STRICT, Strictness  # noqa: E402
from stdout_guard.transcript import Transcript, explain, judge  # noqa: E402

FRAMINGS = ("ndjson", "content-length")
WAYS = ("server-to-client", "client-to-server")
OPTIONS = (
    STRICT,
    Strictness(
        bare_cr="allow", blank="allow", surrogates="allow", overflow="allow", dup_keys="envelope", extra="allow"
    ),
    Strictness(crlf="reject", line_seps="reject", unknown_methods="reject"),
    Strictness(max_frame=200, max_depth=4, max_digits=8, unknown_methods="note"),
)
REVISIONS = ("auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "jsonrpc", "lsp", "dap")


def one_input(data: bytes) -> None:
    """The first two bytes choose the settings and the cut, the third splits what was sent from what came back."""
    if len(data) < 3:
        return
    choice, cut, split = data[0], data[1], data[2]
    body = data[3:]
    framing, direction = FRAMINGS[choice & 1], WAYS[choice >> 1 & 1]
    revision = REVISIONS[(choice >> 2) % len(REVISIONS)]
    sent = body[: len(body) * split // 256] if split else None
    out = body[len(sent) :] if sent else body
    settings = {"framing": framing, "direction": direction, "revision": revision, "sent": sent}
    settings["options"] = OPTIONS[choice // (4 * len(REVISIONS)) % len(OPTIONS)]
    whole = judge(out, **settings)
    pieces = Transcript(**settings)
    at = len(out) * cut // 256
    pieces.feed(out[:at])
    pieces.feed(out[at:])
    if pieces.close() != whole:
        raise AssertionError(f"cut at {at} changes the verdict: {settings} {out!r}")
    for finding in whole.findings:
        if finding.raw != out[finding.offset : finding.offset + len(finding.raw)]:
            raise AssertionError(f"raw is not what stands at the offset: {settings} {out!r}")
    explain(whole)


def seeds() -> list[bytes]:
    """The wire rows, small ones, with every setting byte once."""
    bodies = [body for row in rows("wire_lines.jsonl") if len(body := channel(row)) < 4000]
    return [bytes((index % 256, index * 7 % 256, index * 13 % 256)) + body for index, body in enumerate(bodies)]


TOKENS = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\ud800", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"1e400"]
TOKENS += [
    b'"id":',
    b'"jsonrpc":"2.0"',
    b'"result":{}',
    b'"method":"ping"',
    b"Content-Length: 2\r\n\r\n",
    b"null",
    b"9" * 400,
]


def mutate(data: bytes, pool: list[bytes], chance: random.Random) -> bytes:
    """A few edits of one seed, tokens and pieces of another included."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at, end = sorted((chance.randint(0, len(out)), chance.randint(0, len(out))))
        other = chance.choice(pool)
        start = chance.randint(0, len(other))
        out[at : chance.choice((at, at, min(end, at + 8), end))] = chance.choice(
            (chance.choice(TOKENS), chance.choice(TOKENS), other[start : start + 40], other, b"", chance.randbytes(2))
        )
        if len(out) > 20_000:
            del out[20_000:]
    return bytes(out)


def mutations(seconds: float) -> None:
    """Mutate the seeds until the time is over; prints the figures."""
    chance = random.Random(20261130)
    pool = seeds()
    done, slowest, end = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutate(chance.choice(pool), pool, chance)
        started = time.perf_counter()
        one_input(data)
        slowest = max(slowest, time.perf_counter() - started)
        done += 1
    print(f"mutations: {done} inputs in {seconds:.0f} s, no failure, slowest {slowest * 1000:.1f} ms")


def with_atheris(arguments: list[str]) -> None:
    """Coverage-guided fuzzing of the protocol half."""
    import atheris

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *arguments], one_input)
    atheris.Fuzz()


def main() -> None:
    """Choose the engine."""
    if sys.argv[1:2] == ["-atheris"]:
        with_atheris(sys.argv[2:])
        return
    mutations(float(sys.argv[1]) if len(sys.argv) > 1 else 60)


if __name__ == "__main__":
    main()
