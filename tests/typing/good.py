"""Typed usages of the public surface that both type checkers must accept."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

import stdout_guard
from stdout_guard import (
    Counts,
    Guard,
    GuardStateError,
    LateInstallWarning,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StdoutGuardError,
    StrayWrite,
    StrayWriteError,
    current,
    install,
    uninstall,
)
from stdout_guard.auto import guard as auto_guard
from stdout_guard.boundary import AuthorizedAction, Boundary, Call, Decision, Reply, SessionClosed, Tool
from stdout_guard.loops import serve, serve_async
from stdout_guard.recorder import Execution, Refusal
from stdout_guard.transcript import Finding, Report, Transcript, assert_protocol_stdout, judge
from stdout_guard.writer import FrameWriter

assert_type(auto_guard, Guard)
assert_type(stdout_guard.__version__, str)


def redact(text: str) -> str:
    return text.replace("secret", "***")


def installs() -> Guard:
    install()
    install("strict")
    install(mode=os.environ.get("MODE"))
    install(writers=["mine.proto", "other"], log=Path("report.log"), log_format="json", redact=True, channel="dup")
    install(writers=(name for name in ("a", "b")), log="report.log", redact=redact)
    install(None, writers=(), log=None, log_format=None, redact=None, channel=None, async_wire=True)
    return install()


def uses(guard: Guard) -> None:
    assert_type(guard.mode, str)
    assert_type(guard.wire.write(b"frame\n"), int)
    guard.wire.write(memoryview(b"frame\n"))
    guard.wire.flush()
    assert_type(guard.wire.fileno(), int)
    assert_type(guard.text_wire, io.TextIOWrapper)
    assert_type(guard.take_stdin(), io.BufferedReader)
    assert_type(guard.strays, tuple[StrayWrite, ...])
    assert_type(guard.counts, Counts)
    assert_type(guard.verify(), tuple[str, ...])
    guard.adopt_after_fork()
    for stray in guard.strays:
        parts: tuple[str, str, int, str, str, int, str] = (
            stray.source, stray.file, stray.line, stray.function, stray.text, stray.pid, stray.caller,
        )  # fmt: skip
        print(parts, stray.where, stray.place, stray.note, stray.time)
    counts = guard.counts
    total: int = counts.strays + counts.python + counts.child + counts.fd1 + counts.dropped_lines + counts.dropped_bytes
    for place, number in counts.places:
        print(place.upper(), number + total)


def writes(guard: Guard, message: Mapping[str, object]) -> None:
    writer = FrameWriter(guard.wire)
    writer.send(message)
    writer.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    writer.send('{"jsonrpc": "2.0", "method": "x"}')
    writer.send(b"{}")
    FrameWriter(guard.wire, "content-length")
    FrameWriter(guard.wire, framing="ndjson", protocol="dap", check=False)
    FrameWriter(io.BytesIO())


def errors() -> None:
    standing = current()
    if standing is not None:
        assert_type(standing, Guard)
    try:
        uninstall()
    except (StrayWriteError, GuardStateError, LocalProtocolError, RemoteProtocolError) as error:
        base: StdoutGuardError = error
        print(base)
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(LateInstallWarning, RuntimeWarning)


def judges(captured: bytes) -> bool:
    report = judge(captured, framing="content-length", direction="client-to-server", revision="lsp", sent=b"")
    assert_type(report, Report)
    findings: tuple[Finding, ...] = tuple(report.findings)
    transcript = Transcript(framing="ndjson")
    transcript.feed(captured)
    assert_type(transcript.close(), Report)
    assert_protocol_stdout(captured)
    return report.ok and not findings


def decides(call: Call) -> Decision:
    return Decision(call.arguments.get("name") == "mine", reason="not yours")


def executes(action: AuthorizedAction) -> object:
    return action.arguments["name"]


async def executes_later(action: AuthorizedAction) -> object:
    return executes(action)


def told(record: Refusal | Execution) -> None:
    print(record.as_dict())


async def serves(guard: Guard) -> None:
    boundary = Boundary([Tool("echo", description="", schema={"type": "object"})], decides, audit=told, executions=told)
    assert_type(serve(boundary, executes, guard.take_stdin(), guard.wire), SessionClosed)
    assert_type(await serve_async(boundary, executes_later, guard.take_stdin(), guard.wire), SessionClosed)
    for event in boundary.feed(b"{}\n"):
        if isinstance(event, Reply):
            guard.wire.write(event.data)
        elif isinstance(event, AuthorizedAction):
            assert_type(boundary.complete(event, executes(event)), bytes)
