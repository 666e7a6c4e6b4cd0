"""The ready loops: real pipes, plain and asyncio executors, failure, cancellation, and a client that leaves."""

import asyncio
import io
import logging
import os
import threading

import pytest
from boundary_adapter import messages
from boundary_talk import INITIALIZED, SCHEMA, call, initialize, notification, request

from stdout_guard.boundary import Boundary, SessionClosed, Tool, only_authorized
from stdout_guard.loops import serve, serve_async
from stdout_guard.recorder import Recorder

HELLO = initialize() + INITIALIZED
END = SessionClosed("end of input", False)
DEADLINE = 20


def gateway(**settings):
    return Boundary([Tool("deploy", schema=SCHEMA)], lambda call: True, **settings)


class Pipe:
    """A pipe whose two ends are closed at the end of the test."""

    def __init__(self):
        read, write = os.pipe()
        self.reader = os.fdopen(read, "rb")
        self.writer = os.fdopen(write, "wb", buffering=0)

    def close(self):
        for end in (self.reader, self.writer):
            if not end.closed:
                end.close()


@pytest.fixture
def stdin():
    pipe = Pipe()
    yield pipe
    pipe.close()


def run_async(boundary, execute, stdin, wire, **settings):
    async def main():
        return await asyncio.wait_for(serve_async(boundary, execute, stdin, wire, **settings), DEADLINE)

    return asyncio.run(main())


def drive(kind, boundary, execute, data):
    """Serve these bytes with one loop or the other; returns how it ended and what was written."""
    wire = io.BytesIO()
    if kind == "plain":
        return serve(boundary, execute, io.BytesIO(data), wire), messages(wire.getvalue())

    async def execute_async(action):
        await asyncio.sleep(0)
        return execute(action)

    return run_async(boundary, execute_async, io.BytesIO(data), wire), messages(wire.getvalue())


KINDS = pytest.mark.parametrize("kind", ["plain", "async"])


@KINDS
def test_whole_session(kind):
    """Handshake, ping and calls are answered; the end of input is the end of the session."""
    recorder = Recorder()
    door = recorder.attempt
    boundary = gateway()

    def execute(action):
        door(action.name, action.arguments)
        return "ok"

    frames = (HELLO, call(request_id=1), request("ping", 2), call(request_id=3))
    ended, written = drive(kind, boundary, execute, b"".join(frames))
    assert ended == END
    assert sorted(str(message["id"]) for message in written) == ["1", "2", "3", "init"]
    assert recorder.names == ["deploy", "deploy"]
    assert boundary.counts.executed == 2 and boundary.counts.balanced


@KINDS
def test_refusal_ends_the_loop(kind):
    """Under close the loop returns at the refusal; what was released before it is answered, nothing after it runs."""
    ran = []
    data = HELLO + call(request_id=1) + b"oops\n" + call(request_id=2)
    ended, written = drive(kind, gateway(), lambda action: ran.append(action) or "ok", data)
    assert ended.refused and ended.reason == "refused at stage json: not-json"
    assert len(ran) == 1
    assert {message.get("id", "none") for message in written} == {"init", 1, "none"}


@KINDS
def test_executor_that_raises(kind, caplog):
    """The client gets -32603 without text, the log gets the cause, and the session goes on."""

    def execute(action):
        if action.request_id == 1:
            raise RuntimeError("tok_SECRET")
        return "ok"

    boundary = gateway()
    with caplog.at_level(logging.ERROR, "stdout_guard.boundary"):
        _ended, written = drive(kind, boundary, execute, HELLO + call(request_id=1) + call(request_id=2))
    answers = {message["id"]: message for message in written}
    assert answers[1]["error"] == {"code": -32603, "message": "internal error"}
    assert "result" in answers[2]
    assert (boundary.counts.failed, boundary.counts.executed) == (1, 1)
    assert "tok_SECRET" in caplog.text and "tok_SECRET" not in repr(written)


@KINDS
def test_result_that_cannot_be_sent(kind):
    """A result no client could read counts as a failure of the executor."""
    boundary = gateway()
    _ended, written = drive(kind, boundary, lambda action: {"ok": True}, HELLO + call())
    assert written[-1]["error"]["code"] == -32603
    assert boundary.counts.failed == 1


def test_executor_that_is_wrapped_already():
    """An executor behind its door may be given to the loop as it is."""
    boundary = gateway()
    drive("plain", boundary, only_authorized(lambda action: "ok"), HELLO + call())
    assert boundary.counts.executed == 1


def test_plain_loop_answers_before_it_reads_on(stdin):
    """Each answer is on the wire before more input is needed."""
    out = Pipe()
    try:
        thread = threading.Thread(
            target=serve, args=(gateway(), lambda action: "ok", stdin.reader, out.writer), daemon=True
        )
        thread.start()
        for frame, request_id in ((initialize(), "init"), (INITIALIZED + call(request_id=1), 1)):
            stdin.writer.write(frame)
            assert messages(out.reader.readline())[0]["id"] == request_id
        stdin.writer.close()
        thread.join(DEADLINE)
        assert not thread.is_alive()
    finally:
        out.close()


@KINDS
def test_client_that_is_gone(kind):
    """A broken pipe ends the session: nothing that comes later is started."""

    class Broken(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError

    ran = []
    boundary = gateway()
    data = HELLO + b"".join(call(request_id=number) for number in range(5))
    if kind == "plain":
        ended = serve(boundary, ran.append, io.BytesIO(data), Broken())
        assert ran == []
    else:

        async def execute(action):
            ran.append(action)
            return "ok"

        ended = run_async(boundary, execute, io.BytesIO(data), Broken())
    assert ended == END
    assert boundary.closed == END


def test_non_blocking_stdin_is_refused():
    """A stream that has nothing to read right now is not at its end: the loop says what it needs."""

    class Empty(io.RawIOBase):
        def read(self, size=-1):
            return None

    with pytest.raises(ValueError, match="non-blocking"):
        serve(gateway(), lambda action: "ok", Empty(), io.BytesIO())


def test_async_actions_overlap(stdin):
    """Two calls run at the same time, and the one that ends first is answered first."""
    started, wire = [], io.BytesIO()

    async def main():
        both = asyncio.Event()

        async def execute(action):
            started.append(action.request_id)
            if len(started) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), DEADLINE)
            return "ok"

        stdin.writer.write(HELLO + call(request_id=1) + call(request_id=2))
        stdin.writer.close()
        return await asyncio.wait_for(serve_async(gateway(), execute, stdin.reader, wire), DEADLINE)

    assert asyncio.run(main()) == END
    assert sorted(started) == [1, 2]
    assert {message["id"] for message in messages(wire.getvalue())} == {"init", 1, 2}


def test_async_limit_of_running_actions():
    """No more than max_running actions run at a time, however many the client sends at once."""
    running, most = 0, 0

    async def execute(action):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    boundary = gateway()
    data = HELLO + b"".join(call(request_id=number) for number in range(60))
    run_async(boundary, execute, io.BytesIO(data), io.BytesIO(), max_running=3)
    assert most == 3
    assert boundary.counts.executed == 60


def test_async_cancellation(stdin):
    """A cancelled call stops at its next await; it is not answered, and the session goes on."""
    wire, stopped = io.BytesIO(), []
    boundary = gateway()

    async def execute(action):
        if action.request_id == 2:
            return "ok"
        stdin.writer.write(notification("notifications/cancelled", requestId=1) + call(request_id=2))
        stdin.writer.close()
        try:
            await asyncio.sleep(DEADLINE)
        except asyncio.CancelledError:
            stopped.append(action.request_id)
            raise

    stdin.writer.write(HELLO + call(request_id=1))
    assert run_async(boundary, execute, stdin.reader, wire) == END
    assert stopped == [1]
    assert {message["id"] for message in messages(wire.getvalue())} == {"init", 2}
    assert boundary.counts.failed == 1 and boundary.counts.balanced


def test_async_cancelled_before_it_started(stdin):
    """A call that waits for a place and is cancelled never runs."""
    ran, wire = [], io.BytesIO()
    boundary = gateway()

    async def execute(action):
        ran.append(action.request_id)
        stdin.writer.write(notification("notifications/cancelled", requestId=2))
        stdin.writer.close()
        while boundary.closed is None:
            await asyncio.sleep(0.005)
        return "ok"

    stdin.writer.write(HELLO + call(request_id=1) + call(request_id=2))
    run_async(boundary, execute, stdin.reader, wire, max_running=1)
    assert ran == [1]
    assert (boundary.counts.executed, boundary.counts.cancelled) == (1, 1)
    assert {message["id"] for message in messages(wire.getvalue())} == {"init", 1}


def test_async_loop_ends_while_stdin_stays_open(stdin):
    """After a refusal the loop returns although the client keeps its end open."""
    stdin.writer.write(HELLO + b"oops\n")

    async def execute(action):
        return "ok"

    ended = run_async(gateway(), execute, stdin.reader, io.BytesIO())
    assert ended.refused
    stdin.writer.close()
