"""What a finding means for the person whose server a client refuses, and what to change: a table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from stdout_guard.testing import blame
from stdout_guard.testing.records import Problem
from stdout_guard.testing.verdicts import Outcome

_NOTIFIED = "never answer a notification; an answer has the id of its request, also when it is an error"
_REFUSE = "refuse it before anything runs: framing, JSON, shape, schema, authorisation, in this order"
_FIRST_LINE = "make `import stdout_guard.auto` the first line of the entrypoint"
_TEXT = (
    "encode text as UTF-8, whatever it holds (text.encode('utf-8', 'replace')): half a surrogate pair is no character"
)
_LESS = "send less in one message: flatten it, split it, or give it as text"
ADVICE = {
    "merged-streams": "start the server without 2>&1 (and without a pty): keep stderr apart from stdout",
    "spread-message": "write each message on one line, in one write: json.dumps(message) without indent, and a newline",
    "torn-message": "write each whole message with its newline in one write, under one lock (guard.writer does), and "
    + "other text to stderr",
    "glued-messages": "end each message with a newline, in the same write",
    "interleaved-messages": "write each message with its newline in one write, under one lock (guard.writer does)",
    "echoes-input": "let nothing send the input back: a terminal (script, ssh -t, docker -t; stty -echo), cat or tee, "
    + "or a debug print of what was read",
    "content-length-framing": "MCP on stdio is one message a line, without headers; where headers are meant, give "
    + "--framing content-length (or --protocol lsp)",
    "byte-order-mark": "write UTF-8 without a byte order mark (encoding='utf-8', not 'utf-8-sig')",
    "batch": "send each message by itself, on a line of its own: no array",
    "duplicate-key": "make the message from one dict with a JSON library: each name once",
    "lone-surrogate": _TEXT,
    "too-deep": _LESS,
    "too-many-digits": _LESS,
    "frame-too-long": _LESS,
    "unflushed": "flush after each answer (print(..., flush=True), sys.stdout.flush()), or send through guard.writer; "
    + "read line by line, not to the end of the input; no pipe that gathers (grep --line-buffered, stdbuf -oL)",
    "no-answer": "the request was read and never answered: look at stderr, and at what the handler waits for",
    "unreadable-answer": "mend that line, and the answer will be found",
    "lost-at-once": "read the next request while the last one is at work, or after it, and answer each; ids are "
    + "numbers or strings; a handler that waits for the client's answer keeps what else comes",
    "mixed-answers": "keep the id with its request until the answer is written, not in a variable that all share",
    "answers-on-stderr": "write the answers to stdout, and only logs to stderr",
    "unknown-writer": "name that module: install(writers=...), STDOUT_GUARD_WRITERS; or write frames to guard.wire",
    "closed-stdin": "read stdin while the server runs: look for close(0), sys.stdin.close(), a child that has it",
    "closed-stdout": "keep stdout open while the server runs: look for close(1), a daemon's start, a thread that ended",
    "undeclared-logging": 'declare it in the answer to initialize ("capabilities": {"logging": {}}), or log to stderr',
    "unknown-revision": "answer initialize with the revision it asks for, or the newest that the server speaks",
    "too-slow": "answer in time, or give it more (--limit answer=SECONDS)",
    "blocked-on-stderr": "write less to stderr, or through a bounded channel: a client need not read it; "
    + "stdout-guard's own channel never blocks the wire",
    "executed-refused-frame": _REFUSE,
    "effects-changed": _REFUSE,
    "exit-status": "after end of input a server leaves with status 0; the reason is at the end of stderr",
    "does-not-exit": "leave the read loop at end of input, stop threads that are no daemons, end child processes",
    "ended-early": "the reason is at the end of stderr: an exception that nobody caught, or a call of exit()",
    "strict-verdict": "mend the stray writes that stdout-guard names on stderr",
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
# what is at fault when it was not a stray print
BY_WRITER = {
    "framing": "mend the message: one JSON object, made by a JSON library, alone on its line",
    "shape": "mend the message: the members and types of a JSON-RPC 2.0 request, notification or answer, nothing else",
}
NO_PYTHON = "send it to stderr (echo ... >&2 in a shell script, console.error in Node.js)"
_CODES: tuple[tuple[str, str], ...] = (
    ("nan", "serialise with json.dumps(..., allow_nan=False) and send null or a string instead"),
    ("number", "serialise with json.dumps(..., allow_nan=False) and send null or a string instead"),
    ("utf", "write UTF-8 whatever the locale: stdout.buffer, or TextIOWrapper(..., encoding='utf-8')"),
    ("encoding", "write UTF-8 whatever the locale: stdout.buffer, or TextIOWrapper(..., encoding='utf-8')"),
    ("newline", "end the last message with a newline, in the same write, and flush it"),
    ("unterminated", "end the last message with a newline, in the same write, and flush it"),
    ("truncated", "end the last message with a newline, in the same write, and flush it"),
)
_CAUSES = (
    ("banner of an HTTP server", "start the server with its stdio transport: it was started as one over HTTP"),
    (
        "probably server-sent events",
        "start the server with its stdio transport: these lines belong to the one over HTTP",
    ),
    (
        "probably usage text",
        "send usage to stderr (print_usage(sys.stderr)); and check the arguments that the server is given",
    ),
    (
        "probably a prompt",
        "ask nobody: stdin is the client's. Take it from a variable or a file, and end with a message on stderr",
    ),
)
_MENTION = re.compile(r"^[ \t]*(?:import stdout_guard\b(?!\.auto)|from stdout_guard import\b)", re.MULTILINE)
_INSTALLS = re.compile(r"stdout_guard\.auto\b|\binstall\(")


def advice(problem: Problem, outcome: Outcome) -> str:
    """What to change about ``problem``."""
    dirty = problem.check in ("framing", "shape") and problem.raw is not None
    inert = imported_only(outcome.run.command) if dirty else None
    if inert is not None:
        return f"{inert[0]}:{inert[1]} imports stdout_guard without installing it: write `import stdout_guard.auto`"
    if problem.code == "no-answer" and outcome.run.session is not None and outcome.run.session.ended_in:
        return "the reason is that of its end: see what the check exit says, and the end of stderr"
    if problem.code in ADVICE:
        return ADVICE[problem.code]
    for part, text in _CAUSES:
        if dirty and part in problem.why:
            return text
    prompt = problem.code == "no-final-newline" and b'"jsonrpc"' not in (problem.raw or b"")
    for part, text in _CODES:
        if part in problem.code.lower() and not prompt:
            return text
    told = "; ".join(problem.culprits)
    if dirty and (blame.AROUND in told or (blame.NO_PYTHON in told and not _python(outcome.run.server.command))):
        return NO_PYTHON
    by_writer = BY_WRITER if told.startswith(blame.WRITER) else BY_CHECK
    return by_writer.get(problem.check, BY_CHECK.get(problem.check, ""))


def _python(command: Sequence[str]) -> bool:
    return any(word.endswith(".py") or os.path.basename(word).startswith("python") for word in command)


def compare(outcomes: Sequence[Outcome]) -> None:
    """Say of what could not be tested under one condition only what differs there from the plain run."""
    plain = next((outcome.run.session for outcome in outcomes if outcome.run.condition.name == "plain"), None)
    for outcome in outcomes if plain is not None and plain.opened else ():
        condition = outcome.run.condition
        if outcome.untested is None or condition.name == "plain":
            continue
        if condition.cwd != "inherit":
            where = f"the plain run answered, and differs in the working directory alone (here {outcome.run.cwd})"
            outcome.untested += f"; {where}: {_CWD[condition.cwd]}"
        elif condition.env:
            outcome.untested += f"; the plain run answered, and differs in {', '.join(condition.env)} alone"
        outcome.reasons = dict.fromkeys(outcome.reasons, outcome.untested)


_CWD = {
    "empty": "the command, or a file that the server opens, is found only from its own folder (make the path absolute)",
    "read-only": "it needs a file there, or wants to write one (make the path absolute, and failing to write no reason "
    "to end)",
}


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
    (lambda p: p.code == "echoes-input", "echo: it sends its input back"),
    (lambda p: p.code == "answers-on-stderr", "its answers are on stderr"),
    (lambda p: p.code == "unknown-writer", "guarded, and its protocol writer is not known to the guard"),
    (
        lambda p: p.check in ("framing", "shape") and p.code not in ("merged-streams", "echoes-input"),
        "dirty: something other than the protocol is on stdout",
    ),
    (lambda p: p.check == "effects", "unsafe: a refused request was executed"),
    (
        lambda p: p.check == "session" and p.code not in ("unflushed", "answers-on-stderr", "unknown-writer"),
        "confused: requests and answers do not pair",
    ),
    (lambda p: p.check == "exit", "does not end well"),
)


def summary(outcome: Outcome) -> str:
    """The outcome in a few plain words."""
    found = outcome.problems or outcome.told
    words = [text for test, text in SUMMARY if any(test(problem) for problem in found)]
    if outcome.untested:
        dies = "exited before answering" in outcome.untested
        silent = "no answer" in outcome.untested and not words
        words.append("dies at start" if dies else "silent" if silent else "could not be tested")
    return ("told only: " if outcome.told else "") + ("; ".join(words) or "clean")
