"""The steps of a scripted session: a table of verbs; a script is a sequence of their names.

A step may take a number of seconds behind a colon (``idle:4``). Users add a verb with a line in ``STEPS``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stdout_guard.testing import proc
from stdout_guard.testing.at_once import AT_ONCE_STEP, QUICK, frames
from stdout_guard.testing.dialogue import Dialogue, Mark
from stdout_guard.testing.hostile import HOSTILE_STEP, Call, can_be_hostile, lines, snapshot
from stdout_guard.testing.protocols import FALLBACK, PROTOCOLS, Json, items, mapping
from stdout_guard.testing.records import Ending
from stdout_guard.testing.safety import looks_safe
from stdout_guard.testing.scanner import Message

LEAVING = 2.0  # seconds between the end of stdout and that of a process that ends
CHOOSE = "choose one (--call 'NAME={...}')"


class SessionOver(Exception):
    """The server is gone or silent: the rest of the script has nobody to talk to."""


@dataclass
class Session:
    """One run of a script: what was asked for, and what was learnt on the way.

    ``called`` says whether the first well-formed call got a result: only then would a malformed one show.
    """

    dialogue: Dialogue
    calls: Sequence[Call] = ()
    effects: Sequence[str] = ()
    opened: bool = False
    unanswered: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    tools: list[Json] = field(default_factory=list[Json])
    merged: tuple[proc.Holder, ...] = ()
    touched: tuple[str, ...] = ()
    hostile: list[bytes] = field(default_factory=list[bytes])
    closed_after_hostile: bool = False
    alive_after_hostile: bool = False
    called: bool = False
    ended_in: str | None = None
    closed_stdout: bool = False  # it ended its stdout in that step, and lived on
    replay: bytes = b""
    idle: bool = False
    stuck: bool = False
    ending: Ending | None = None
    asked_to_end: float = 0.0  # seconds since the start

    def give_up(self, method: str) -> None:
        """No answer came; ``idle``: the server had nothing left to do by then, ``stuck``: but to read more input."""
        self.unanswered.append(method)
        self.idle, self.stuck = self.dialogue.process.was_idle, self.dialogue.process.was_stuck


def handshake(session: Session, _: float) -> None:
    """Open the session in the era that the server speaks."""
    dialogue = session.dialogue
    opening = dialogue.protocol.opening
    if opening is None:
        session.opened = True
        return
    began = dialogue.process.elapsed
    answer = dialogue.request(*opening, timeout=dialogue.process.limits.start)
    if answer is not None and "error" in answer.content and dialogue.protocol.name in FALLBACK:
        asked = dialogue.protocol
        dialogue.protocol = replace(PROTOCOLS[FALLBACK[asked.name]], framing=asked.framing)
        answer = dialogue.request(*dialogue.protocol.opening or opening, timeout=dialogue.process.limits.start)
        if answer is not None and "result" in answer.content:
            session.notes.append(f"{opening[0]} was refused: the session goes on without it")
        else:
            dialogue.protocol = asked  # it has no other era: what it wrote is judged by this one
    end = dialogue.process.stdout.size if answer is None else answer.end
    dialogue.marks.append(Mark("start-up", end, dialogue.process.elapsed - began, answer is not None))
    session.merged = proc.merged(dialogue.process.pid, dialogue.process.wire)
    if answer is None:
        session.give_up(opening[0])
        raise SessionOver
    session.opened = "result" in answer.content
    if not session.opened:
        raise SessionOver
    if dialogue.protocol.opened is not None:
        with dialogue.step("initialized"):
            dialogue.notify(*dialogue.protocol.opened)


def listing(session: Session, _: float) -> None:
    """Ask for the tools."""
    dialogue = session.dialogue
    if dialogue.protocol.listing is None:
        return
    with dialogue.step("list"):
        answer = _ask(session, dialogue.protocol.listing, None)
    session.tools = [mapping(tool) for tool in items(_result(answer).get("tools"))]


def call(session: Session, _: float) -> None:
    """Call what the user chose, or the first tool that looks safe."""
    chosen = chosen_calls(session)
    if not chosen and session.dialogue.protocol.calling is not None:
        session.notes.append(f"no tool was called: none looks safe without arguments; {CHOOSE}")
    for number, one in enumerate(chosen):
        with session.dialogue.step(f"call {one.name}"):
            answer = _ask(session, *session.dialogue.protocol.calls(one.name, one.arguments), slow=True)
        worked = "error" not in answer.content and not _result(answer).get("isError")
        session.called |= worked and number == 0
        if not worked:
            session.notes.append(f"the call of {one.name!r} was answered with an error")


def at_once(session: Session, _: float) -> None:
    """Send several harmless requests without waiting: each is answered once, with its own id."""
    dialogue = session.dialogue
    slow = any(mark.seconds > QUICK for mark in dialogue.marks if mark.step.startswith("call "))
    call = next(iter(chosen_calls(session)), None) if session.called and not slow else None
    together = frames(dialogue, call, fence=dialogue.fences)
    if not together:
        session.notes.append("requests at once: not exercised, no request of this protocol is known to be harmless")
        return
    dialogue.at_once.update(together)
    with dialogue.step(AT_ONCE_STEP):
        dialogue.write(b"".join(together.values()))
        all(dialogue.await_answer(one) is not None for one in together)  # until one does not come
    if not dialogue.marks[-1].answered:
        raise SessionOver


def hostile(session: Session, _: float) -> None:
    """Send the article's malformed lines; none may be executed, and the server may close or go on."""
    dialogue = session.dialogue
    if not can_be_hostile(dialogue.protocol):
        return
    before = snapshot(session.effects)
    session.hostile = lines(dialogue.protocol, next(iter(chosen_calls(session)), None))
    with dialogue.step(HOSTILE_STEP, fenced=False):
        for line in session.hostile:
            dialogue.write(line, well_formed=False)
        session.alive_after_hostile = dialogue.fence()
        if not session.alive_after_hostile:
            session.closed_after_hostile = dialogue.process.stdout.eof or not dialogue.process.running
            if not session.closed_after_hostile:
                session.give_up("the first request after the hostile lines")
    after = snapshot(session.effects)
    session.touched = tuple(path for path in session.effects if before[path] != after[path])


def idle(session: Session, seconds: float) -> None:
    """Say nothing for a while."""
    with session.dialogue.step("idle", fenced=session.opened):
        session.dialogue.process.wait_for(lambda: None, seconds or 1.0)


def replay(session: Session, seconds: float) -> None:
    """Send what another run sent, all at once, and wait until nothing more happens."""
    dialogue = session.dialogue
    with dialogue.step("replay", fenced=False):
        dialogue.write(session.replay)
        dialogue.process.wait_for(lambda: None, dialogue.process.limits.start, seconds or 1.0)
    session.opened = True


def leave(session: Session, _: float) -> None:
    """Take leave where the protocol has words for it."""
    protocol = session.dialogue.protocol
    if protocol.farewell is not None:
        with session.dialogue.step(protocol.farewell):
            _ask(session, protocol.farewell, None)
    if protocol.leaving is not None:
        session.dialogue.notify(protocol.leaving)


def close(session: Session, _: float) -> None:
    """Close stdin and read both pipes to their end."""
    _finish(session, "exit", None)


def sigterm(session: Session, _: float) -> None:
    """SIGTERM to a server at rest, while stdin is open."""
    session.dialogue.process.rest(session.dialogue.process.limits.quiet)
    _finish(session, "SIGTERM", signal.SIGTERM)


STEPS: dict[str, Callable[[Session, float], None]] = {
    "handshake": handshake,
    "list": listing,
    "call": call,
    "at-once": at_once,
    "hostile": hostile,
    "idle": idle,
    "replay": replay,
    "leave": leave,
    "close": close,
    "sigterm": sigterm,
}


def perform(session: Session, script: Sequence[str]) -> None:
    """Run the script; whatever happens, the last step's end of the process takes place."""
    process = session.dialogue.process
    for word in script[:-1]:
        name, _, seconds = word.partition(":")
        try:
            STEPS[name](session, float(seconds or 0))
            over = process.stdout.eof
        except SessionOver:
            over = True
        if over:
            gone = process.stdout.eof or not process.running
            session.ended_in = word if gone and name != "leave" else None
            session.closed_stdout = process.stdout.eof and session.ended_in is not None and not process.leaves(LEAVING)
            break
    STEPS[script[-1].partition(":")[0]](session, 0.0)


def chosen_calls(session: Session) -> list[Call]:
    """The user's calls, or the first tool that is marked or named as reading only and needs no argument."""
    if session.calls:
        return list(session.calls)
    return [Call(str(tool["name"])) for tool in session.tools if looks_safe(tool)][:1]


def _ask(session: Session, method: str, params: Json | None, *, slow: bool = False) -> Message:
    answer = session.dialogue.request(method, params, slow=slow)
    if answer is None:
        session.give_up(method)
        raise SessionOver
    return answer


def _result(answer: Message) -> Json:
    return mapping(answer.content.get("result"))


def _finish(session: Session, step: str, first: signal.Signals | None) -> None:
    process = session.dialogue.process
    session.dialogue.answer_to(None)  # what came until now came before the end of input
    session.asked_to_end = process.elapsed
    session.ending = process.finish(first=first)
    session.dialogue.answer_to(None)
    session.dialogue.marks.append(Mark(step, process.stdout.size, process.elapsed - session.asked_to_end))
