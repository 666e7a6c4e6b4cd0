"""The circumstances a server is started in, one run for each: a table that users extend.

A condition says what it changes, what its script is, and in one sentence what it teaches. ``{tmp}`` in a value is a
fresh empty folder of the run; ``None`` as a value unsets the variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stdout_guard.testing.records import StderrKind, StdoutKind

SCRIPT = ("handshake", "list", "call", "hostile", "idle:0.2", "leave", "close")
AT_ONCE = (*SCRIPT[:3], "at-once", *SCRIPT[3:])  # in one condition is enough
Folder = Literal["inherit", "empty", "read-only"]
Env = Mapping[str, str | None]


@dataclass(frozen=True)
class Condition:
    """One row of the table.

    ``wrap`` goes before the command, ``arguments`` behind it. ``answers="optional"`` where a server may rightly die
    without answering; ``exits`` says which exit statuses are right; ``advisory`` findings are told and never fail;
    ``runs`` starts it that many times in the same folder; ``supplied`` conditions need the user's own part.
    """

    name: str
    teaches: str
    env: Env = field(default_factory=dict[str, str | None])
    cwd: Folder = "inherit"
    wrap: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    script: tuple[str, ...] = SCRIPT
    stderr: StderrKind = "pipe"
    stdout: StdoutKind = "pipe"
    answers: Literal["required", "optional"] = "required"
    exits: Literal["zero", "any", "signal"] = "zero"
    advisory: bool = False
    runs: int = 1
    supplied: bool = False


# Without a stderr the first descriptor that the server opens gets the number 2: it says nothing about merging then.
CLOSED = 'exec "$@" 2>&-'
MERGED = 'exec "$@" 2>&1'
_VERBOSE = {
    "DEBUG": "*",
    "VERBOSE": "1",
    "LOG_LEVEL": "DEBUG",
    "LOGLEVEL": "DEBUG",
    "LOGURU_LEVEL": "DEBUG",
    "FASTMCP_LOG_LEVEL": "DEBUG",
    "MCP_LOG_LEVEL": "DEBUG",
    "HTTPX_LOG_LEVEL": "debug",
    "TRANSFORMERS_VERBOSITY": "debug",
    "GRPC_VERBOSITY": "DEBUG",
    "PYTHONASYNCIODEBUG": "1",
    "RUST_LOG": "debug",
    "NODE_DEBUG": "module",
}
_TABLE = (
    Condition("plain", "what a client sees on an ordinary day: any finding here is seen by every user", script=AT_ONCE),
    Condition(
        "eof",
        "stdin closed at once: start-up and shutdown banners show with no session to hide them",
        script=("close",),
        answers="optional",
    ),
    Condition(
        "idle",
        "the first request comes late: timers, update checks and keep-alives have had time to speak",
        script=("idle:4", *SCRIPT),
    ),
    Condition("verbose", "dependencies told to be verbose: debug output that goes to stdout shows now", env=_VERBOSE),
    Condition("no-home", "HOME unset: configuration and cache code takes its error path", env={"HOME": None}),
    Condition(
        "missing-home",
        "HOME does not exist: a first-start notice or a warning about it must not reach the wire",
        env={"HOME": "{tmp}/nowhere"},
    ),
    Condition(
        "read-only-cwd", "nothing can be written where it starts: log files fall back to the console", cwd="read-only"
    ),
    Condition("empty-cwd", "no optional configuration around: default-settings notices show", cwd="empty"),
    Condition(
        "warnings",
        "PYTHONWARNINGS=always: deprecations shown by default in the next release show today",
        env={"PYTHONWARNINGS": "always"},
    ),
    Condition(
        "dev-mode",
        "PYTHONDEVMODE=1: unclosed files and never-awaited coroutines speak at exit",
        env={"PYTHONDEVMODE": "1"},
    ),
    Condition(
        "ascii",
        "a minimal container's locale: text beyond ASCII must still leave as UTF-8",
        env={"LC_ALL": "POSIX", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    Condition(
        "latin-1",
        "the console's encoding is not UTF-8: the wire must not follow it",
        env={"PYTHONIOENCODING": "latin-1"},
    ),
    Condition(
        "unbuffered",
        "PYTHONUNBUFFERED=1: noise comes where it was written, glued or torn",
        env={"PYTHONUNBUFFERED": "1"},
    ),
    Condition(
        "buffered",
        "PYTHONUNBUFFERED unset: an answer or noise that waits in a buffer until exit shows",
        env={"PYTHONUNBUFFERED": None},
    ),
    Condition(
        "bad-argument",
        "an argument it does not know: usage text belongs on stderr, whatever the exit status",
        arguments=("--no-such-option-of-this-server",),
        answers="optional",
        exits="any",
    ),
    Condition(
        "start-failure",
        "a start-up failure it can report: the report must not be on stdout",
        answers="optional",
        exits="any",
        supplied=True,
    ),
    Condition(
        "stderr-closed",
        "no stderr at all: diagnostics must not fall back to stdout",
        wrap=("/bin/sh", "-c", CLOSED, "sh"),
        answers="optional",
        exits="any",
    ),
    Condition("stderr-unread", "a client that never reads stderr: the answers must still come", stderr="unread"),
    Condition(
        "merged",
        "a wrapper with 2>&1: what a client would be sent by a supervisor that merges the streams",
        wrap=("/bin/sh", "-c", MERGED, "sh"),
        answers="optional",
        exits="any",
        advisory=True,
    ),
    Condition(
        "terminal", "stdout is a terminal: colours, progress bars and greetings that look for one show", stdout="pty"
    ),
    Condition(
        "sigterm",
        "SIGTERM with stdin open: a handler must not say goodbye on stdout",
        script=(*SCRIPT[:-2], "sigterm"),
        exits="signal",
    ),
    Condition(
        "repeat",
        "a cold start, then a warm one: first-start notices and cache messages",
        env={"HOME": "{tmp}", "XDG_CACHE_HOME": "{tmp}/cache", "PYTHONPYCACHEPREFIX": "{tmp}/bytecode"},
        runs=2,
    ),
)
CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _TABLE}
