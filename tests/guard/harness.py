"""A script as a child process on real pipes: what the client got, what stderr said, how it ended.

``STDOUT_GUARD_UNDER_TEST`` names a folder that holds another copy of the package, to see a test fail on a broken one.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNDER_TEST = os.environ.get("STDOUT_GUARD_UNDER_TEST") or str(ROOT)
DEADLINE = 60.0  # seconds for a whole child; generous, since the machine may be busy
FRAME = b'{"jsonrpc":"2.0","id":1,"result":"ok"}\n'
PREFIX = "stdout-guard: "

# What most scripts begin with: the guard, and ``answer()``, which puts FRAME on the wire.
PRELUDE = f"""\
from stdout_guard.auto import guard
def answer(): guard.wire.write({FRAME!r})
"""


@dataclass(frozen=True)
class Result:
    """A child that has ended. ``wire`` is everything its client got, read to the end of file."""

    command: str
    source: str
    stdin: bytes
    wire: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        """Stderr; the decoding is strict, since a report that is not UTF-8 is a fault."""
        return self.stderr.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def report(self) -> list[str]:
        """The report's lines without their prefix, and without the summary at exit."""
        said = [line.removeprefix(PREFIX) for line in self.lines if line.startswith(PREFIX)]
        return [line for line in said if not re.match(r"\d+ stray writes? kept off the wire: ", line)]

    @property
    def summary(self) -> str:
        """The summary at exit, without its prefix; empty when nothing was said."""
        found = [line for line in self.lines if " kept off the wire: " in line]
        assert len(found) <= 1, found
        return found[0].removeprefix(PREFIX) if found else ""

    def at(self, *templates: str) -> list[str]:
        """The templates with each ``{mark}`` replaced by the number of the script's line that ends in ``#@mark``."""
        return [filled(template, self.source) for template in templates]

    def __str__(self) -> str:
        parts = (
            ("command", self.command),
            ("exit status", self.status),
            ("script", "\n".join(f"{n:3} {line}" for n, line in enumerate(self.source.splitlines(), 1))),
            ("stdin", shown(self.stdin, 600)),
            ("stdout (wire)", shown(self.wire)),
            ("stderr", shown(self.stderr)),
        )
        return "\n".join(f"--- {name}:\n{value}" for name, value in parts)


def line_of(source: str, mark: str) -> int:
    """The number of the only line of ``source`` that ends in ``#@mark``."""
    found = [number for number, line in enumerate(source.splitlines(), 1) if line.endswith(f"#@{mark}")]
    assert len(found) == 1, f"#@{mark} is on lines {found}"
    return found[0]


def filled(template: str, source: str) -> str:
    """``template`` with each ``{mark}`` replaced by the number of the line of ``source`` that ends in ``#@mark``."""
    return re.sub(r"\{(\w+)\}", lambda found: str(line_of(source, found[1])), template)


def environment(more: Mapping[str, str] | None = None, unbuffered: bool = False) -> dict[str, str]:
    """This process's environment without what would change the guard or the interpreter, and with what is asked for."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STDOUT_GUARD", "_STDOUT_GUARD", "PYTHON", "COV"))}
    kept |= {"PYTHONPATH": UNDER_TEST, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    if unbuffered:
        kept["PYTHONUNBUFFERED"] = "1"
    return kept | dict(more or {})


def run(
    source: str,
    folder: Path,
    *,
    prelude: str = PRELUDE,
    name: str = "server.py",
    command: Sequence[str] | None = None,
    options: Sequence[str] = (),
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    unbuffered: bool = False,
    stdin: bytes = b"",
    cwd: Path | None = None,
    deadline: float = DEADLINE,
) -> Result:
    """Write ``prelude + source`` into ``folder/name`` and run it there (or run ``command``) to its end.

    A child that is not done in time is killed with its process group, and is an AssertionError that tells all.
    """
    text = prelude + source
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    words = list(command) if command is not None else [sys.executable, *options, str(path), *arguments]
    variables = environment(env, unbuffered)
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        cwd=cwd or folder,
        start_new_session=True,
    )
    late = False
    try:
        wire, stderr = process.communicate(stdin, timeout=deadline)
    except subprocess.TimeoutExpired:
        late = True
        end_group(process.pid)
        wire, stderr = process.communicate()
    set_here = {k: v for k, v in sorted(variables.items()) if os.environ.get(k) != v}
    call = " ".join([*(f"{k}={shlex.quote(v)}" for k, v in set_here.items()), shlex.join(words)])
    result = Result(f"cd {cwd or folder}; {call}", text, stdin, wire, stderr, process.returncode)
    assert not late, f"not done within {deadline:g} s\n{result}"
    return result


def end_group(pid: int) -> None:
    """Kill what is left of the process group that ``run`` made for its child."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def shown(data: bytes, most: int = 8000) -> str:
    """Bytes for people, line by line."""
    text = repr(data)[2:-1].replace("\\n", "\n")
    return text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-most // 2 :]}"
