"""What /proc knows about a server's processes: who holds a pipe, whose stderr is the wire, who is idle.

Linux; elsewhere, and for processes of other users, the answers are empty or "not idle", never an error.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import termios
import time
import tty
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """A process which still has the write end of one of our pipes open."""

    pid: int
    command: str
    fds: tuple[int, ...]


def command_line(pid: int) -> str:
    """The process' arguments joined by blanks, or its short name, or ``?``."""
    for name in ("cmdline", "comm"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
            text = file.read(4096).replace(b"\0", b" ").strip().decode("utf-8", "backslashreplace")
            if text:
                return text
    return "?"


def _processes() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                yield int(name)


def _links(pid: int) -> Iterator[tuple[int, str]]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield int(name), os.readlink(f"{folder}/{name}")


def _writes(pid: int, fd: int) -> bool:
    """Whether the descriptor is open for writing, as far as /proc tells."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
        for line in file:
            if line.startswith("flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return True


def identity(fd: int) -> str:
    """How /proc names what ``fd`` points to; both ends of a pipe have the same name."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{fd}")
    return ""


def holders(names: Collection[str]) -> tuple[Holder, ...]:
    """Every process but ours that has one of these pipes or terminals open for writing.

    (A child of ours that was forked and has not yet become another server holds the reading ends for a moment.)
    """
    wanted = set(names) - {""}
    found: list[Holder] = []
    for pid in _processes():
        if pid == os.getpid():
            continue
        held = tuple(sorted(fd for fd, target in _links(pid) if target in wanted and _writes(pid, fd)))
        if held:
            found.append(Holder(pid, command_line(pid), held))
    return tuple(found)


def end(survivors: Sequence[Holder]) -> None:
    """Kill processes that outlived their server while holding its pipes (they can only be its descendants)."""
    for holder in survivors:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder.pid, signal.SIGKILL)


def _stat(process: str) -> list[str] | None:
    """The fields of /proc/``process``/stat behind the name: state, parent, group, session and so on."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{process}/stat", encoding="latin-1") as file:
        return file.read().rsplit(")", 1)[1].split()
    return None


def _waits(pid: int) -> bool:
    """Whether every thread of the process waits for an event; one that runs, or waits for a processor, does not."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    states = [fields[0] for task in tasks if (fields := _stat(f"{pid}/task/{task}")) is not None]
    return all(state in "SZX" for state in states)


# system calls of a thread that waits for a clock or for another machine: nanosleep, clock_nanosleep, connect, recv*
_SLEEPING = {
    "x86_64": {"35", "230", "42", "45", "47"},
    "aarch64": {"101", "115", "203", "207", "212"},
}.get(os.uname().machine, set[str]())


def _sleeps(pid: int) -> bool:
    """Whether the process' first thread waits for a clock or another machine, as far as /proc tells."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0] in _SLEEPING
    return False


# system calls that may wait without end: a read of a pipe, a lock (futex: its fourth argument is a time limit), a child
_WAITS_FOR_EVER = {
    "x86_64": {"0": "read", "19": "read", "202": "lock", "61": "child", "247": "child"},
    "aarch64": {"63": "read", "65": "read", "98": "lock", "260": "child", "95": "child"},
}.get(os.uname().machine, dict[str, str]())


def stuck(leader: int, stdin: str) -> bool:
    """Whether nothing but more input can wake the session: each thread reads ``stdin`` (its name in /proc) or waits
    for another one, without a time limit. False when that cannot be told (an event loop, a network, a foreign child).
    """
    found = {pid: fields for pid in _processes() if (fields := _stat(str(pid))) is not None}
    members = [pid for pid, fields in found.items() if int(fields[3]) == leader]
    foreign = any(int(fields[1]) in members and int(fields[3]) != leader for fields in found.values())
    return bool(members) and not foreign and all(_stuck(pid, stdin) for pid in members if found[pid][0] != "Z")


def _stuck(pid: int, stdin: str) -> bool:
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/syscall", encoding="ascii") as file:
                number, *arguments = file.read().split()
            what = _WAITS_FOR_EVER.get(number)
            if what == "read" and os.readlink(f"/proc/{pid}/fd/{int(arguments[0], 16)}") != stdin:
                return False
            if what is None or (what == "lock" and int(arguments[3], 16)):
                return False
    except (OSError, ValueError, IndexError):
        return False
    return True


def session_members(leader: int) -> tuple[int, ...]:
    """The processes of the session that ``leader`` began."""
    found: list[int] = []
    for pid in _processes():
        fields = _stat(str(pid))
        if fields is not None and int(fields[3]) == leader:
            found.append(pid)
    return tuple(found)


def merged(leader: int, wire: str) -> tuple[Holder, ...]:
    """The processes of the session whose descriptor 2 is the wire, given by its name in /proc, or ends there: a pipe
    that is their descriptor 1 too (``2>&1 |``) and the input of a process whose descriptor 1 is the wire (``tee``)."""
    if not wire:
        return ()
    links = {pid: dict(_links(pid)) for pid in session_members(leader)}
    feeds = {held[0] for held in links.values() if held.get(1) == wire and held.get(0, "").startswith("pipe:")}
    found: list[Holder] = []
    for pid, held in links.items():
        if held.get(2) == wire or (held.get(2) in feeds and held.get(1) == held[2]):
            shared = tuple(sorted(fd for fd, link in held.items() if link == held[2]))
            found.append(Holder(pid, command_line(pid), shared))
    return tuple(found)


def terminal() -> tuple[int, int]:
    """A pseudo-terminal in raw mode: isatty() is true, no byte is translated."""
    master, slave = os.openpty()
    tty.setraw(slave)
    return master, slave


def processor_seconds(leader: int) -> float:
    """What the living processes of the session have used so far."""
    members = [fields for pid in session_members(leader) if (fields := _stat(str(pid))) is not None]
    return sum(int(fields[11]) + int(fields[12]) for fields in members) / _TICKS


_TICKS = os.sysconf("SC_CLK_TCK")


class Idleness:
    """For how long a session has used no processor time, written nothing, and left no input untaken."""

    def __init__(self, leader: int, stdin: int | None, sleep_is_work: bool = False) -> None:
        self._leader = leader
        self._stdin = stdin
        self._sleep_is_work = sleep_is_work
        self._seen: tuple[object, ...] = ()
        self._since = time.monotonic()
        self._ticks: dict[int, int] = {}
        self.spent = 0.0  # processor seconds that the session was seen to use since the first look

    def seconds(self, written: int) -> float:
        """Seconds of idleness so far; ``written`` is anything that changes when the server writes."""
        now = time.monotonic()
        pending = self._pending()
        state = (written, pending, *self._processor_times())
        if state != self._seen or pending > 0:
            self._seen, self._since = state, now
        return now - self._since

    def _pending(self) -> int:
        if self._stdin is None:
            return 0
        count = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._stdin, termios.FIONREAD, count)
        return count[0]

    def _processor_times(self) -> tuple[object, ...]:
        """What changes when a process works; a process that runs or waits for a disk is never the same."""
        times: list[object] = []
        for pid in session_members(self._leader):
            fields = _stat(str(pid))
            if fields is not None:
                ticks = int(fields[11]) + int(fields[12])
                self.spent += (ticks - self._ticks.get(pid, 0 if self._seen else ticks)) / _TICKS
                self._ticks[pid] = ticks
                waits = _waits(pid) and not (self._sleep_is_work and _sleeps(pid))
                times.append((pid, fields[11], fields[12], True if waits else time.monotonic()))
        return tuple(times)
