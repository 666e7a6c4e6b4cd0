"""The asynchronous wire under SDKs that were never edited ends as a stock transport does."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults.harness import Child
from real.async_server import HELLO, READY, call, greet


@dataclass(frozen=True)
class End:
    """How a server ended: what can be compared. ``answered``: ids of whole frames on the wire."""

    status: int
    answered: frozenset[int]
    alone: bool  # without its stdin having been closed
    after: str = ""


def found(wire: bytes) -> frozenset[int]:
    """The ids of what was answered, among whatever an unguarded server prints."""
    return frozenset(int(ident) for ident in re.findall(rb'"id":(\d+),', wire))


def ended(child: Child, wait: float = 0.0, after: str = "") -> End:
    with suppress(AssertionError):
        child.wait_exit(wait)
    alone = not child._waiter.is_alive()
    status = child.finish()
    return End(status, found(bytes(child.wire.data)), alone, after)


def end_of_input(start: Callable[..., Child]) -> End:
    child = start()
    greet(child)
    child.order(call(2, "echo", text="a"))
    child.wait_frame(2)
    return ended(child)


def request_in_flight(start: Callable[..., Child]) -> End:
    child = start()
    lines = [json.dumps(HELLO), json.dumps(READY), call(2, "echo", text="a")]
    child.order("\n".join(lines))
    return ended(child)


def client_gone(start: Callable[..., Child]) -> End:
    child = start()
    greet(child)
    child.wire.hang_up()
    with suppress(BrokenPipeError):
        child.order(call(2, "echo", text="b"))
    return ended(child, 1.5)


def gone_in_mid_frame(start: Callable[..., Child]) -> End:
    child = start()
    greet(child)
    child.wire.pause()
    child.order(call(2, "big", size=1_000_000))
    child.wait_blocked()
    child.wire.hang_up()
    return ended(child, 1.5)


def stdin_a_file(start: Callable[..., Child]) -> End:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"stdout-guard-input-{os.getpid()}"
    path.write_text("\n".join([json.dumps(HELLO), json.dumps(READY), call(2, "echo", text="a"), ""]), "utf-8")
    with path.open("rb") as stdin:
        child = start(stdin=stdin.fileno())
    path.unlink()
    return ended(child)


def stdin_null(start: Callable[..., Child]) -> End:
    with open(os.devnull, "rb") as stdin:
        return ended(start(stdin=stdin.fileno()))


def stdout_a_file(start: Callable[..., Child]) -> End:
    child = start(shell='exec "$@" >out')
    path, seen = child.folder / "out", b""

    def wait(ident: int) -> None:
        limit = time.monotonic() + 60
        while b'"id":%d,' % ident not in path.read_bytes() if path.exists() else True:
            assert time.monotonic() < limit and child._waiter.is_alive(), f"no answer {ident}"
            time.sleep(0.02)

    child.order(json.dumps(HELLO))
    wait(1)
    child.order(f"{json.dumps(READY)}\n{call(2, 'echo', text='a')}")
    wait(2)
    end, seen = ended(child), path.read_bytes()
    return End(end.status, found(seen), end.alone)


def control_c(start: Callable[..., Child]) -> End:
    child = start()
    greet(child)
    child.order(call(2, "echo", text="a"))
    child.wait_frame(2)
    os.kill(child.process.pid, signal.SIGINT)
    return ended(child, 1.5)


def executed(start: Callable[..., Child]) -> End:
    child = start()
    greet(child)
    child.order(call(2, "execute"))
    assert child.wire.wait_for(lambda data: b"new image" in data, 45)
    child.order("the rest")
    return ended(child, after=str(child.wire.wait_for(lambda data: b"got the rest\n" in data, 45)))


ENDINGS = [end_of_input, request_in_flight, client_gone, gone_in_mid_frame, stdin_a_file, stdin_null, stdout_a_file,
           control_c, executed]  # fmt: skip
# where stock and guard differ already: a stock server dies of the second flush of what it could not send
BY_THE_GUARD = {"client_gone": 1, "executed": 0}
QUICK = (end_of_input, request_in_flight, client_gone, gone_in_mid_frame, control_c)
SERVERS = [("mcp 2", "asyncio"), ("mcp 1", "asyncio"), ("FastMCP 4", "asyncio"), ("mcp 2", "trio"), ("mcp 2", "uvloop")]
CASES = [
    pytest.param(
        ending,
        *server,
        id="-".join((ending.__name__, *server)),
        marks=[] if ending in QUICK and server == SERVERS[0] else pytest.mark.slow,
    )
    for ending in ENDINGS
    for server in SERVERS
]


@pytest.mark.parametrize(("ending", "sdk", "loop"), CASES)
def test_it_ends_as_stock(
    serve: Callable[..., Child], ending: Callable[[Callable[..., Child]], End], sdk: str, loop: str
) -> None:
    """Each ending has the status of the unguarded server (of the guarded one where these differ already), answers
    whatever that answers, and comes no later: where stock waits for its input to end too, this one need not. A print
    is named all the same.
    """
    stock = ending(partial(serve, "threads" if ending is executed else "stock", sdk, loop))
    made: list[Child] = []

    def start(**options: Any) -> Child:
        made.append(serve("async", sdk, loop, **options))
        return made[-1]

    ours = ending(start)
    assert ours.status == BY_THE_GUARD.get(ending.__name__, stock.status), (stock, ours)
    assert ours.answered >= stock.answered and ours.after == stock.after, (stock, ours)
    assert ours.alone or not stock.alone, (stock, ours)
    assert "asynchronous wire does not fit" not in made[0].text
    if 2 in ours.answered and ending is not gone_in_mid_frame:
        assert re.search(r"^stdout-guard: server\.py:\d+ in echo: stray a$", made[0].text, re.M)
