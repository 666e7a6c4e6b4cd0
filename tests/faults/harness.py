"""A guarded script in a process group of its own: a client's ends of its streams, hard deadlines, judged frames.

The client waits for what it can see (a frame, a text on stderr, an exit), never for time to pass. Set
``STDOUT_GUARD_UNDER_TEST`` to a folder that holds another copy of the package to put that one under the tests.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
UNDER_TEST = os.environ.get("STDOUT_GUARD_UNDER_TEST") or str(ROOT)
DEADLINE = float(os.environ.get("STDOUT_GUARD_TEST_DEADLINE", "45"))  # seconds for anything a child does; generous
OURS = ("STDOUT_GUARD", "_STDOUT_GUARD")

# What the scripts of these tests begin with. ``send(5)`` puts the frame with id 5 on the wire.
PRELUDE = """\
import os, sys
import stdout_guard
guard = stdout_guard.install()
def frame(i, text="ok"):
    return b'{"jsonrpc":"2.0","id":%d,"result":"%s"}\\n' % (i, text.encode())
def send(i, text="ok"):
    guard.wire.write(frame(i, text))
def hold():
    with open(os.environ["HOLD"], "rb", 0) as fifo:
        fifo.read(3)
"""


class Reader:
    """The client's end of one stream: read by a thread, which can be paused, slowed down or made to hang up."""

    def __init__(self, fd: int, *, reading: bool = True, chunk: int = 65536, pace: float = 0.0) -> None:
        self.fd, self.chunk, self.pace = fd, chunk, pace
        self.data, self.ended_at = bytearray(), 0.0
        self.changed = threading.Condition()
        self._stop_read, self._stop_write = os.pipe()
        self._thread: threading.Thread | None = None
        if reading:
            self.start()

    def start(self) -> None:
        """Begin to read, or go on."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop reading; the stream stays open."""
        if self._thread is not None:
            os.write(self._stop_write, b"x")
            self._thread.join()
            os.read(self._stop_read, 1) if select.select([self._stop_read], [], [], 0)[0] else None
            self._thread = None

    def hang_up(self) -> None:
        """Stop reading and close: the writer gets EPIPE."""
        self.pause()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _run(self) -> None:
        while True:
            ready = select.select([self.fd, self._stop_read], [], [])[0]
            if self._stop_read in ready:
                return
            try:
                piece = os.read(self.fd, self.chunk)
            except OSError:  # a terminal whose other side is gone (EIO), a reset socket
                piece = b""
            with self.changed:
                self.data += piece
                if not piece:
                    self.ended_at = time.monotonic()
                self.changed.notify_all()
            if not piece:
                return
            if self.pace:
                time.sleep(self.pace)

    def wait_for(self, test: Callable[[bytes], Any], seconds: float) -> Any:
        """The first true ``test(data)``; falsy when the stream ended or the time was up without one."""
        limit = time.monotonic() + seconds
        with self.changed:
            while not (found := test(bytes(self.data))):
                left = limit - time.monotonic()
                if left <= 0 or self.ended_at:
                    return found
                self.changed.wait(left)
            return found

    def wait_end(self, seconds: float) -> bool:
        limit = time.monotonic() + seconds
        with self.changed:
            while not self.ended_at:
                left = limit - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(left)
        return True

    def wait_readable(self, seconds: float = DEADLINE) -> None:
        """Wait, without reading, until there is something to read."""
        assert select.select([self.fd], [], [], seconds)[0], "nothing came"

    def close(self) -> None:
        self.hang_up()
        os.close(self._stop_read)
        os.close(self._stop_write)


def ends(kind: str) -> tuple[int, int]:
    """(client's end, server's end) of a stream that the server writes."""
    if kind == "pipe":
        return os.pipe()
    if kind == "socket":
        ours, theirs = socket.socketpair()
        return ours.detach(), theirs.detach()
    if kind == "tty":
        return pty.openpty()
    raise ValueError(f"no stream of kind {kind!r}")


class Child:
    """A script in a child process, seen from its client. ``stdin`` is a pipe: ``order(text)`` sends a line."""

    def __init__(
        self,
        source: str,
        folder: Path,
        *,
        wire: str = "pipe",
        unbuffered: bool = False,
        stderr: str | int = "pipe",
        read_wire: bool = True,
        read_stderr: bool = True,
        stderr_chunk: int = 65536,
        stderr_pace: float = 0.0,
        mode: str = "",
        channel: str = "",
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        arguments: Sequence[str] = (),
        shell: str = "",
        prelude: str = PRELUDE,
        python: str = sys.executable,
        stdin: int | None = None,
        nonblocking: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.source = folder, prelude + source
        self.script = folder / "server.py"
        self.script.write_text(self.source, "utf-8")
        self.hold_path = folder / "hold"
        os.mkfifo(self.hold_path)
        self._hold, self._released = os.open(self.hold_path, os.O_RDWR | os.O_CLOEXEC), False
        self.command = [python, *options, str(self.script), *arguments]
        if shell:  # e.g. ``exec "$@" 2>&1``
            self.command = ["/bin/sh", "-c", shell, "sh", *self.command]
        self.environment = environment(folder, mode, channel, unbuffered, env or {})
        client_wire, server_wire = ends(wire)
        if nonblocking:
            os.set_blocking(server_wire, False)
        self.stderr: Reader | None = None
        server_stderr, close_stderr = self._stderr(stderr, server_wire, read_stderr, stderr_chunk, stderr_pace)
        self.sent = b""
        try:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if stdin is None else stdin,
                stdout=server_wire,
                stderr=server_stderr,
                env=self.environment,
                cwd=folder,
                start_new_session=True,
            )
        finally:
            os.close(server_wire)
            if close_stderr:
                os.close(server_stderr)
        self.wire = Reader(client_wire, reading=read_wire)
        self.exited_at = 0.0
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _stderr(self, kind: str | int, server_wire: int, reading: bool, chunk: int, pace: float) -> tuple[int, bool]:
        if isinstance(kind, int):
            return kind, False
        if kind == "wire":
            return server_wire, False
        ours, theirs = ends(kind)
        self.stderr = Reader(ours, reading=reading, chunk=chunk, pace=pace)
        return theirs, True

    def _wait(self) -> None:
        self.process.wait()
        self.exited_at = time.monotonic()

    # ---- what the client does

    def order(self, text: str = "go") -> None:
        """Send one line to the script's stdin."""
        assert self.process.stdin is not None
        self.sent += text.encode() + b"\n"
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def wait_refused(self, seconds: float = DEADLINE) -> None:
        """Wait until nobody can read what is sent to stdin."""
        assert self.process.stdin is not None
        poller = select.poll()
        poller.register(self.process.stdin.fileno(), 0)
        assert poller.poll(int(seconds * 1000)), "somebody holds the read end of stdin"

    def close_stdin(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def release(self) -> None:
        """Let everybody who is in ``hold()`` (or reads 3 bytes of $HOLD), or will be, go on."""
        if not self._released:
            self._released = True
            os.write(self._hold, b"go\n" * 100)

    def wait_frame(self, number: int, seconds: float = DEADLINE) -> None:
        """Wait until the frame with this id is there."""
        mark = b'"id":%d,' % number
        if not self.wire.wait_for(lambda data: mark in data, seconds):
            raise AssertionError(f"frame {number} did not come within {seconds:g} s, or the wire ended before it")

    def wait_stderr(self, text: str, seconds: float = DEADLINE) -> None:
        """Wait until stderr holds ``text``."""
        assert self.stderr is not None
        if not self.stderr.wait_for(lambda data: text.encode() in data, seconds):
            raise AssertionError(f"stderr did not show {text!r} within {seconds:g} s, or ended before it")

    def wait_exit(self, seconds: float = DEADLINE) -> int:
        self._waiter.join(seconds)
        if self._waiter.is_alive():
            raise AssertionError(f"the process did not end within {seconds:g} s (now: {self.stack()})")
        return int(self.process.returncode)

    def wait_blocked(self, seconds: float = DEADLINE) -> None:
        """Wait until the wire, which nobody reads, takes no more: the same amount waits in it as long as ten looks
        ago.
        """
        limit, same, last = time.monotonic() + seconds, 0, -1
        while same < 10:
            waiting = unread(self.wire.fd)
            same, last = (same + 1, last) if waiting == last and waiting > 0 else (0, waiting)
            assert time.monotonic() < limit, f"the wire goes on taking: {waiting} bytes wait in it"
            time.sleep(0.02)

    def finish(self, seconds: float = DEADLINE, *, stderr_end: bool = True) -> int:
        """Close stdin, wait for the exit and read the wire (and stderr) to its end; returns the exit status."""
        self.close_stdin()
        status = self.wait_exit(seconds)
        if self.wire.fd >= 0:
            if self.wire._thread is None:
                self.wire.start()
            if not self.wire.wait_end(seconds):
                raise AssertionError(f"the wire did not end within {seconds:g} s of the exit: somebody holds it")
        if stderr_end and self.stderr is not None and self.stderr.fd >= 0:
            if self.stderr._thread is None:
                self.stderr.start()
            if not self.stderr.wait_end(seconds):
                raise AssertionError(f"stderr did not end within {seconds:g} s of the exit")
        return status

    # ---- what the client saw

    @property
    def text(self) -> str:
        """Stderr so far. Decoding is strict: a report that is not UTF-8 is a fault."""
        return bytes(self.stderr.data).decode() if self.stderr is not None else ""

    @property
    def raw_text(self) -> str:
        return bytes(self.stderr.data).decode("utf-8", "replace") if self.stderr is not None else ""

    def frames(self) -> list[dict[str, Any]]:
        """The wire's frames; any byte that is not part of a whole frame is an AssertionError."""
        return frames(bytes(self.wire.data))

    def ids(self) -> list[int]:
        return [frame["id"] for frame in self.frames()]

    def line(self, text: str) -> int:
        """The number of the script's only line that holds ``text``."""
        found = [number for number, line in enumerate(self.source.splitlines(), 1) if text in line]
        assert len(found) == 1, f"{text!r} is on lines {found} of the script"
        return found[0]

    def eof_delay(self) -> float:
        """Seconds from the server's exit to the end of the wire, as the client saw them."""
        return self.wire.ended_at - self.exited_at

    def stack(self) -> str:
        """Where the kernel says each thread is: enough to see a hang's kind."""
        found = []
        for task in sorted(Path(f"/proc/{self.process.pid}/task").glob("*")):
            with contextlib.suppress(OSError):
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                found.append(f"{task.name} {state} {(task / 'wchan').read_text()}")
        return ", ".join(found) or "gone"

    def report(self) -> str:
        """Everything that is needed to see what happened."""
        env = " ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(self.environment.items()) if k not in os.environ)
        parts = [
            ("command", f"cd {self.folder}; {env} {shlex.join(self.command)}"),
            ("exit", f"{self.process.returncode}, wire ended {self.eof_delay():.3f} s after it"),
            ("script", self.source),
            ("stdin", repr(self.sent)),
            ("stdout (wire)", _shown(bytes(self.wire.data))),
            ("stderr", _shown(bytes(self.stderr.data)) if self.stderr is not None else "not read here"),
        ]
        return "\n".join(f"--- {name}:\n{value}" for name, value in parts)

    def close(self) -> None:
        """Free whoever waits in hold(), kill what is left of the process group, close all."""
        self.release()
        self.hold_path.unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._waiter.join(DEADLINE)
        self.close_stdin()
        self.wire.close()
        os.close(self._hold)
        if self.stderr is not None:
            self.stderr.close()


def unread(fd: int) -> int:
    """How many bytes wait in a pipe or socket."""
    found = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, found)
    return found[0]


def environment(
    folder: Path, mode: str = "", channel: str = "", unbuffered: bool = False, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a child: ours without anything that would change the guard, and with what is asked for."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith((*OURS, "PYTHON", "COVERAGE"))}
    kept |= {"PYTHONPATH": UNDER_TEST, "HOLD": str(folder / "hold"), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    if unbuffered:
        kept["PYTHONUNBUFFERED"] = "1"
    if mode:
        kept["STDOUT_GUARD"] = mode
    if channel:
        kept["STDOUT_GUARD_CHANNEL"] = channel
    return kept | dict(more or {})


def frames(data: bytes) -> list[dict[str, Any]]:
    """Newline-delimited JSON-RPC, judged to the last byte."""
    lines = data.split(b"\n")
    assert lines.pop() == b"", f"the wire ends in the middle of a frame: {_shown(data[-300:])}"
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            message = json.loads(line.decode())
        except ValueError as error:
            raise AssertionError(f"line {number} of the wire is no frame ({error}): {_shown(line)}") from None
        assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", f"line {number}: {_shown(line)}"
        found.append(message)
    return found


def _shown(data: bytes, most: int = 6000) -> str:
    if len(data) <= most:
        return repr(data)[2:-1].replace("\\n", "\n")
    half = most // 2
    return f"{_shown(data[:half])}\n...[{len(data) - most} bytes left out]...\n{_shown(data[-half:])}"
