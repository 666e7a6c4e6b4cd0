"""From a run to verdicts: five checks, each with its own, never one for all.

The wire is judged whatever the exit status; a clean wire with a bad exit is not a dirty wire; and what could not be
tested is never called clean.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from stdout_guard.testing import wirecheck
from stdout_guard.testing.conditions import CLOSED
from stdout_guard.testing.dialogue import Message
from stdout_guard.testing.hostile import HOSTILE, HOSTILE_STEP, can_be_hostile
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.run import Run
from stdout_guard.testing.steps import Session

Verdict = Literal["pass", "fail", "untested", "not asked"]
Status = Literal["clean", "broken", "untested"]
CHECKS = {
    "framing": "contract 1: every complete line is UTF-8 and one JSON value",
    "shape": "contract 2: every value is a message allowed in this direction",
    "effects": "contract 3: nothing runs before framing, JSON, protocol, schema and authorisation have passed",
    "session": "session: each request is answered once and in time, and nothing else is",
    "exit": "exit: the server ends by itself, with the right status, and lets the wire go",
}


@dataclass
class Problem:
    """One thing that is wrong. ``line`` counts from 1, ``offset`` in bytes from 0; ``step`` is when the bytes came."""

    check: str
    code: str
    why: str
    line: int | None = None
    offset: int | None = None
    raw: bytes | None = None
    step: str | None = None
    source: str = ""
    culprits: list[str] = field(default_factory=list[str])
    blame: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    advice: str = ""


@dataclass
class Outcome:
    """A run and what was found; ``untested`` says why it could not be judged, if so."""

    run: Run
    problems: list[Problem]
    notes: list[str]
    verdicts: dict[str, Verdict]
    untested: str | None = None
    expected: list[tuple[Problem, str]] = field(default_factory=list[tuple[Problem, str]])

    @property
    def status(self) -> Status:
        """Broken before untested before clean."""
        if self.problems:
            return "broken"
        return "untested" if self.untested else "clean"


def evaluate(run: Run) -> Outcome:
    """Judge one run."""
    session = run.session
    if session is None:
        return Outcome(run, [], [], dict.fromkeys(CHECKS, "untested"), run.error or "it was not run")
    wire, notes = wirecheck.problems(run)
    problems = [Problem(**vars(found)) for found in wire]
    judged = {problem.offset for problem in problems}
    problems += [problem for problem in _unasked(run, session) if problem.offset not in judged]
    problems += [*_merged(run, session), *_answers(run, session), *_effects(run, session)]
    untested = _untested(run, session)
    blocked = any(problem.code == "blocked-on-stderr" for problem in problems)  # then it cannot leave either
    ending = list(_ending(run, session)) if untested is None and not blocked else []
    problems += ending
    notes += session.notes
    if session.closed_after_hostile:
        notes.append("the session ended with the hostile lines (a server may close after what it refuses)")
    if untested is not None and run.condition.answers == "optional":
        notes.append(f"{untested} (allowed here)")
        untested = None
    if run.condition.advisory:
        found = Counter((problem.check, problem.code) for problem in problems)
        notes += [f"{check}/{code}: {number} times, told only" for (check, code), number in found.items()]
        problems, untested = [], None
    return Outcome(run, problems, notes, _verdicts(run, problems, untested is not None), untested)


def _verdicts(run: Run, problems: list[Problem], untested: bool) -> dict[str, Verdict]:
    failed = {problem.check for problem in problems}
    asked = {"framing", "shape", "exit"}
    script, reached = run.condition.script, run.session is not None and bool(run.session.hostile)
    if "handshake" in script:
        asked |= {"session"}
    if "hostile" in script and can_be_hostile(run.protocol):
        asked |= {"effects"}
    found: dict[str, Verdict] = {}
    for check in CHECKS:
        if check in failed:
            found[check] = "fail"
        elif check not in asked:
            found[check] = "not asked"
        else:
            found[check] = "untested" if untested or (check == "effects" and not reached) else "pass"
    return found


def _untested(run: Run, session: Session) -> str | None:
    """Why nothing could be judged, when the session never began."""
    ending = session.ending
    if session.opened or "handshake" not in run.condition.script or ending is None or _late(session):
        return None
    if session.ended_in:
        silent = "" if run.stderr.strip() else ", and stderr says nothing either"
        return f"exited before answering, {status_text(ending.returncode)}{silent}"
    if any("error" in message.content for message in session.dialogue.messages):
        return "the first request was refused"
    state = "had nothing to do" if session.idle else "was still at work: give it more time (--limit start=SECONDS)"
    return f"no answer to the first request within {session.dialogue.marks[0].seconds:.1f} s; the process {state}"


def _late(session: Session) -> Message | None:
    """An answer that had been waited for in vain and was there once the process had ended."""
    if not session.unanswered or not session.idle:  # a busy server is slow: nothing waits in a buffer
        return None
    last = max((mark.end for mark in session.dialogue.marks[:-1]), default=0)
    return next((m for m in session.dialogue.messages if "method" not in m.content and m.end > last), None)


def _answers(run: Run, session: Session) -> Iterator[Problem]:
    missing = session.dialogue.unanswered()
    late = _late(session)
    if late is not None:
        why = f"the answer to {session.unanswered[0]!r} came only when stdin was closed: it had waited in a buffer"
        yield Problem("session", "unflushed", why, offset=late.end, step=run.step_at(late.end - 1))
    elif session.unanswered and not missing and session.opened:
        why = f"{session.unanswered[0]!r} was not answered within {run.server.limits.answer:g} s, only later"
        yield Problem("session", "too-slow", why)
    elif missing and session.opened and not session.closed_after_hostile:
        blocked = run.condition.stderr == "unread" and not session.ended_in
        code, more = ("blocked-on-stderr", " while stderr is not read") if blocked else ("no-answer", "")
        yield Problem("session", code, f"no answer to {', '.join(map(repr, missing))}{more}")


def _unasked(run: Run, session: Session) -> Iterator[Problem]:
    """Errors without an id that came before anything unreadable was sent: only a notification can have caused them."""
    for message in session.dialogue.messages:
        content, step = message.content, run.step_at(message.end - 1)
        if "method" in content or content.get("id") is not None or "error" not in content or step == HOSTILE_STEP:
            continue
        start = run.stdout.rfind(b"\n", 0, message.end - 1) + 1
        why = "an error without an id, and nothing unreadable had been sent: a notification was answered"
        line = run.stdout.count(b"\n", 0, start) + 1
        raw, source = run.stdout[start : message.end], "JSON-RPC 2.0 section 4.1"
        yield Problem("session", "answered-notification", why, line, start, raw, step, source)


def _merged(run: Run, session: Session) -> Iterator[Problem]:
    for holder in () if CLOSED in run.condition.wrap else session.merged:
        why = f"stderr of process {holder.pid} ({holder.command}) is the wire: a wrapper merged the two streams"
        yield Problem("framing", "merged-streams", why, step="start-up")


def _effects(run: Run, session: Session) -> Iterator[Problem]:
    for message in session.dialogue.messages:
        identifier, result = message.content.get("id"), message.content.get("result")
        refused_by_tool = mapping(result).get("isError") is True
        if (
            isinstance(identifier, str)
            and identifier.startswith(HOSTILE)
            and result is not None
            and not refused_by_tool
        ):
            frame = session.hostile[3 + int(identifier.removeprefix(HOSTILE))]
            why = "a malformed request was executed: it got a result"
            yield Problem("effects", "executed-refused-frame", why, raw=frame, step=HOSTILE_STEP)
    for path in session.touched:
        why = f"{path!r} changed while only malformed requests were sent"
        yield Problem("effects", "effects-changed", why, step=HOSTILE_STEP)


def _ending(run: Run, session: Session) -> Iterator[Problem]:
    ending = session.ending
    if ending is None:
        return
    if session.ended_in and not session.ended_in.startswith("hostile"):
        why = f"the server ended during {session.ended_in!r}, before its input did, {status_text(ending.returncode)}"
        yield Problem("exit", "ended-early", why)
    elif ending.how != "by itself":
        asked = "SIGTERM" if run.condition.exits == "signal" else "the end of its input"
        why = f"still running {run.server.limits.grace:g} s after {asked}; {ending.how} ended it"
        yield Problem("exit", "does-not-exit", why)
    elif ending.returncode not in _right(run, session):
        yield Problem("exit", "exit-status", f"{status_text(ending.returncode)} after {run.marks[-1].step}")
    for holder in ending.survivors:
        fds = ", ".join(map(str, holder.fds))
        why = f"process {holder.pid} ({holder.command}) outlived the server and held its pipes (descriptors {fds})"
        yield Problem("exit", "survivor", why)


def _right(run: Run, session: Session) -> set[int | None]:
    ending = session.ending
    right: set[int | None] = set(run.server.exits)
    if run.condition.exits == "any" or session.closed_after_hostile:
        right.add(None if ending is None else ending.returncode)
    if run.condition.exits == "signal":
        right |= {0, -signal.SIGTERM, 128 + signal.SIGTERM}
    return right


def status_text(returncode: int | None) -> str:
    """``exit 1`` or ``killed by SIGSEGV``."""
    if returncode is None:
        return "exit status unknown"
    if returncode >= 0:
        return f"exit {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
