"""Run a server on pipes as a client would, and keep every byte it wrote until its stdout ended.

Written for these tests alone: it shares nothing with the harness that the package ships, so that the two can disagree.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE = 90.0  # seconds for one server's whole life; a cold start of a large SDK on a busy machine takes ten
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One finished server: what it was given, and all it wrote. `status` is None when it had to be killed."""

    command: list[str]
    sent: bytes
    stdout: bytes
    stderr: bytes
    status: int | None
    silent: list[object]  # ids of requests that no answer came to in time

    @property
    def report(self) -> str:
        """stderr as text."""
        return self.stderr.decode("utf-8", "replace")

    def __str__(self) -> str:
        parts = [f"command: {shlex.join(self.command)}", f"status: {self.status}", f"unanswered: {self.silent}"]
        for name in ("sent", "stdout", "stderr"):
            parts.append(f"--- {name}\n{getattr(self, name).decode('utf-8', 'backslashreplace')[-12000:]}")
        return "\n".join(parts)


def environment(*, unbuffered: bool = False, **extra: str) -> dict[str, str]:
    """The environment a client gives its server: ours without Python's and the guard's own variables, plus `extra`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STDOUT_GUARD", "LC_", "COV_"))}
    kept |= {"LANG": "C.UTF-8", "TERM": "dumb", "NO_PROXY": "*"}
    if unbuffered:
        kept["PYTHONUNBUFFERED"] = "1"
    return kept | extra


def exchange(
    command: Sequence[str | Path],
    messages: Sequence[Message],
    *,
    cwd: Path,
    framing: str = "ndjson",
    env: Mapping[str, str] | None = None,
    stderr_closed: bool = False,
) -> Run:
    """Send `messages` one by one, awaiting each answer; then close stdin and read both streams to their end."""
    line = [str(part) for part in command]
    if stderr_closed:
        line = ["/bin/sh", "-c", f"exec {shlex.join(line)} 2>&-"]
    talk = _Talk(line, cwd, dict(env or environment()))
    try:
        for message in messages:
            talk.send(encode(message, framing))
            if "id" in message and "method" in message:
                talk.await_answer(message["id"])
        status = talk.finish()
    finally:
        talk.kill()
    return Run(line, bytes(talk.sent), bytes(talk.out), bytes(talk.err), status, talk.silent)


def encode(message: Message, framing: str) -> bytes:
    """One message as a client writes it."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body) if framing == "content-length" else body + b"\n"


class _Talk:
    """A child with a thread on each of its streams; `ready` is notified whenever bytes arrive or a stream ends."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.sent, self.out, self.err = bytearray(), bytearray(), bytearray()
        self.silent: list[object] = []
        self.deadline = time.monotonic() + DEADLINE
        self.ready = threading.Condition()
        self.open = 2
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        assert self.child.stdout and self.child.stderr
        self.threads = [
            threading.Thread(target=self._keep, args=(self.child.stdout.fileno(), self.out), daemon=True),
            threading.Thread(target=self._keep, args=(self.child.stderr.fileno(), self.err), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def _keep(self, descriptor: int, into: bytearray) -> None:
        while True:
            chunk = os.read(descriptor, 65536)
            with self.ready:
                into += chunk
                self.open -= not chunk
                self.ready.notify_all()
            if not chunk:
                return

    def send(self, data: bytes) -> None:
        assert self.child.stdin
        self.sent += data
        try:
            view = memoryview(data)
            while view:
                view = view[self.child.stdin.write(view) :]
        except OSError:
            pass  # the server has gone: its status and its missing answers say so

    def await_answer(self, ident: object) -> None:
        """Wait until an object with this id is seen, wherever it lies in the line: the wire may be dirty."""
        pattern = re.compile(rb'"id"\s*:\s*%s(?![0-9])' % re.escape(json.dumps(ident).encode()))
        with self.ready:
            while not pattern.search(self.out):
                left = self.deadline - time.monotonic()
                if left <= 0 or self.open == 0 or not self.ready.wait(left):
                    self.silent.append(ident)
                    return

    def finish(self) -> int | None:
        assert self.child.stdin
        self.child.stdin.close()
        for thread in self.threads:
            thread.join(max(0.1, self.deadline - time.monotonic()))
        try:
            return self.child.wait(max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        for thread in self.threads:
            thread.join(5)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert stream
            stream.close()
