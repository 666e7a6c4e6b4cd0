"""Send the hostile corpus to a real server, one start for each case, and tell what it answered.

The names that must never run are replaced by a tool that the server really has, so that "unknown tool" cannot hide a
parser that lets the frame through; a result, then, is an execution. Names that may run stay unknown to the server.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from stdout_guard.testing import corpus
from stdout_guard.testing.conditions import Condition
from stdout_guard.testing.dialogue import Message
from stdout_guard.testing.happenings import is_result, status_text
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.run import RunError, Server, opened

FENCE = "stdout-guard-fence"
QUIET = 1.0  # seconds without any work, after which nothing more will be answered


@dataclass(frozen=True)
class Answered:
    """What one case brought: ``executed`` when a refused frame got a result, ``provable`` when that could be seen."""

    case: str
    what: str
    executed: bool
    provable: bool

    def __str__(self) -> str:
        hidden = "" if self.provable else "; an execution could not be seen: no name that must not run is spelled out"
        return f"{self.case}: {'EXECUTED; ' if self.executed else ''}{self.what}{hidden}"


def put(server: Server, call: Call | None, jobs: int = 0) -> tuple[list[str], list[str]]:
    """All cases that fit the server's framing: one line for each, and the ids of those that were executed."""
    cases = [case for case in corpus.load() if _fits(case, server)]
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [pool.submit(_try, server, case, call) for case in cases]
        found = [future.result() for future in waiting]
    return [str(one) for one in found], [one.case for one in found if one.executed]


def _fits(case: corpus.Case, server: Server) -> bool:
    """Cases in which something is to be refused; the pair that keeps the session open says more about a server."""
    return (
        case.framing == server.protocol.framing
        and case.policy == "keep-open"
        and bool(case.expect["forbidden"])
        and case.expect["stage"] not in ("none", "authorisation", "schema")  # a real tool has its own schema
    )


def _try(server: Server, case: corpus.Case, call: Call | None) -> Answered:
    title = f"{case.id} ({case.title})"
    condition = Condition("corpus", title)
    quick = replace(server, limits=replace(server.limits, quiet=QUIET, grace=2.0))
    try:
        run, process = opened(quick, condition)
    except RunError as error:
        return Answered(case.id, f"{case.title}: {error}", False, False)
    assert run.session is not None
    dialogue = run.session.dialogue
    data, provable = _armed(case, call)
    with process:
        for line in case.handshake:
            dialogue.write(line, well_formed=False)
        begun = not case.handshake or dialogue.await_answer("init", server.limits.start) is not None
        for piece in data:
            dialogue.write(piece, well_formed=False)
        if case.eof:
            process.close_stdin()
            process.wait_for(lambda: None, server.limits.answer, QUIET)
        else:
            dialogue.write(dialogue.encode({"jsonrpc": "2.0", "id": FENCE, "method": "ping"}), well_formed=False)
            dialogue.await_answer(FENCE, server.limits.answer)
        gone = process.stdout.eof and not case.eof
        ending = process.finish()
        dialogue.answer_to(None)
    answers = [m for m in dialogue.messages if "method" not in m.content and m.content.get("id") not in ("init", FENCE)]
    results = Counter(repr(answer.content.get("id")) for answer in answers if is_result(answer))
    executed = bool(results - _allowed(case))
    words = [_told(answer) for answer in answers] or ["no answer"]
    if gone:
        words.append(f"then it ended, {status_text(ending.returncode)}")
    if not begun:
        words.append("the handshake was not answered")
    return Answered(case.id, f"{case.title}: {', '.join(words)}", executed and provable, provable)


def _armed(case: corpus.Case, call: Call | None) -> tuple[list[bytes], bool]:
    """The case's bytes with a real tool's name in place of those that must not run, and whether one was there."""
    data = list(case.chunks)
    if call is None:
        return data, False
    names: Sequence[str] = sorted(case.expect["forbidden"], key=len, reverse=True)
    whole = b"".join(data)
    if not any(name.encode() in whole for name in names):
        return data, False
    for name in names:
        whole = whole.replace(b'"' + name.encode() + b'"', b'"' + call.name.encode() + b'"')
    return [whole], True


def _allowed(case: corpus.Case) -> Counter[str]:
    """The ids of the calls in the case that may run, each as often as it may."""
    found: Counter[str] = Counter()
    for line in b"".join(case.chunks).split(b"\n"):
        try:
            content = mapping(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if mapping(content.get("params")).get("name") in case.expect["executor_calls"]:
            found[repr(content.get("id"))] += 1
    return found


def _told(answer: Message) -> str:
    if "error" in answer.content:
        return f"error {mapping(answer.content['error']).get('code')}"
    return "a result" if is_result(answer) else "a result that says isError"
