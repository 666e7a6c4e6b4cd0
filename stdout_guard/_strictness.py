"""What strict means where implementations differ, and the words for what is found: faults and notes."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

SAFE_INTEGER: Final = 2**53 - 1


class Strictness(NamedTuple):
    """What is done where implementations differ; every default is the strict or the interoperable choice."""

    crlf: Literal["note", "reject"] = "note"
    bare_cr: Literal["reject", "allow"] = "reject"
    blank: Literal["reject", "allow"] = "reject"
    surrogates: Literal["reject", "allow"] = "reject"
    line_seps: Literal["note", "reject"] = "note"
    overflow: Literal["reject", "allow"] = "reject"
    dup_keys: Literal["reject", "envelope"] = "reject"  # envelope: only those of the message object itself
    extra: Literal["reject", "allow"] = "reject"
    unknown_methods: Literal["default", "reject", "note"] = "default"
    max_digits: int = 308
    max_depth: int = 128
    max_frame: int | None = None  # None: 10 MiB towards the client, 4 MiB towards the server


STRICT: Final = Strictness()


class Note(NamedTuple):
    """Legal, but worth knowing: some reader in use gets it wrong."""

    code: str
    why: str


class Fault(NamedTuple):
    """Why this is not a message. ``stage`` is one of encoding, json, limits, jsonrpc, framing (a torn line)."""

    code: str
    stage: str
    why: str
