"""A server as a child process: its own group, three pipes, every byte time-stamped, an end that always comes.

Rules: nothing here interprets a byte. Every wait has a deadline. The end is close stdin, grace, SIGTERM, SIGKILL, and
only then both pipes are read to end of file or a deadline, because noise at exit comes after the last answer. A process
which still holds the wire by then is named and ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Literal, TypeVar

from stdout_guard.testing import proc
from stdout_guard.testing.capture import Capture
from stdout_guard.testing.records import Ending, Limits, StderrKind, StdoutKind

T = TypeVar("T")
REST = 0.2  # seconds without any work that make a server one at rest
SURE = 1.5  # seconds of idleness after which a server that nothing but input can wake is not waited for any longer
LAST_BYTES = 5.0  # seconds for what is in the pipes when nobody holds them any more: it must arrive


class ServerProcess:
    """Start ``command`` and hold its three streams. ``wire`` is how /proc names its stdout.

    ``env`` is the whole environment. ``stderr="unread"`` leaves its pipe full until the end; ``stdout="pty"`` gives the
    server a raw terminal there; ``wire_variable`` names a variable that tells it its stdout's ``st_dev:st_ino``;
    ``start_cost`` is how many processor seconds an earlier run took to its first answer (attribute ``start_cost``).
    Use as a context manager: leaving it always ends the process group.
    Raises OSError when the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: StderrKind = "pipe",
        stdout: StdoutKind = "pipe",
        limits: Limits | None = None,
        wire_variable: str | None = None,
        start_cost: float | None = None,
    ) -> None:
        self.command = tuple(command)
        self.limits = limits or Limits()
        self.stdin = bytearray()
        self._ending: Ending | None = None
        self.ended_after = 0.0
        self.was_idle = self.was_stuck = False
        self.start_cost: float | None = None
        self._may_cost = start_cost
        out_read, out_write = proc.terminal() if stdout == "pty" else os.pipe()
        self.wire = os.ttyname(out_write) if stdout == "pty" else proc.identity(out_read)
        if wire_variable is not None:
            status = os.fstat(out_write)
            env = {**(os.environ if env is None else env), wire_variable: f"{status.st_dev}:{status.st_ino}"}
        try:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=out_write,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            os.close(out_read)
            raise
        finally:
            os.close(out_write)
        self.pid = self._child.pid
        self._stdin: int | None = _taken(self._child.stdin)
        self._input = proc.identity(self._stdin)
        os.set_blocking(self._stdin, False)
        self._capture = Capture(out_read, _taken(self._child.stderr), unread=stderr == "unread")
        self.stdout, self.stderr = self._capture.stdout, self._capture.stderr

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(grace=0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._capture.elapsed

    @property
    def running(self) -> bool:
        """Whether the first process of the group still runs."""
        return self._child.poll() is None

    def send(self, data: bytes, timeout: float) -> bool:
        """Write to the server's stdin; False when it is closed, or not taken within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        view = memoryview(data)
        while view:
            if self._stdin is None:
                return False
            try:
                count = os.write(self._stdin, view)
            except BlockingIOError:
                left = deadline - time.monotonic()
                poller = select.poll()
                poller.register(self._stdin, select.POLLOUT)
                if left <= 0 or (not poller.poll(min(left, 0.5) * 1000) and not self.running):
                    return False
                continue
            except OSError:
                return False
            self.stdin += view[:count]
            view = view[count:]
        return True

    def close_stdin(self) -> None:
        """End of input for the server."""
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def wait_for(
        self, found: Callable[[], T | None], timeout: float, quiet: float | None = None, *, sleep_is_work: bool = False
    ) -> T | None:
        """Call ``found`` after each arrival until it answers; None at end of file, deadline or ``quiet`` idleness.

        Idle means: for ``quiet`` seconds the group used no processor time, had taken all of its input, and wrote
        nothing to stdout. A slow start (imports, a busy machine) is therefore not idle. ``was_idle`` says how it was.
        Where nothing but more input can wake it (``was_stuck``), it is not waited for as long as that.
        With ``sleep_is_work`` nor is a server whose first thread waits for a clock or a network.
        """
        deadline = time.monotonic() + timeout
        self.was_idle = self.was_stuck = False
        idle = proc.Idleness(self.pid, self._stdin, sleep_is_work)
        look = 0.25 if quiet is None else min(max(quiet / 8, 0.02), 0.25)  # seconds
        with self._capture.changed:
            while True:
                result = found()
                if result is not None and self.start_cost is None:
                    self.start_cost = proc.processor_seconds(self.pid)
                if result is not None or self.stdout.eof:
                    return result
                left = deadline - time.monotonic()
                rested = idle.seconds(self.stdout.size)
                self.was_stuck = quiet is not None and rested >= SURE and proc.stuck(self.pid, self._input)
                if left <= 0 or self.was_stuck or (quiet is not None and rested >= quiet):
                    self.was_idle = rested >= min(quiet or 1.0, 1.0)
                    return None
                self._capture.changed.wait(min(left, look))

    def rest(self, timeout: float) -> bool:
        """Wait until the server is at rest: it waits for input, its last write has returned. False at the deadline.

        An answer can be read before the ``write()`` that brought it has returned: who acts on a byte alone meets the
        server in the middle of its own work (a signal handler that prints then fails in the stream that is at work).
        """
        self.wait_for(lambda: None, timeout, REST)
        return self.was_idle

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the whole group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def finish(self, grace: float | None = None, first: signal.Signals | None = None) -> Ending:
        """Close stdin (or send ``first`` with stdin open), escalate, read both pipes to their end. Idempotent."""
        if self._ending is not None:
            return self._ending
        began = time.monotonic()
        if first is None:
            self.close_stdin()
        else:
            self.tell(first)
        limits = self.limits
        how: Literal["by itself", "SIGTERM", "SIGKILL"] = "by itself"
        if not self._leaves(limits.grace if grace is None else grace):
            how = "SIGTERM"
            self.tell(signal.SIGTERM)
            if not self._wait_exit(limits.term):
                how = "SIGKILL"
                self.tell(signal.SIGKILL)
                self._wait_exit(10.0)
        seconds = time.monotonic() - began
        self.close_stdin()
        self._capture.read_err()
        eof, survivors = self._read_to_the_end()
        self._capture.release()
        self.ended_after = self.elapsed
        self._ending = Ending(self._child.poll(), how, seconds, survivors, eof)
        return self._ending

    def _read_to_the_end(self) -> tuple[bool, tuple[proc.Holder, ...]]:
        """Whether both pipes ended by themselves, and who held them open; those are ended."""
        if self._capture.drained(self.limits.drain):
            return True, ()
        survivors = proc.holders({self.wire, proc.identity(self._capture.fds[1])})
        if not survivors:  # all that is missing is on its way to our own readers
            return self._capture.drained(max(self.limits.drain, LAST_BYTES)), ()
        self.tell(signal.SIGKILL)
        proc.end(survivors)
        self._capture.drained(self.limits.drain)
        return False, survivors

    def leaves(self, seconds: float) -> bool:
        """Whether the first process has ended, or does within ``seconds``."""
        return self._wait_exit(seconds)

    def _leaves(self, grace: float) -> bool:
        """Whether it ends within ``grace`` seconds without work, or of its own processor time.

        What a busy machine or another process takes is not counted, nor is the start of one that may not have begun.
        """
        begun = self.start_cost is not None
        starting = self.limits.start if not self.stdin else self.limits.start / 2
        latest = time.monotonic() + grace + (starting if grace else 0)
        idle = proc.Idleness(self.pid, None)
        allowed = grace + (
            0 if begun else starting if self._may_cost is None else min(starting, 2 * self._may_cost + 1)
        )
        while not self._wait_exit(min(grace, 0.25)):
            rested = idle.seconds(self.stdout.size)
            if rested >= grace or idle.spent >= allowed or time.monotonic() >= latest:
                return self._child.poll() is not None
        return True

    def _wait_exit(self, seconds: float) -> bool:
        if self._child.poll() is not None:
            return True
        if not hasattr(os, "pidfd_open"):  # no Linux
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(max(seconds, 0))
            return self._child.poll() is not None
        handle = os.pidfd_open(self.pid)
        try:
            poller = select.poll()
            poller.register(handle, select.POLLIN)
            poller.poll(max(seconds, 0) * 1000)
        finally:
            os.close(handle)
        return self._child.poll() is not None


def _taken(pipe: IO[bytes] | None) -> int:
    """The descriptor of a pipe that Popen made, out of the hands of its file object."""
    assert pipe is not None
    with pipe:
        return os.dup(pipe.fileno())
