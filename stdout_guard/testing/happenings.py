"""What a run's dialogue and its end show, beside the bytes: missing, late and unasked answers, effects, the exit."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence

from stdout_guard.testing.at_once import AT_ONCE_STEP, mixed
from stdout_guard.testing.conditions import CLOSED, MERGED
from stdout_guard.testing.hostile import HOSTILE, HOSTILE_STEP
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run
from stdout_guard.testing.scanner import Message
from stdout_guard.testing.steps import Session

STRICT = 120  # the exit status of a server whose guard is strict and has seen a stray write
AT_ONCE = 2.0  # seconds from the end of input to an answer that had waited in a buffer; one that comes later was slow


def untested(run: Run, session: Session) -> str | None:
    """Why nothing could be judged, when the session never began."""
    ending = session.ending
    if session.opened or "handshake" not in run.condition.script or ending is None or late(session):
        return None
    silent = "" if run.stderr.strip() else ", and stderr says nothing either"
    if session.closed_stdout:
        return f"closed its stdout before answering, and lived on{silent}"
    if session.ended_in:
        return f"exited before answering, {status_text(ending.returncode)}{silent}"
    refusal = next((m.content["error"] for m in session.dialogue.messages if "error" in m.content), None)
    if refusal is not None:
        return f"the first request was refused: {mapping(refusal).get('code')} {mapping(refusal).get('message')!r}"
    opening = session.dialogue.protocol.opening
    if run.stdout and opening is not None and opening[0] in session.dialogue.unanswered():
        return "what it wrote holds no answer to the first request"
    if session.dialogue.deaf:
        return "no answer to the first request: it does not read its stdin"
    state = "had nothing to do" if session.idle else "was still at work: give it more time (--limit start=SECONDS)"
    return f"no answer to the first request within {session.dialogue.marks[0].seconds:.1f} s; the process {state}"


def late(session: Session) -> Message | None:
    """An answer that had been waited for in vain and was there once the process was told to end."""
    if not session.unanswered or not session.idle:  # a busy server is slow: nothing waits in a buffer
        return None
    told_twice = session.ending is not None and session.ending.how != "by itself"
    last = max((mark.end for mark in session.dialogue.marks[:-1]), default=0)
    asked_to_end = session.asked_to_end + AT_ONCE
    answers = (m for m in session.dialogue.messages if "method" not in m.content and m.end > last)
    return next((m for m in answers if told_twice or m.at <= asked_to_end), None)


def answers(run: Run, session: Session, dirty: Sequence[Problem]) -> Iterator[Problem]:
    """Requests without an answer, or with one that came too late, or with that of another.

    ``dirty`` is what is wrong with the bytes: the answer may be among them.
    """
    missing, lost = session.dialogue.unanswered(), session.dialogue.unanswered(at_once=True)
    held = late(session)
    if held is not None:
        why = f"the answer to {session.unanswered[0]!r} came only when stdin was closed: it had waited in a buffer"
        yield Problem("session", "unflushed", why, offset=held.end, step=run.step_at(held.end - 1))
    elif session.unanswered and not missing and session.opened:
        why = f"{session.unanswered[0]!r} was answered only after it had been given up as lost"
        yield Problem("session", "too-slow", why)
    elif missing and session.opened and not session.closed_after_hostile and not lost:
        blocked = run.condition.stderr == "unread" and not session.ended_in
        code, more = ("blocked-on-stderr", " while stderr is not read") if blocked else ("no-answer", "")
        answered = (m.end for m in session.dialogue.messages if session.dialogue.method_of(m.content.get("id")))
        last = max(answered, default=0)
        instead = next((p for p in dirty if p.line and (p.offset or 0) >= last), None)
        if session.dialogue.deaf:
            code, more = "closed-stdin", ": it lives and takes nothing more from its stdin"
        elif session.ended_in:
            more = ": its stdout ended first"
        elif instead is not None and not blocked:
            code, more = "unreadable-answer", f" that can be read; what came instead begins on line {instead.line}"
        yield Problem("session", code, f"no answer to {', '.join(map(repr, missing))}{more}")
    yield from _at_once(run, session, dirty, missing, lost)


def _at_once(
    run: Run, session: Session, dirty: Sequence[Problem], missing: Sequence[str], lost: Sequence[str]
) -> Iterator[Problem]:
    """What became of the requests that were sent at once."""
    instead = next((p for p in dirty if p.line and p.step == AT_ONCE_STEP and p.check != "session"), None)
    if lost and not session.ended_in:
        together = f"{len(lost)} of {len(session.dialogue.at_once)} requests sent at once"
        why = f"no answer to {', '.join(map(repr, lost))} ({together}; alone each was answered)"
        why += ", nor to anything after them" if missing else ""
        code = "lost-at-once"
        if instead is not None:
            code, why = "unreadable-answer", f"{why} that can be read; what came instead begins on line {instead.line}"
        yield Problem("session", code, why, step=AT_ONCE_STEP)
    for message, method, other in mixed(session.dialogue):
        identifier = message.content["id"]
        why = f"the answer to {method!r} (id {identifier!r}) holds the result of {other!r}: they were sent at once"
        yield _at(run, message, "mixed-answers", why, "JSON-RPC 2.0 5: the id is that of the request")


def on_stderr(run: Run, session: Session) -> Iterator[Problem]:
    """Answers that left on stderr, when none came on stdout."""
    if session.opened or not session.unanswered:
        return
    refused = _REFUSED.search(run.stderr)
    if refused is not None:
        module = refused[1].decode("utf-8", "replace")
        why = f"stdout-guard kept its frames off the wire: it does not know the module {module!r} as a protocol writer"
        yield Problem("session", "unknown-writer", why)
    elif (frame := _ANSWER.search(run.stderr)) is not None:
        yield Problem("session", "answers-on-stderr", "its answers are on stderr, none is on stdout", raw=frame[0])


_REFUSED = re.compile(rb"stdout-guard: .{0,2000}looks like a protocol frame, but module (\S+)")
_ANSWER = re.compile(rb'^\s*\{"jsonrpc" ?: ?"2\.0".*"(?:result|error)".*$', re.MULTILINE)


def _at(run: Run, message: Message, code: str, why: str, source: str) -> Problem:
    """A problem with a message that is judged well by itself."""
    start = run.stdout.rfind(b"\n", 0, message.end - 1) + 1
    line, raw = run.stdout.count(b"\n", 0, start) + 1, run.stdout[start : message.end]
    return Problem("session", code, why, line, start, raw, run.step_at(message.end - 1), source)


def unasked(run: Run, session: Session) -> Iterator[Problem]:
    """Errors without an id that came before anything unreadable was sent: only a notification can have caused them."""
    marks = session.dialogue.marks
    hostile = next((number for number, mark in enumerate(marks) if mark.step == HOSTILE_STEP), None)
    until = len(run.stdout) if hostile is None else marks[hostile - 1].end if hostile else 0
    line, counted = 1, 0
    for message in session.dialogue.messages:
        content = message.content
        if "method" in content or content.get("id") is not None or "error" not in content or message.end > until:
            continue
        start = run.stdout.rfind(b"\n", 0, message.end - 1) + 1
        why = "an error without an id, and nothing unreadable had been sent: a notification was answered"
        line, counted = line + run.stdout.count(b"\n", counted, start), start
        raw, source = run.stdout[start : message.end], "JSON-RPC 2.0 section 4.1"
        step = run.step_at(message.end - 1)
        yield Problem("session", "answered-notification", why, line, start, raw, step, source)


def merged(run: Run, session: Session) -> Iterator[Problem]:
    """Processes whose stderr is the wire, unless this condition itself closed or merged it."""
    for holder in () if {CLOSED, MERGED} & set(run.condition.wrap) else session.merged:
        who = f"stderr of process {holder.pid} ({holder.command})"
        why = f"{who} is the wire: a wrapper (2>&1), or its own dup2, merged them"
        yield Problem("framing", "merged-streams", why, step="start-up")


def effects(session: Session) -> Iterator[Problem]:
    """Malformed requests that got a result, and watched paths that changed meanwhile."""
    frames = {f"{HOSTILE}{number}": frame for number, frame in enumerate(session.hostile[4:], 1)}
    for message in session.dialogue.messages:
        frame = frames.get(str(message.content.get("id")))
        if frame is not None and is_result(message):
            why = "a malformed request was executed: it got a result"
            yield Problem("effects", "executed-refused-frame", why, raw=frame, step=HOSTILE_STEP)
    for message in _unasked_results(session):
        why = f"a malformed request was executed: a result came with the id {message.content.get('id')!r}"
        yield Problem("effects", "executed-refused-frame", why, raw=session.hostile[-1], step=HOSTILE_STEP)
    for path in session.touched:
        why = f"{path!r} changed while only malformed requests were sent"
        yield Problem("effects", "effects-changed", why, step=HOSTILE_STEP)


def _unasked_results(session: Session) -> Iterator[Message]:
    """Results with no request's id that came while only malformed requests were sent."""
    marks = session.dialogue.marks
    place = next((number for number, mark in enumerate(marks) if mark.step == HOSTILE_STEP), None)
    if place is None:
        return
    start = marks[place - 1].end if place else 0
    for message in session.dialogue.messages:
        identifier = message.content.get("id")
        known = session.dialogue.method_of(identifier) or str(identifier).startswith(HOSTILE)
        if (
            start < message.end <= marks[place].end
            and not known
            and "jsonrpc" in message.content
            and is_result(message)
        ):
            yield message


def is_result(message: Message) -> bool:
    """Whether it says that something was done: a result, and not one that is marked as an error."""
    return "result" in message.content and mapping(message.content["result"]).get("isError") is not True


def ending(run: Run, session: Session) -> Iterator[Problem]:
    """How the process ended, and who held the wire after it."""
    end = session.ending
    if end is None:
        return
    if session.closed_stdout:
        ended = "it ended when its input did" if end.how == "by itself" else f"{end.how} ended it"
        why = f"it closed its stdout during {session.ended_in!r} and lived on without it; {ended}"
        yield Problem("exit", "closed-stdout", why)
    elif session.ended_in and not session.ended_in.startswith("hostile"):
        why = f"the server ended during {session.ended_in!r}, before its input did, {status_text(end.returncode)}"
        if end.returncode == STRICT and b"stdout-guard: strict: " in run.stderr:
            yield Problem("exit", "strict-verdict", f"{why}: stdout-guard, in strict mode, refused a stray write")
            return
        if end.returncode == 0:
            why += ": its read loop ended, or main() returned"
        yield Problem("exit", "ended-early", why)
    elif end.how != "by itself":
        asked = "SIGTERM" if run.condition.exits == "signal" else "the end of its input"
        why = f"still running {run.server.limits.grace:g} s after {asked}; {end.how} ended it"
        yield Problem("exit", "does-not-exit", why)
    elif end.returncode == STRICT and b"stdout-guard: strict: " in run.stderr:
        yield Problem("exit", "strict-verdict", "exit 120: stdout-guard, in strict mode, counted stray writes")
    elif end.returncode not in _right(run, session):
        yield Problem("exit", "exit-status", f"{status_text(end.returncode)} after {run.marks[-1].step}")
    for holder in end.survivors:
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
