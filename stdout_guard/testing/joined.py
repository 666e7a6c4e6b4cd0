"""Findings that are one: a message over several lines or torn apart, an echo of the input, another framing or encoding.

The judge of the wire reads line by line and is right about each; who must mend the server wants to know what the lines
are together. Nothing is forgiven here: a finding is only put in the place of others about the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run
from stdout_guard.testing.scanner import HEADER, canonical

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
    for kind in (_echo, _other_framing, _with_zeros, _spread, _torn):
        found = kind(run, found)
    return found


def _echo(run: Run, found: Found) -> Found:
    """Lines of the input that came back are one finding, at the first of them."""
    if run.session is None:
        return found
    said, lines = run.session.dialogue.said - {""}, {line.strip() for line in run.stdin.splitlines()} - {b""}

    def comes_back(problem: Problem) -> bool:
        raw = problem.raw or b""
        if run.protocol.framing == "content-length":
            raw = raw.rpartition(b"\r\n\r\n")[2]
        return raw.strip() in lines or canonical(raw) in said

    echoes = [problem for problem in found if comes_back(problem)]
    if not echoes:
        return found
    several = f" ({len(echoes)} lines of it)" if len(echoes) > 1 else ""
    why = f"this is what was sent to the server{several}: it echoes its input"
    first = replace(echoes[0], check="shape", code="echoes-input", why=why)
    gone = {id(problem) for problem in echoes[1:]}
    return [first if one is echoes[0] else one for one in found if id(one) not in gone]


def _other_framing(run: Run, found: Found) -> Found:
    """Frames with a header on a newline-delimited channel: the first stands for all of them."""
    first = next((problem for problem in found if problem.code == "content-length-framing"), None)
    if first is None:
        return found
    frames: list[tuple[int, int]] = []
    for header in HEADER.finditer(run.stdout):
        if not frames or header.start() >= frames[-1][1]:
            frames.append((header.start(), header.end() + int(header[1])))
    if len(frames) > 1:
        first = replace(first, why=f"{first.why}: {len(frames)} frames like this one")
    return [first, *_outside(found, frames)]


def _with_zeros(run: Run, found: Found) -> Found:
    """Text with NUL bytes: glued to a message, or a message in an encoding of two bytes a character."""
    kept: Found = []
    for problem in found:
        raw = problem.raw or b""
        if raw.startswith(b"\0") and kept and kept[-1].code == "utf-16" and (raw == b"\0" or _reads(raw[1:])):
            continue  # the second byte of the line feed
        if problem.code in ("not-utf-8", "not-json") and b"\0" in raw:
            if raw.count(b"\0") * 3 > len(raw):
                problem = replace(problem, code="utf-16", why="two bytes for a character: this is UTF-16, not UTF-8")
            else:
                why = f"{raw.count(0)} NUL bytes in the line, which no JSON text holds"
                problem = replace(problem, code="nul-bytes", why=why)
        kept.append(problem)
    return kept


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


def _reads(raw: bytes) -> bool:
    return canonical(raw) != ""


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


def _outside(found: Found, spans: list[tuple[int, int]]) -> Iterator[Problem]:
    """The problems that are not within one of the ascending spans."""
    place = 0
    for problem in found:
        while place < len(spans) and problem.offset is not None and spans[place][1] <= problem.offset:
            place += 1
        inside = place < len(spans) and problem.offset is not None and problem.offset >= spans[place][0]
        if not (inside and problem.line is not None):
            yield problem


def _line_end(data: bytes, start: int) -> int:
    """The offset behind the line that goes on at ``start``."""
    return data.find(b"\n", start) + 1 or len(data)
