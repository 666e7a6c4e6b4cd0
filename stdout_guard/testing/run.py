"""One run: a server, a condition, its script; everything that was written, and when."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stdout_guard.errors import StdoutGuardError
from stdout_guard.testing.conditions import Condition
from stdout_guard.testing.dialogue import Dialogue, Mark
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.process import ServerProcess
from stdout_guard.testing.protocols import PROTOCOLS, Protocol
from stdout_guard.testing.records import Ending, Limits
from stdout_guard.testing.steps import Session, perform

Env = Mapping[str, str | None]
KNOWN_GRACE = 2.0  # seconds of grace for a server that did not end by itself before


@dataclass(frozen=True)
class Server:
    """What is tested: the command of production, its environment, and what the script needs to know.

    ``env`` is laid over the gate's own environment (``None`` unsets). ``effects`` are paths that must not change while
    refused lines are sent. ``exits`` are the exit statuses that are right after end of input. ``isolated`` leaves out
    the variables through which a checkout could be imported. ``ignored`` are methods that an earlier run left
    unanswered, ``start_cost`` the processor seconds that it took to the first answer.
    """

    name: str
    command: tuple[str, ...]
    protocol: Protocol = PROTOCOLS["mcp"]
    env: Env = field(default_factory=dict[str, str | None])
    cwd: str | None = None
    calls: tuple[Call, ...] = ()
    effects: tuple[str, ...] = ()
    exits: tuple[int, ...] = (0,)
    limits: Limits = field(default_factory=Limits)
    isolated: bool = False
    ignored: frozenset[str] = frozenset()
    start_cost: float | None = None


def name_of(command: Sequence[str]) -> str:
    """What a command runs, in a word: the script or module of an interpreter, else the program."""
    words = list(command)
    script = next((word for word in words[1:] if word.endswith((".py", ".js", ".mjs"))), "")
    if "-m" in words[1:-1]:
        script = words[words.index("-m") + 1]
    return os.path.basename(script or words[0])


class RunError(StdoutGuardError):
    """A server could not be started."""


@dataclass
class Run:
    """What one start of the server under one condition gave. ``error`` is set when it could not be started."""

    server: Server
    condition: Condition
    command: tuple[str, ...]
    cwd: str
    changes: dict[str, str | None]
    number: int = 1
    error: str | None = None
    stdin: bytes = b""
    sent: bytes = b""
    stdout: bytes = b""
    stderr: bytes = b""
    lost: int = 0
    seconds: float = 0.0
    session: Session | None = None
    protocol: Protocol = PROTOCOLS["mcp"]
    start_cost: float | None = None

    @property
    def ending(self) -> Ending | None:
        """How the process ended; None when it never began."""
        return None if self.session is None else self.session.ending

    @property
    def marks(self) -> Sequence[Mark]:
        """The steps' windows on stdout, in order."""
        return () if self.session is None else self.session.dialogue.marks

    def learnt(self, server: Server) -> Server:
        """``server`` for later runs: what this one awaited in vain they await less long."""
        session = self.session
        if session is None:
            return server
        missing = () if session.ended_in else (*session.unanswered, *session.dialogue.unanswered())
        limits = server.limits
        if session.ending is not None and session.ending.how != "by itself":
            limits = replace(limits, grace=min(limits.grace, KNOWN_GRACE))
        return replace(server, ignored=server.ignored.union(missing), limits=limits, start_cost=self.start_cost)

    def fill(self, process: ServerProcess) -> None:
        """Take over what the process wrote and was sent, once it has ended."""
        if self.session is None:
            return
        dialogue = self.session.dialogue
        self.seconds, self.start_cost = process.ended_after, process.start_cost
        self.protocol = dialogue.protocol
        self.stdin, self.sent = bytes(process.stdin), bytes(dialogue.sent)
        self.stdout, self.stderr, self.lost = process.stdout.bytes(), process.stderr.bytes(), process.stdout.lost

    def step_at(self, offset: int) -> str:
        """The step during which the byte at ``offset`` of stdout came."""
        for mark in self.marks:
            if offset < mark.end:
                return mark.step
        return self.marks[-1].step if self.marks else "start-up"


_CHECKOUT_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "NODE_PATH")


def base_environment(server: Server) -> dict[str, str]:
    """The gate's environment, without the ways to a checkout for an isolated server."""
    return {k: v for k, v in os.environ.items() if not (server.isolated and k in _CHECKOUT_VARIABLES)}


def execute(
    server: Server,
    condition: Condition,
    extra_env: Env | None = None,
    wire_variable: str | None = None,
    replay: bytes = b"",
) -> list[Run]:
    """Run ``server`` under ``condition`` as often as it says.

    ``extra_env`` is laid over everything; ``replay`` is what a ``replay`` step sends.
    """
    with tempfile.TemporaryDirectory(prefix="stdout-guard-", ignore_cleanup_errors=True) as folder:
        changes = {**server.env, **condition.env, **(extra_env or {})}
        changes = {k: None if v is None else v.replace("{tmp}", folder) for k, v in changes.items()}
        with _folder(server, condition) as cwd:
            command = absolute(server.command, server.cwd) if cwd != _home(server) else server.command
            if "-m" in command and cwd != _home(server) and not server.isolated:
                old = changes.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
                changes["PYTHONPATH"] = os.pathsep.join(filter(None, (old, _home(server))))
            blank = Run(server, condition, (*condition.wrap, *command, *condition.arguments), cwd, changes)
            return [_once(replace(blank, number=number + 1), wire_variable, replay) for number in range(condition.runs)]


def _once(run: Run, wire_variable: str | None, replay: bytes) -> Run:
    process = start(run, wire_variable)
    if process is not None and run.session is not None:
        with process:
            run.session.replay = replay
            perform(run.session, run.condition.script)
        run.fill(process)
    return run


def opened(server: Server, condition: Condition) -> tuple[Run, ServerProcess]:
    """A run whose session the caller drives and ends. Raises RunError when it cannot be started."""
    changes = {**server.env, **condition.env}
    run = Run(server, condition, (*condition.wrap, *server.command, *condition.arguments), _home(server), changes)
    process = start(run)
    if process is None:
        raise RunError(f"{server.name}: {run.error}")
    return run, process


def start(run: Run, wire_variable: str | None = None) -> ServerProcess | None:
    """Start the process of ``run`` and give it a session; None, with ``run.error`` set, when it cannot be started."""
    server, condition = run.server, run.condition
    env = base_environment(server)
    for name, value in run.changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    program = run.command[len(condition.wrap)]
    if shutil.which(program, path=env.get("PATH")) is None and not os.path.exists(os.path.join(run.cwd, program)):
        run.error = f"{program!r} is not a program that can be found"
        return None
    try:
        process = ServerProcess(
            run.command,
            env=env,
            cwd=run.cwd,
            stderr=condition.stderr,
            stdout=condition.stdout,
            limits=server.limits,
            wire_variable=wire_variable,
            start_cost=server.start_cost,
        )
    except (OSError, ValueError) as error:
        run.error = f"the command could not be started: {error}"
        return None
    run.session = Session(Dialogue(process, server.protocol, server.ignored), server.calls, server.effects)
    return process


def _home(server: Server) -> str:
    return os.path.abspath(server.cwd or os.getcwd())


@contextlib.contextmanager
def _folder(server: Server, condition: Condition) -> Generator[str]:
    if condition.cwd == "read-only":
        yield "/proc" if os.path.isdir("/proc") else "/"  # refuses even the superuser
    elif condition.cwd == "empty":
        with tempfile.TemporaryDirectory(prefix="stdout-guard-cwd-", ignore_cleanup_errors=True) as folder:
            yield folder
    else:
        yield _home(server)


def absolute(command: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """The command with its relative paths made absolute, so that it means the same in another folder."""
    home = os.path.abspath(cwd or os.getcwd())
    words: list[str] = []
    for number, word in enumerate(command):
        path = os.path.join(home, word)
        looks = "/" in word if number == 0 else not word.startswith("-")
        words.append(path if looks and not os.path.isabs(word) and os.path.exists(path) else word)
    return tuple(words)
