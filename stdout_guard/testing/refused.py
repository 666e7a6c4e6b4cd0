"""Prove that a refused frame had no effect: the assertion, the tripwire and the loopback sentinel.

Rules: a reply does not prove anything about the executor, so the assertion reads the recorder; an executor that was
never called does not prove that nothing was touched on the way, so the tripwire and the sentinel watch the outside.
Malformed input is never aimed at a real endpoint: the sentinel listens on the loopback address only.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Any, Final, Self

from typing_extensions import override

from stdout_guard.recorder import STAGES, Recorder

#: Audit events of the interpreter that mean an effect outside the process (``open`` is judged by its mode).
TRIPS: Final = frozenset(
    {
        "socket.connect",
        "socket.sendto",
        "socket.sendmsg",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
        "subprocess.Popen",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.truncate",
        "pty.spawn",
        "shutil.rmtree",
        "urllib.Request",
        "http.client.connect",
        "ftplib.connect",
        "smtplib.connect",
        "sqlite3.connect",
    }
)
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def assert_refused(recorder: Recorder, *, stage: str | None = None, refusals: int | None = 1) -> None:
    """Raise AssertionError unless something was refused and nothing reached the executor.

    ``stage``: where the first refusal must have happened. ``refusals``: how many there must be, None for any number.
    """
    if stage is not None and stage not in STAGES:
        raise ValueError(f"assert_refused: no stage {stage!r}; one of {', '.join(STAGES)}")
    if recorder.calls:
        names = ", ".join(recorder.names)
        raise AssertionError(
            f"the executor was reached {len(recorder.calls)} time(s): {names}; expected no call at all"
        )
    if not recorder.refusals:
        raise AssertionError("nothing was refused: no refusal reached the recorder's audit sink")
    if refusals is not None and len(recorder.refusals) != refusals:
        raise AssertionError(f"{len(recorder.refusals)} refusals at {recorder.stages}; expected {refusals}")
    if stage is not None and recorder.stages[0] != stage:
        first = recorder.refusals[0]
        raise AssertionError(f"refused at stage {first.stage} ({first.reason}); expected stage {stage}")


class Tripwire:
    """What left the process while the wire was armed: ``events`` as (audit event, short description)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._thread: int | None = None

    def arm(self) -> None:
        """Watch this thread's audit events from now on."""
        _install_hook()
        self._thread = threading.get_ident()
        _armed.append(self)

    def disarm(self) -> None:
        """Stop watching; the events stay."""
        if self in _armed:
            _armed.remove(self)

    def verdict(self) -> str:
        """What was heard, in words; "" when nothing was."""
        lines = "".join(f"\n  {event}: {what}" for event, what in self.events)
        return lines and f"a refused frame must leave no trace outside the process, but there was:{lines}"

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """The interpreter's report of one audit event."""
        effect = event in TRIPS or (event == "open" and _opens_to_write(args))
        if effect and threading.get_ident() == self._thread and not _is_import_cache(args):
            self.events.append((event, repr(args[0] if args else "")[:200]))


_armed: list[Tripwire] = []
_hooked = False


def _opens_to_write(args: tuple[Any, ...]) -> bool:
    target, mode, flags = (*args, None, None, None)[:3]
    if isinstance(target, int):
        return False  # a wrapper around a descriptor: what opened it was heard already
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)


def _is_import_cache(args: tuple[Any, ...]) -> bool:
    """A module imported late may be compiled to ``__pycache__``: no effect of a frame."""
    return bool(args) and isinstance(args[0], str | bytes) and "__pycache__" in os.fsdecode(args[0])


def _install_hook() -> None:
    """An audit hook cannot be taken off again: one for the process, which asks who is armed."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    for wire in tuple(_armed):
        wire.heard(event, args)


@contextmanager
def tripwire() -> Generator[Tripwire, None, None]:
    """Fail on any socket, process, exec or file opened for writing by this thread inside the block.

    Raises AssertionError at the end of the block, even when the code inside swallowed its own errors.
    """
    wire = Tripwire()
    wire.arm()
    try:
        yield wire
    finally:
        wire.disarm()
    if verdict := wire.verdict():
        raise AssertionError(verdict)


class Sentinel:
    """A loopback HTTP server that writes down every request (and connection) that reaches it.

    A context manager; ``url`` is its address, ``requests`` what arrived as (method, path, body), ``connections`` how
    many sockets were opened, with or without a request.
    """

    def __init__(self, status: int = 200, body: bytes = b"{}") -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.connections = 0
        sentinel = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            @override
            def setup(self) -> None:
                sentinel.connections += 1
                super().setup()

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                sentinel.requests.append((self.command, self.path, self.rfile.read(length)))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

            @override
            def log_message(self, format: str, *args: Any) -> None:
                """Silent: the record is the log."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The sentinel's address, on the loopback interface."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()
