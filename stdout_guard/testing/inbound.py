"""Send the hostile corpus to a real server, one start for each case, and tell what it answered and executed.

The names that must never run are replaced by a tool that the server really has, so that "unknown tool" cannot hide a
parser that lets the frame through. A result, then, is an execution; so is any line in the file that ``RECORDER`` in the
server's environment names: a tool that appends one for each execution (JSON, ``{"name": ..., "arguments": ...}``) shows
also those that are never answered. Names that may run stay unknown to the server.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from stdout_guard.testing import corpus
from stdout_guard.testing.conditions import Condition
from stdout_guard.testing.dialogue import Dialogue
from stdout_guard.testing.happenings import is_result, status_text
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.process import ServerProcess
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.run import RunError, Server, opened
from stdout_guard.testing.scanner import Message

RECORDER = "STDOUT_GUARD_RECORDER"
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
    server = replace(server, limits=replace(server.limits, quiet=QUIET, grace=2.0))
    records = call is not None and _records(server, call)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [pool.submit(_try, server, case, call, records) for case in cases]
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


def _try(server: Server, case: corpus.Case, call: Call | None, records: bool) -> Answered:
    data, provable = _armed(case, call)
    try:
        told = _drive(server, f"{case.id} ({case.title})", case.handshake, data, case.eof)
    except RunError as error:
        return Answered(case.id, f"{case.title}: {error}", False, False)
    results = Counter(repr(answer.content.get("id")) for answer in told.answers if _is_execution(answer))
    executed = told.recorded > 0 if records else bool(results - _allowed(case))
    words = [_told(answer) for answer in told.answers] or ["no answer"]
    if told.recorded:
        words.append(f"{told.recorded} recorded by the tool")
    words += told.remarks
    return Answered(case.id, f"{case.title}: {', '.join(words)}", executed and provable, provable)


@dataclass(frozen=True)
class _Seen:
    """What one start of the server brought."""

    answers: list[Message]
    recorded: int
    remarks: list[str]


def _drive(server: Server, title: str, handshake: Sequence[bytes], data: list[bytes], eof: bool) -> _Seen:
    """Start the server, send a handshake and the data, and end it."""
    with tempfile.TemporaryDirectory(prefix="stdout-guard-", ignore_cleanup_errors=True) as folder:
        record = os.path.join(folder, "executed")
        run, process = opened(server, Condition("corpus", title, env={RECORDER: record}))
        assert run.session is not None
        dialogue = run.session.dialogue
        with process:
            for line in handshake:
                dialogue.write(line, well_formed=False)
            begun = not handshake or dialogue.await_answer("init", server.limits.start) is not None
            gone = _send(data, eof, process, dialogue)
            ending = process.finish()
            dialogue.answer_to(None)
        recorded = _recorded(record)
    answers = [m for m in dialogue.messages if "method" not in m.content and m.content.get("id") not in ("init", FENCE)]
    remarks = [f"then it ended, {status_text(ending.returncode)}"] if gone else []
    return _Seen(answers, recorded, remarks if begun else [*remarks, "the handshake was not answered"])


def _records(server: Server, call: Call) -> bool:
    """Whether a call that is in order is written down: then what is not written down was not executed."""
    case = next((case for case in corpus.load() if case.handshake and _fits(case, server)), None)
    if case is None:
        return False
    method, params = server.protocol.calls(call.name, call.arguments)
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    try:
        return _drive(server, "is there a recorder", case.handshake, [request], False).recorded > 0
    except RunError:
        return False


def _send(data: list[bytes], eof: bool, process: ServerProcess, dialogue: Dialogue) -> bool:
    """Send a case and wait until all of it had its chance; whether the server ended although its input had not.

    Where the last frame is whole, a ping comes before the end of the input: some servers drop at it what is under way.
    """
    for piece in data:
        dialogue.write(piece, well_formed=False)
    if not eof or data[-1][-1:] == b"\n":
        dialogue.write(dialogue.encode({"jsonrpc": "2.0", "id": FENCE, "method": "ping"}), well_formed=False)
        dialogue.await_answer(FENCE, process.limits.answer)
    gone = process.stdout.eof
    if eof:
        process.close_stdin()
        process.wait_for(lambda: None, process.limits.answer, QUIET)
    return gone


def _recorded(path: str) -> int:
    """How many executions the server's own tool wrote down."""
    try:
        with open(path, "rb") as record:
            return sum(1 for line in record if line.strip())
    except FileNotFoundError:
        return 0


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


def _is_execution(answer: Message) -> bool:
    """A result, unless it is that of a handshake."""
    return is_result(answer) and "protocolVersion" not in mapping(answer.content.get("result"))


def _told(answer: Message) -> str:
    if "error" in answer.content:
        return f"error {mapping(answer.content['error']).get('code')}"
    return "a result" if is_result(answer) else "a result that says isError"
