"""Ready loops around a `Boundary`: read stdin, run the executor, write the wire; plain and asyncio.

Rules: an executor's error text goes to the log (``stdout_guard.boundary``), never to the peer; a client that is gone
ends the session and nothing more is started; what was released before the end is still run and answered.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from stdout_guard._actions import AuthorizedAction, only_authorized
from stdout_guard.boundary import Boundary, Cancelled, Event, Reply, SessionClosed
from stdout_guard.errors import LocalProtocolError

CHUNK: Final = 65_536
_log = logging.getLogger("stdout_guard.boundary")


class Readable(Protocol):
    """Where the client's bytes come from: a blocking binary file, such as ``guard.take_stdin()``."""

    def read(self, size: int, /) -> bytes | None:
        """At most ``size`` bytes; empty at the end of the input."""
        ...


class Writable(Protocol):
    """Where frames go: ``guard.wire``, or any binary file."""

    def write(self, data: bytes, /) -> object:
        """Take one whole frame."""
        ...

    def flush(self) -> object:
        """Send what was written."""
        ...


def serve(
    boundary: Boundary, execute: Callable[[AuthorizedAction], object], stdin: Readable, wire: Writable
) -> SessionClosed:
    """Serve one session to its end, one action after the other; returns how it ended."""
    run = only_authorized(execute)
    try:
        while boundary.closed is None:
            for event in _next_events(boundary, _read(stdin)):
                if isinstance(event, Reply):
                    _write(wire, event.data)
                elif isinstance(event, AuthorizedAction):
                    _write(wire, _perform(boundary, run, event))
    except BrokenPipeError:
        boundary.eof()
    ended = boundary.closed
    assert ended is not None
    return ended


async def serve_async(
    boundary: Boundary,
    execute: Callable[[AuthorizedAction], Awaitable[object]],
    stdin: Readable,
    wire: Writable,
    *,
    max_running: int = 32,
) -> SessionClosed:
    """The same with an async executor: up to ``max_running`` actions at a time, cancelled when the client asks.

    stdin is read and the wire written in threads: setting a shared pipe non-blocking would break its other owners.
    """
    crew = _Crew(boundary, execute, wire, max_running)
    chunks: asyncio.Queue[bytes] = asyncio.Queue(1)
    _start_reader(stdin, chunks)
    while (closed := boundary.closed) is None:
        for event in _next_events(boundary, await chunks.get()):
            await crew.handle(event)
    await crew.finish()
    return closed


class _Crew:
    """The running actions of one asyncio session and the one door to its wire."""

    def __init__(
        self,
        boundary: Boundary,
        execute: Callable[[AuthorizedAction], Awaitable[object]],
        wire: Writable,
        max_running: int,
    ) -> None:
        self._boundary = boundary
        self._execute: Callable[[AuthorizedAction], Awaitable[object]] = only_authorized(execute)
        self._wire = wire
        self._writing = asyncio.Lock()
        self._places = asyncio.Semaphore(max_running)
        self._most = 8 * max_running
        self._tasks: dict[AuthorizedAction, asyncio.Task[None]] = {}

    async def handle(self, event: Event) -> None:
        if isinstance(event, Reply):
            await self._send(event.data)
        elif isinstance(event, Cancelled):
            if task := self._tasks.get(event.action):
                task.cancel()
        elif isinstance(event, AuthorizedAction):
            if len(self._tasks) >= self._most:
                await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._perform(event))
            self._tasks[event] = task
            task.add_done_callback(lambda _task: self._tasks.pop(event, None))

    async def finish(self) -> None:
        """Wait for everything that was released."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _perform(self, action: AuthorizedAction) -> None:
        try:
            async with self._places:
                result = await self._execute(action)
        except asyncio.CancelledError as error:
            _failed(self._boundary, action, error)
            return
        except Exception as error:
            await self._send(_failed(self._boundary, action, error))
            return
        await self._send(_completed(self._boundary, action, result))

    async def _send(self, data: bytes) -> None:
        if data:
            async with self._writing:
                try:
                    await asyncio.to_thread(_write, self._wire, data)
                except BrokenPipeError:
                    self._boundary.eof()  # the client is gone: nothing more is started


def _start_reader(stdin: Readable, chunks: asyncio.Queue[bytes]) -> None:
    loop = asyncio.get_running_loop()

    def pump() -> None:
        data = b"more"
        while data:
            try:
                data = _read(stdin)
            except (OSError, ValueError):
                data = b""  # closed under us: the input has ended
            handing_over = chunks.put(data)
            try:
                asyncio.run_coroutine_threadsafe(handing_over, loop).result()
            except (RuntimeError, concurrent.futures.CancelledError):
                handing_over.close()  # the loop has ended before the input did
                return

    # A daemon, because nothing can interrupt a blocking read and the session may end before the input does.
    threading.Thread(target=pump, name="stdout-guard-stdin", daemon=True).start()


def _next_events(boundary: Boundary, data: bytes) -> list[Event]:
    return boundary.feed(data) if data else boundary.eof()


def _read(stdin: Any) -> bytes:
    data = getattr(stdin, "read1", stdin.read)(CHUNK)
    if data is None:
        raise ValueError("serve: stdin is non-blocking; give a blocking binary file")
    return bytes(data)


def _write(wire: Writable, data: bytes) -> None:
    if data:
        wire.write(data)
        wire.flush()


def _perform(boundary: Boundary, run: Callable[[AuthorizedAction], object], action: AuthorizedAction) -> bytes:
    try:
        result = run(action)
    except Exception as error:
        return _failed(boundary, action, error)
    return _completed(boundary, action, result)


def _completed(boundary: Boundary, action: AuthorizedAction, result: object) -> bytes:
    try:
        return boundary.complete(action, result)
    except LocalProtocolError as error:
        return _failed(boundary, action, error)


def _failed(boundary: Boundary, action: AuthorizedAction, error: BaseException) -> bytes:
    if isinstance(error, Exception):
        _log.error("%s failed", action.name, exc_info=error)
    try:
        return boundary.fail(action, error)
    except LocalProtocolError:
        return b""  # taken back by the client before it started: nothing is owed
