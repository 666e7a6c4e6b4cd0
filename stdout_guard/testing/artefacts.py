"""What a maintainer needs to see it again without the conversation: one folder for each run.

``stdin.bin stdout.bin stderr.txt report.json repro.sh env.txt``. Files are for the owner only; secrets are overwritten
in place, so that offsets in ``stdout.bin`` stay those of the report; ``env.txt`` holds names, never values.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from stdout_guard.testing.gate import ServerResult
from stdout_guard.testing.jsonreport import outcome_report
from stdout_guard.testing.run import Run
from stdout_guard.testing.safe import HIDDEN, Redactor, environment_names
from stdout_guard.testing.verdicts import Outcome

CAP = 8 * 1024 * 1024  # bytes of a stream kept in a file


def write(folder: str, results: Sequence[ServerResult], redactor: Redactor) -> dict[int, list[str]]:
    """Write all runs below ``folder``; the files of each run by ``id(run)``."""
    written: dict[int, list[str]] = {}
    for result in results:
        for outcome in result.outcomes:
            if outcome.run.session is not None:
                place = Path(folder, _name(result.plan.server.name), _run_name(outcome.run))
                written[id(outcome.run)] = _one(place, outcome, redactor)
    return written


def _run_name(run: Run) -> str:
    return _name(run.condition.name + (f"-{run.number}" if run.condition.runs > 1 else ""))


def _name(text: str) -> str:
    return re.sub(r"[^\w.\-]+", "_", text).lstrip(".")[:80] or "unnamed"


def _one(place: Path, outcome: Outcome, redactor: Redactor) -> list[str]:
    run = outcome.run
    place.mkdir(parents=True, exist_ok=True)
    report = json.dumps(outcome_report(outcome, redactor), indent=1)
    files = {
        "stdin.bin": redactor.data(run.stdin[:CAP]),
        "stdout.bin": redactor.data(run.stdout[:CAP]),
        "stderr.txt": redactor.lines(run.stderr, CAP).encode(),
        "report.json": report.encode() + b"\n",
        "repro.sh": repro(run, redactor).encode(),
        "env.txt": "".join(f"{name}\n" for name in environment_names(run.changes)).encode("utf-8", "backslashreplace"),
    }
    for name, data in files.items():
        _private(place / name, data, 0o700 if name == "repro.sh" else 0o600)
    return [str(place / name) for name in files]


def _private(path: Path, data: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(handle, "wb") as file:
        file.write(data)


def repro(run: Run, redactor: Redactor) -> str:
    """A shell script that sends the same bytes to the same command and judges what comes back."""
    command = redactor.argv(run.command)
    changes: list[str] = []
    for name, value in sorted(run.changes.items()):
        changes.append(
            f"unset {name}"
            if value is None
            else f"export {name}={shlex.quote(redactor.argv([f'{name}={value}'])[0].partition('=')[2])}"
        )
    hidden = any(HIDDEN in word for word in (*command, *changes))
    lines = [
        "#!/bin/sh",
        f"# {run.condition.name}: {run.condition.teaches}",
        *(["# put your own value where it says [redacted]"] if hidden else []),
        'here=$(cd "$(dirname "$0")" && pwd)',
        f"cd {shlex.quote(run.cwd)} || exit 3" if os.path.isdir(run.cwd) else 'cd "$(mktemp -d)" || exit 3',
        *changes,
        "# the requests at once, then time to answer, then end of input",
        f'{{ cat "$here/stdin.bin"; sleep {max(2, round(run.seconds))}; }} |',
        f'  {shlex.join(command)} > "$here/stdout.again" 2> "$here/stderr.again"',
        'echo "exit status $?"',
        f'stdout-guard validate --framing {run.protocol.framing} "$here/stdout.again"',
    ]
    return "\n".join(lines) + "\n"
