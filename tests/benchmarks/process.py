"""Child processes on pipes, with a deadline, and what they cost: wall clock here, CPU time from wait4 or /proc."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DEADLINE = 120.0
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STDOUT_GUARD", "_STDOUT_GUARD"))}


class ChildFailed(Exception):
    """A child did not do as it was told; the text holds command, status and what it printed."""


@dataclass
class Child:
    """A process with pipes on 0, 1 and 2. ``sink``: a descriptor for its stderr instead of a pipe to us. ``pause``:
    seconds between two reads of ours, where waking us must not be a part of what is measured."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    sink: int | None = None
    deadline: float = DEADLINE
    pause: float = 0.0

    def __post_init__(self) -> None:
        (child_in, self.stdin), (self.stdout, child_out), (self.stderr, child_err) = os.pipe(), os.pipe(), os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, child_in, 0),
            (os.POSIX_SPAWN_DUP2, child_out, 1),
            (os.POSIX_SPAWN_DUP2, child_err if self.sink is None else self.sink, 2),
        ]
        self.started = time.perf_counter()
        self.ends = self.started + self.deadline
        self.pid = os.posix_spawn(
            self.command[0], list(self.command), {**CLEAN, **self.environment}, file_actions=actions, setpgroup=0
        )
        for fd in (child_in, child_out, child_err):
            os.close(fd)
        self.buffer, self.errors = bytearray(), bytearray()
        self.open = {self.stdout, self.stderr}

    def send(self, data: bytes) -> None:
        """Write to its stdin."""
        os.write(self.stdin, data)

    def close_stdin(self) -> None:
        """It sees the end of its input."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def line(self) -> bytes:
        """The next line of its stdout; stderr is kept."""
        while (end := self.buffer.find(b"\n")) < 0:
            if not self._read() or self.stdout not in self.open:
                raise self._failed("no line came")
        found = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return found

    def _read(self, most: int = 1 << 20) -> bool:
        if self.pause:
            time.sleep(self.pause)
        ready = select.select(list(self.open), [], [], max(0.0, self.ends - time.perf_counter()))[0]
        for fd in ready:
            piece = os.read(fd, most)
            if not piece:
                self.open.discard(fd)
            (self.buffer if fd == self.stdout else self.errors).extend(piece)
        return bool(ready)

    def finish(self) -> tuple[float, float]:
        """Close its input, read all there is, and return (wall seconds since the start, CPU seconds)."""
        self.close_stdin()
        while self.open:
            if not self._read():
                raise self._failed("it did not end")
        _, status, used = os.wait4(self.pid, 0)
        wall = time.perf_counter() - self.started
        self.pid = 0
        for fd in (self.stdout, self.stderr):
            os.close(fd)
        if status:
            raise self._failed(f"status {os.waitstatus_to_exitcode(status)}")
        return wall, used.ru_utime + used.ru_stime

    def _failed(self, why: str) -> ChildFailed:
        if self.pid:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        said = bytes(self.errors[-4000:]).decode("utf-8", "replace")
        seen = bytes(self.buffer[-1000:]).decode("utf-8", "replace")
        return ChildFailed(f"{why}: {' '.join(self.command)}\n--- stdout\n{seen}\n--- stderr\n{said}")

    def cpu(self) -> float:
        """CPU seconds of its threads so far, to the nanosecond."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_bytes().split()[0])
            except OSError:  # a thread that ended just now
                continue
        return total / 1e9


def run_out(
    command: Sequence[str], environment: Mapping[str, str] | None = None, pause: float = 0.0
) -> tuple[Child, float, float]:
    """Run to the end; returns the child (with ``buffer`` and ``errors``), wall and CPU seconds."""
    child = Child(command, environment or {}, pause=pause)
    wall, cpu = child.finish()
    return child, wall, cpu
