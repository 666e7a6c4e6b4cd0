"""What the wire holds as a whole instead of its protocol: an echo of the input, another framing, another encoding.

Each puts one problem in the place of those that are about the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stdout_guard.testing.records import Problem
from stdout_guard.testing.run import Run
from stdout_guard.testing.scanner import HEADER, canonical

Found = list[Problem]
SHORT = 8  # bytes of a line that anybody may write


def echo(run: Run, found: Found) -> Found:
    """Lines of the input that came back are one finding, at the first of them."""
    if run.session is None:
        return found
    said = {message for message in run.session.dialogue.said if '"jsonrpc"' in message}
    lines = {line.strip() for line in run.stdin.splitlines() if len(line) > SHORT}

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


def other_framing(run: Run, found: Found) -> Found:
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


def zeros(run: Run, found: Found) -> Found:
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


def _reads(raw: bytes) -> bool:
    return canonical(raw) != ""


def _outside(found: Found, spans: list[tuple[int, int]]) -> Iterator[Problem]:
    """The problems that are not within one of the ascending spans."""
    place = 0
    for problem in found:
        while place < len(spans) and problem.offset is not None and spans[place][1] <= problem.offset:
            place += 1
        inside = place < len(spans) and problem.offset is not None and problem.offset >= spans[place][0]
        if not (inside and problem.line is not None):
            yield problem
