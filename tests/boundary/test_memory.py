"""A flood of refused frames leaves nothing behind, also where the collector never runs."""

import asyncio
import gc
import io
import tracemalloc
from types import TracebackType

import pytest
from boundary_adapter import Gateway
from boundary_talk import TOOLS, Talk, call, initialize, notification, request
from cyclic_garbage import cyclic_garbage, origin

from stdout_guard.boundary import Boundary
from stdout_guard.loops import serve, serve_async
from stdout_guard.testing.corpus import load

SMALL = [case for case in load() if all("gen" not in chunk for chunk in case.record["chunks"])]


def ours(thing):
    """What a collected object is called when it comes from this package or these tests; other threads leave theirs."""
    where = origin(thing)
    is_ours = "stdout_guard" in where or "boundary" in where or isinstance(thing, BaseException | TracebackType)
    return f"{type(thing).__name__}: {str(thing)[:100]}" if is_ours else None


def test_cyclic_garbage_is_seen():
    """The rules below can fail: an exception kept in its own frame, as refusing code is apt to, is found."""

    def keeps():
        try:
            raising(None)
        except ValueError as error:
            kept = error
        return kept is None

    with cyclic_garbage(ours) as look:
        keeps()
        garbage = look()
    assert any("ValueError" in name for name in garbage)


def raising(_given):
    raise ValueError("no")


SETTINGS = {
    "corpus": {},
    "authoriser raises": {"authorise": raising},
    "validator raises": {"tools": [type(TOOLS[0])("deploy", validate=raising)]},
    "sinks raise": {"audit": raising, "executions": raising},
}
FLOOD = [
    b"oops\n",
    b'{"a":1,"a":2}\n',
    b"\xff\n",
    b"[" * 300 + b"]" * 300 + b"\n",
    b"1" * 5000 + b"\n",
    b"NaN\n",
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    request("no/such", 5),
    call("nobody"),
    call(request_id=8, arguments={"target": 7}),
    call(request_id=8, arguments={"target": "t", "more": {"a": [1, {"b": 2}]}}),
    notification("notifications/cancelled", requestId=8),
    b"\n",
]


def pass_through(talk, rounds):
    """Refused frames of every kind, and one call in each round that is answered (a new id each time)."""
    for number in range(rounds):
        for frame in FLOOD:
            talk.boundary.feed(frame)
        for event in talk.boundary.feed(call(request_id=f"ok{number}")):
            if hasattr(event, "arguments"):
                talk.boundary.fail(event, ValueError())


@pytest.mark.parametrize("name", SETTINGS)
def test_no_frame_leaves_cyclic_garbage(name):
    """Nothing that only the collector frees: no exception holds its own frame, at any stage, under any callable."""
    settings = {"audit": lambda record: None, "executions": lambda record: None, **SETTINGS[name]}
    talk = Talk(policy="keep-open", max_rejections=10**9, **settings)
    pass_through(talk, 2)
    with cyclic_garbage(ours) as look:
        pass_through(talk, 3)
        garbage = look()
    assert garbage == []


def test_no_case_of_the_corpus_leaves_cyclic_garbage():
    """The same for every small case of the corpus."""
    gateways = [(Gateway(case.record), case.stdin) for case in SMALL]
    with cyclic_garbage(ours) as look:
        for gateway, stdin in gateways:
            gateway.feed(stdin)
            gateway.eof()
        garbage = look()
    assert garbage == []


def test_a_session_goes_with_its_last_reference():
    """A boundary is no cycle: a closed one does not wait for the collector, nor does an action nobody answered."""
    with cyclic_garbage(ours) as look:
        for policy in ("close", "keep-open"):
            one = Boundary(TOOLS, lambda asked: True, policy=policy)
            events = one.feed(session(3) + FLOOD[0])
            assert len(events) > 4
            del one, events
        garbage = look()
    assert garbage == []


def test_memory_is_constant_under_a_flood_of_refused_frames():
    """Collector off, a session that is kept open: two hundred rounds more, and the package holds what it held."""
    talk = Talk(policy="keep-open", max_rejections=10**9, audit=lambda record: None, executions=None)
    frames = [frame for frame in FLOOD if b'"id":8' not in frame]

    def flood(rounds):
        for _ in range(rounds):
            for frame in frames:
                talk.boundary.feed(frame)

    def held():
        taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*stdout_guard*")])
        return sum(trace.size for trace in taken.traces)

    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        flood(10)
        before = held()
        flood(200)
        grown = held() - before
    finally:
        tracemalloc.stop()
        if enabled:
            gc.enable()
    assert talk.boundary.counts.refused > 2000
    assert grown < 10_000, grown  # bytes: one kept object of 56 for each frame would be a hundred thousand


class Loop:
    """A client that sends the flood, and takes what is written to it."""

    def __init__(self, data):
        self.read = io.BytesIO(data).read

    def write(self, data):
        return len(data)

    def flush(self):
        pass


def session(rounds):
    calls = [call(request_id=number, arguments={"target": "t"}) for number in range(rounds)]
    return b"".join([initialize(), notification("notifications/initialized"), *calls, *FLOOD[:6]])


def boundary():
    return Boundary(TOOLS, lambda asked: True, policy="keep-open", max_rejections=10**9)


def test_loop_leaves_no_cyclic_garbage():
    """An executor that raises is answered and forgotten, its traceback with it."""
    data = session(20)
    serve(boundary(), raising, Loop(data), Loop(b""))
    with cyclic_garbage(ours) as look:
        serve(boundary(), raising, Loop(data), Loop(b""))
        garbage = look()
    assert garbage == []


def test_asyncio_loop_does_not_grow_with_its_session():
    """The asyncio machinery has cycles of its own, for each session; there are no more of them for a longer one."""

    async def execute(action):
        raise ValueError("no")

    def left(rounds):
        with cyclic_garbage(ours) as look:
            asyncio.run(serve_async(boundary(), execute, Loop(session(rounds)), Loop(b"")))
            garbage = look()
        return len(garbage)

    left(5)
    few = left(5)
    assert left(100) <= few + 40
