"""What a finding means for the person whose server a client refuses, and what to change: a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from stdout_guard.testing.records import Problem
from stdout_guard.testing.verdicts import Outcome

_NOTIFIED = "never answer a notification; an answer has the id of its request, also when it is an error"
_REFUSE = "refuse it before anything runs: framing, JSON, shape, schema, authorisation, in this order"
_FIRST_LINE = "make `import stdout_guard.auto` the first line of the entrypoint"
ADVICE = {
    "merged-streams": "start the server without 2>&1 (and without a pty): keep stderr apart from stdout",
    "unflushed": "flush after each answer (print(..., flush=True), sys.stdout.flush()), or send through guard.writer",
    "no-answer": "the request was read and never answered: look at stderr, and at what the handler waits for",
    "too-slow": "answer in time, or give it more (--limit answer=SECONDS)",
    "blocked-on-stderr": "write less to stderr, or through a bounded channel: a client need not read it; "
    + "stdout-guard's own channel never blocks the wire",
    "executed-refused-frame": _REFUSE,
    "effects-changed": _REFUSE,
    "exit-status": "after end of input a server leaves with status 0; the reason is at the end of stderr",
    "does-not-exit": "leave the read loop at end of input, stop threads that are no daemons, end child processes",
    "ended-early": "the reason is at the end of stderr: an exception that nobody caught, or a call of exit()",
    "answered-notification": _NOTIFIED,
    "null-id": _NOTIFIED,
    "unowed-answer": _NOTIFIED,
    "survivor": "end or detach child processes at exit, and start them with stdin=DEVNULL, stdout=DEVNULL or a pipe: "
    + "as long as one holds stdout the client sees no end of file",
    "untested": "run the command by hand and read stderr; usually an argument, a variable or a dependency is missing",
}
BY_CHECK = {
    "framing": f"send it to stderr (print(..., file=sys.stderr), logging's default), or {_FIRST_LINE}",
    "shape": f"only messages of the server's direction belong there; other JSON goes to stderr, or {_FIRST_LINE}",
    "session": "answer each request once, with its own id and type of id, and never a notification",
}
_CODES: tuple[tuple[str, str], ...] = (
    ("nan", "serialise with json.dumps(..., allow_nan=False) and send null or a string instead"),
    ("number", "serialise with json.dumps(..., allow_nan=False) and send null or a string instead"),
    ("utf", "write UTF-8 whatever the locale: stdout.buffer, or TextIOWrapper(..., encoding='utf-8')"),
    ("encoding", "write UTF-8 whatever the locale: stdout.buffer, or TextIOWrapper(..., encoding='utf-8')"),
    ("newline", "end the last message with a newline, in the same write, and flush it"),
    ("unterminated", "end the last message with a newline, in the same write, and flush it"),
    ("truncated", "end the last message with a newline, in the same write, and flush it"),
)
_MENTION = re.compile(r"^[ \t]*(?:import stdout_guard\b(?!\.auto)|from stdout_guard import\b)", re.MULTILINE)
_INSTALLS = re.compile(r"stdout_guard\.auto\b|\binstall\(")


def advice(problem: Problem, outcome: Outcome) -> str:
    """What to change about ``problem``."""
    dirty = problem.check in ("framing", "shape") and problem.raw is not None
    inert = imported_only(outcome.run.command) if dirty else None
    if inert is not None:
        return f"{inert[0]}:{inert[1]} imports stdout_guard without installing it: write `import stdout_guard.auto`"
    if problem.code in ADVICE:
        return ADVICE[problem.code]
    for part, text in _CODES:
        if part in problem.code.lower():
            return text
    return BY_CHECK.get(problem.check, "")


def imported_only(command: tuple[str, ...]) -> tuple[str, int] | None:
    """The script and line of the command that imports stdout_guard, which does nothing, and installs nothing."""
    for word in command:
        if not word.endswith(".py"):
            continue
        try:
            source = Path(word).read_text("utf-8", "replace")
        except OSError:
            continue
        found = _MENTION.search(source)
        if found is not None and not _INSTALLS.search(source):
            return word, source.count("\n", 0, found.end()) + 1
    return None


SUMMARY: tuple[tuple[Callable[[Problem], bool], str], ...] = (
    (lambda p: p.code == "merged-streams", "merged: stderr arrives on stdout"),
    (lambda p: p.code == "unflushed", "unflushed: answers wait in a buffer"),
    (
        lambda p: p.check in ("framing", "shape") and p.code != "merged-streams",
        "dirty: something other than the protocol is on stdout",
    ),
    (lambda p: p.check == "effects", "unsafe: a refused request was executed"),
    (lambda p: p.check == "session" and p.code != "unflushed", "confused: requests and answers do not pair"),
    (lambda p: p.check == "exit", "does not end well"),
)


def summary(outcome: Outcome) -> str:
    """The outcome in a few plain words."""
    found = outcome.problems or outcome.told
    words = [text for test, text in SUMMARY if any(test(problem) for problem in found)]
    if outcome.untested:
        dies = "exited before answering" in outcome.untested
        words.append(
            "dies at start" if dies else "silent" if "no answer" in outcome.untested else "could not be tested"
        )
    return ("told only: " if outcome.told else "") + ("; ".join(words) or "clean")
