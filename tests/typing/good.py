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
    install(None, writers=(), log=None, log_format=None, redact=None, channel=None)
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
