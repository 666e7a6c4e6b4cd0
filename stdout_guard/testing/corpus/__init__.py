"""The hostile corpus: damaged and dangerous inbound frames, and what a boundary must do with each.

Rules: append only; an id is never reused; every case names its source; every action name is used by one case alone, so
that a name in a recorder says which case got through. A changed expectation is a new version folder, never an edit:
``SHA256SUMS`` beside the data is checked on every read.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from stdout_guard.errors import StdoutGuardError

HELP = "list, show or add the hostile inbound frames that a boundary is tested with"
VERSION = 1
HOME = Path(__file__).parent / f"v{VERSION}"
SUMS = "SHA256SUMS"


class CorpusError(StdoutGuardError):
    """The corpus cannot be read or added to: a changed file, a broken line, an id or action name used twice."""


@dataclass(frozen=True, slots=True)
class Case:
    """One stream of inbound bytes and what a boundary must do with it. ``record`` is the line of the file, decoded.

    ``chunks`` are the pieces as they arrive; ``expect`` holds stage, code, alt, error_id, replies, executor_calls,
    forbidden, closed, rejected and executed (``replies`` None: at most one error reply).
    """

    id: str
    title: str
    source: str
    why: str
    framing: str
    revision: str
    policy: str
    eof: bool
    handshake: tuple[bytes, ...]
    tools: Mapping[str, Mapping[str, Any]]
    expect: Mapping[str, Any]
    record: Mapping[str, Any]

    @property
    def chunks(self) -> Iterator[bytes]:
        """The case's own bytes, piece by piece, without the handshake; big ones are generated here."""
        for piece in self.record["chunks"]:
            yield _piece(piece)

    @property
    def stdin(self) -> bytes:
        """Handshake and case as one run of bytes: what to write to a real server's stdin."""
        return b"".join((*self.handshake, *self.chunks))

    @property
    def replies(self) -> tuple[int, int] | None:
        """Least and most error replies, None where the case does not say."""
        limits = self.expect["replies"]
        if limits is None:
            rejected = self.expect["rejected"]
            return (0, 1) if isinstance(rejected, int) and rejected <= 1 else None
        return (limits[0], limits[1])


def _piece(piece: Mapping[str, Any]) -> bytes:
    if "gen" not in piece:
        return base64.b64decode(piece["b64"])
    made = piece["gen"]
    prefix, unit, suffix = (base64.b64decode(made[name]) for name in ("prefix_b64", "unit_b64", "suffix_b64"))
    return prefix + unit * int(made["count"]) + suffix


def _handshake(header: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[bytes, ...]:
    if not record["preamble"]:
        return ()
    lines = [base64.b64decode(line).replace(b"<revision>", record["revision"].encode()) for line in header["preamble"]]
    if record["framing"] == "ndjson":
        return tuple(lines)
    return tuple(b"Content-Length: %d\r\n\r\n%s" % (len(line) - 1, line[:-1]) for line in lines)


def _case(header: Mapping[str, Any], record: dict[str, Any]) -> Case:
    tools = {
        name: {**tool, "schema": header["default_schema"] if tool["schema"] == "default" else tool["schema"]}
        for name, tool in record["tools"].items()
    }
    return Case(
        id=record["id"],
        title=record["title"],
        source=record["source"],
        why=record["why"],
        framing=record["framing"],
        revision=record["revision"],
        policy=record["policy"],
        eof=record["eof"],
        handshake=_handshake(header, record),
        tools=tools,
        expect=record["expect"],
        record=record,
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    except (OSError, ValueError) as error:
        raise CorpusError(f"corpus: cannot read {path.name}: {error}") from error


def verify(home: Path = HOME) -> None:
    """Raise `CorpusError` unless every file is exactly what its checksum says and every data file has one."""
    try:
        pairs = [line.split("  ", 1) for line in (home / SUMS).read_text().splitlines()]
        listed = {name: checksum for checksum, name in pairs}
    except (OSError, ValueError) as error:
        raise CorpusError(f"corpus: no readable {SUMS} in {home.name}: {error}") from error
    for path in sorted(home.glob("*.jsonl")):
        if listed.pop(path.name, None) != hashlib.sha256(path.read_bytes()).hexdigest():
            raise CorpusError(
                f"corpus: {path.name} is not what {SUMS} says; cases are appended with `stdout-guard corpus add`, "
                "never edited"
            )
    if listed:
        raise CorpusError(f"corpus: {', '.join(listed)} is listed in {SUMS} and missing")


def load(home: Path = HOME) -> list[Case]:
    """Every case of one version folder, in file order; raises `CorpusError` when a rule of the corpus is broken."""
    verify(home)
    cases: list[Case] = []
    for path in sorted(home.glob("*.jsonl")):
        header, *records = _lines(path)
        if header.get("version") != VERSION:
            raise CorpusError(f"corpus: {path.name} has version {header.get('version')!r}, this reader knows {VERSION}")
        cases += [_case(header, record) for record in records]
    check_unique(cases)
    return cases


def check_unique(cases: list[Case]) -> None:
    """Raise `CorpusError` when an id or a forbidden action name belongs to two cases, or a source is missing."""
    owners: dict[str, str] = {}
    for case in cases:
        names = set(cast("list[str]", case.expect["forbidden"]))
        for name in {f"id {case.id}", *(f"action {name}" for name in names)}:
            if name in owners:
                raise CorpusError(f"corpus: {name} is used by {owners[name]} and by {case.id}")
            owners[name] = case.id
        if not case.source:
            raise CorpusError(f"corpus: {case.id} names no source")


def find(case_id: str, home: Path = HOME) -> Case:
    """The case with this id; `CorpusError` when there is none."""
    for case in load(home):
        if case.id == case_id:
            return case
    raise CorpusError(f"corpus: no case {case_id!r}; `stdout-guard corpus list` shows them")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    from stdout_guard.testing.corpus import verb

    verb.configure(parser)


def execute(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit status."""
    from stdout_guard.testing.corpus import verb

    return verb.execute(args)
