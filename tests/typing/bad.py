"""Wrong usages of the public surface: each marked line must be an error for both type checkers, and no other line."""

from __future__ import annotations

import stdout_guard
from stdout_guard import Guard, install
from stdout_guard.boundary import Boundary, Call, Tool
from stdout_guard.transcript import judge
from stdout_guard.writer import FrameWriter

install(1)  # BAD
install(writers=[1])  # BAD
install(log=1)  # BAD
install(redact="yes")  # BAD
install(redact=lambda text: len(text))  # BAD
install("strict", ["one"])  # BAD
install(modus="strict")  # BAD
stdout_guard.nothing()  # BAD


def uses(guard: Guard) -> None:
    guard.wire.write("text")  # BAD
    guard.strays.append(1)  # BAD
    guard.counts.strays + "x"  # BAD
    guard.nothing()  # BAD
    guard.take_stdin().write(b"x" + 1)  # BAD
    FrameWriter(guard.wire, "lsp")  # BAD
    FrameWriter(guard.wire, protocol="http")  # BAD
    FrameWriter(guard.wire).send(1)  # BAD
    FrameWriter(guard.wire).send(None)  # BAD
    FrameWriter("stdout")  # BAD


def allows(call: Call) -> str:
    return "yes"


judge("text")  # BAD
judge(b"", framing="lines")  # BAD
judge(b"", direction="up")  # BAD
judge(b"").findings.append("mine")  # BAD
Boundary([Tool("echo", description="", schema={})])  # BAD
Boundary([Tool("echo", description="", schema={})], allows)  # BAD
Boundary(["echo"], print)  # BAD
