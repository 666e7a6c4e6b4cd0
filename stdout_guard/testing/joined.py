"""Findings that are one: a message over several lines or torn apart, an echo of the input, another framing or encoding.

The judge of the wire reads line by line and is right about each; who must mend the server wants to know what the lines
are together. Nothing is forgiven here: a finding is only put in the place of others about the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from stdout_guard.testing.foreign import echo, other_framing, zeros
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run

MOST = 1 << 20  # bytes that one message over several lines is looked for in
HEAD = 1 << 14  # bytes of a torn line before the tear
TRIES = 1024  # places at which a line may be torn
AHEAD = 4  # lines behind a torn one that may hold its rest
TEARS = 8  # torn lines of a run that are looked at
_MEMBERS = {"jsonrpc", "id", "method", "params", "result", "error"}
_RELAXED = json.JSONDecoder(strict=False)  # a line break inside a string is a fault to be named, not to stop at

Found = list[Problem]


def joined(run: Run, found: Found) -> Found:
    """``found``, in order, with one problem in the place of those that are about the same fault."""
    for kind in (echo, other_framing, zeros, _spread, _torn, _several, _traceback):
        found = kind(run, found)
    return found


def _spread(run: Run, found: Found) -> Found:
    """Neighbouring lines that are one message together."""

    def join(problem: Problem) -> Problem | None:
        start = problem.offset or 0
        text = run.stdout[start : start + MOST].decode("utf-8", "surrogateescape")
        blank = len(text) - len(text.lstrip())
        try:
            value, end = _RELAXED.raw_decode(text, blank)
        except (ValueError, RecursionError):
            return None
        size = len(text[:end].encode("utf-8", "surrogateescape"))
        raw = run.stdout[start : _line_end(run.stdout, start + size)]
        lines = run.stdout.count(b"\n", start, start + size) + 1
        if lines == 1 or not all(map(_is_message, cast("list[object]", value) if isinstance(value, list) else [value])):
            return None
        why = f"one message spread over {lines} lines: each line is read as a message of its own"
        try:
            json.loads(text[blank:end])
        except ValueError:
            why += " (a line break stands unescaped inside a string)"
        return replace(problem, code="spread-message", why=why, raw=raw)

    return _each(run, found, join, lambda problem: (problem.raw or b"").lstrip().startswith((b"{", b"[")))


def _torn(run: Run, found: Found) -> Found:
    """A line that begins a message, and a later one that is its rest, with something else between the two."""
    bad = {problem.offset for problem in found if problem.check == "framing"}
    left = TEARS

    def join(problem: Problem) -> Problem | None:
        nonlocal left
        left -= 1
        start = problem.offset or 0
        stop = at = start + len(problem.raw or b"")
        for _ in range(AHEAD if left >= 0 else 0):
            end = _line_end(run.stdout, at)
            rest = run.stdout[at:end]
            if at in bad and rest.rstrip().endswith(b"}") and (cut := _tear(run.stdout[start:stop], rest)):
                between = run.stdout[start + cut : at]
                return replace(problem, code="torn-message", why=_torn_by(between), raw=run.stdout[start:end])
            at = end
        return None

    return _each(run, found, join, lambda problem: (problem.raw or b"").startswith(b"{"))


def _several(run: Run, found: Found) -> Found:
    """Several messages on one line: whole ones, or parts of them with what is left of them on the lines behind."""

    def join(problem: Problem) -> Problem | None:
        raw = problem.raw or b""
        rest, count = raw.decode("utf-8", "replace").strip(), 0
        try:
            while rest:
                value, end = _RELAXED.raw_decode(rest)
                rest, count = rest[end:].lstrip(), count + _is_message(value)
        except (ValueError, RecursionError):
            why = "parts of several messages in one line: two writers at once"
            return replace(
                problem,
                code="interleaved-messages",
                why=why,
                raw=run.stdout[: _scraps(run, found, problem)][problem.offset or 0 :],
            )
        if count < 2:
            return None
        return replace(problem, code="glued-messages", why=f"{count} messages on one line: a newline ends each")

    def fits(problem: Problem) -> bool:
        raw = problem.raw or b""
        return problem.code == "not-json" and raw.startswith(b'{"jsonrpc"') and raw.count(b'"jsonrpc"') > 1

    return _each(run, found, join, fits)


def _scraps(run: Run, found: Found, first: Problem) -> int:
    """The offset behind the lines that follow ``first`` at once and are no text: the other parts of its messages."""
    bad = {problem.offset: problem for problem in found if problem.check == "framing" and problem.step == first.step}
    end = (first.offset or 0) + len(first.raw or b"")
    while (scrap := bad.get(end)) is not None and _SCRAP.search(scrap.raw or b""):
        end += len(scrap.raw or b"")
    return end


_SCRAP = re.compile(rb'^\W*[}\]"]|["}\]]\W*$')


_TRACEBACK = re.compile(rb"(Traceback|Current thread|Thread 0x\w+) .*\(most recent call (last|first)\):")


def _traceback(run: Run, found: Found) -> Found:
    """The lines of a Python traceback are one."""
    bad = {problem.offset for problem in found if problem.check == "framing"}

    def join(problem: Problem) -> Problem | None:
        start = problem.offset or 0
        end = start + len(problem.raw or b"")
        while end in bad and run.stdout[end : end + 1] in (b" ", b"\t"):
            end = _line_end(run.stdout, end)
        if end in bad:
            end = _line_end(run.stdout, end)  # what was raised
        raw = run.stdout[start:end]
        return replace(
            problem,
            raw=raw,
            why=problem.why.partition("; ")[0] + "; probably a Python traceback, from print_exc() or an excepthook",
        )

    return _each(run, found, join, lambda problem: bool(_TRACEBACK.match(problem.raw or b"")))


def _tear(line: bytes, rest: bytes) -> int:
    """How many bytes of ``line`` make a message with ``rest``; 0 when none do."""
    tail = rest.decode("utf-8", "replace")
    for cut in range(min(len(line), HEAD), max(min(len(line), HEAD) - TRIES, 0), -1):
        try:
            value: object = _RELAXED.decode(line[:cut].decode("utf-8", "replace").rstrip("\r\n") + tail)
        except (ValueError, RecursionError):
            continue
        if _is_message(value):
            return cut
    return 0


def _torn_by(between: bytes) -> str:
    shown = ascii(between if len(between) <= 100 else between[:100] + b"...")
    try:
        other = _is_message(json.loads(between))
    except (ValueError, RecursionError):
        other = False
    if other:
        return f"one message torn apart by another one, {shown}: two writers at once"
    return f"one message torn apart by {shown}"


def _is_message(value: object) -> bool:
    members = set(mapping(value))
    return {"jsonrpc"} < members <= _MEMBERS and bool(members & {"method", "result", "error"})


def _each(run: Run, found: Found, join: Callable[[Problem], Problem | None], fits: Callable[[Problem], bool]) -> Found:
    """``join`` asked about each framing problem that fits; what its result covers is left out."""
    kept: Found = []
    covered: list[tuple[int, int]] = []
    for problem in found:
        offset = problem.offset
        if offset is not None and problem.line is not None and any(start <= offset < end for start, end in covered):
            continue
        whole = join(problem) if problem.check == "framing" and offset is not None and fits(problem) else None
        if whole is not None:
            covered.append((offset or 0, (offset or 0) + len(whole.raw or b"")))
        kept.append(whole or problem)
    return kept


def _line_end(data: bytes, start: int) -> int:
    """The offset behind the line that goes on at ``start``."""
    return data.find(b"\n", start) + 1 or len(data)
