"""Append a case to the corpus: a close and a keep-open variant from the bytes of one real defect.

Rules: a file that exists is only appended to; the id is the next free one; the action names are made here, because a
name used by two cases could not say which of them got through; the checksum follows the data in the same call.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from stdout_guard._replies import code_for
from stdout_guard.framing import Framing, encode
from stdout_guard.recorder import STAGES
from stdout_guard.revisions import META
from stdout_guard.testing.corpus import HOME, SUMS, VERSION, CorpusError, load

PLACEHOLDER = b"@EVIL@"
FIRST_OWN_ID = 200
CODES: dict[str, int | str] = {stage: code_for(stage, "") for stage in STAGES} | {"authorisation": "denied"}
_HANDSHAKE = [
    b'{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"<revision>",'
    b'"capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
]
DEFAULT_SCHEMA = {
    "type": "object",
    "properties": {
        "target": {"type": "string", "maxLength": 64},
        "count": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["target"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What is known of a defect: the bytes (``@EVIL@`` stands for the action name) and what a boundary must answer.

    ``error_id`` is the request id a reply may echo; None: the reply's id must be null or absent.
    ``silent``: no reply at all is allowed (notifications, response-shaped frames).
    ``fatal``: the byte stream is lost, so keep-open closes too and there is no keep-open variant.
    ``last``: nothing follows, the input ends there.
    """

    data: bytes
    title: str
    source: str
    stage: str
    why: str = ""
    code: int | str | None = None
    alt: tuple[int | str, ...] = ()
    error_id: int | str | None = None
    silent: bool = False
    fatal: bool = False
    last: bool = False
    framing: str = "ndjson"
    revision: str = "2025-11-25"
    handshake: bool = True


def records(defect: Defect, number: int) -> list[dict[str, Any]]:
    """The lines for one defect: the close variant, and unless it is fatal the keep-open one."""
    if defect.stage not in STAGES:
        raise CorpusError(f"corpus add: no stage {defect.stage!r}; one of {', '.join(STAGES)}")
    if not defect.source:
        raise CorpusError("corpus add: every case names its source, for example `defect owner/repo#12`")
    variants = ("",) if defect.fatal or defect.last else ("", "k")
    return [_record(defect, f"H{number:03}", variant) for variant in variants]


def _call(name: str, defect: Defect) -> bytes:
    params: dict[str, Any] = {"name": name, "arguments": {"target": "t"}}
    if defect.revision >= "2026":
        params["_meta"] = {META + "protocolVersion": defect.revision, META + "clientCapabilities": {}}
    request = {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}
    body = json.dumps(request, separators=(",", ":")).encode()
    return encode(cast("Framing", defect.framing), body)


def _record(defect: Defect, case_id: str, variant: str) -> dict[str, Any]:
    stem = f"hx_{case_id[1:]}"
    evil, after = f"{stem}_evil{variant}", f"{stem}_after{variant}"
    runs = [after] if variant else []
    pieces = [defect.data.replace(PLACEHOLDER, evil.encode())] + ([] if defect.last else [_call(after, defect)])
    ids = [None, "<absent>"] if defect.error_id is None else [defect.error_id]
    return {
        "id": case_id + variant,
        "title": defect.title + (" [keep-open]" if variant else ""),
        "source": defect.source,
        "framing": defect.framing,
        "revision": defect.revision,
        "preamble": defect.handshake and defect.revision < "2026",
        "policy": "keep-open" if variant else "close",
        "chunks": [{"b64": base64.b64encode(piece).decode(), "pause_ms": 0} for piece in pieces],
        "eof": True,
        "tools": {name: {"registered": True, "authorised": True, "schema": "default"} for name in (evil, after)},
        "expect": {
            "stage": defect.stage,
            "code": None if defect.silent else defect.code or CODES[defect.stage],
            "alt": list(defect.alt) or None,
            "error_id": None if defect.silent else {"one_of": ids},
            "replies": [0, 0] if defect.silent else [0, 1],
            "executor_calls": runs,
            "forbidden": [evil] if variant else [evil, after],
            "closed": not variant,
            "rejected": 1,
            "executed": len(runs),
        },
        "why": defect.why,
    }


def next_number(home: Path = HOME) -> int:
    """The next free case number of this folder."""
    if not (home / SUMS).exists():
        return FIRST_OWN_ID
    used = [int(match[1]) for case in load(home) if (match := re.match(r"H(\d+)", case.id))]
    return max([FIRST_OWN_ID - 1, *used]) + 1


def append(defect: Defect, *, home: Path = HOME, file: str = "found.jsonl") -> list[str]:
    """Add the defect to ``home/file`` (made when missing) and to the checksums; returns the new ids."""
    if not re.fullmatch(r"[\w.-]+\.jsonl", file):
        raise CorpusError(f"corpus add: {file!r} is not a plain name ending in .jsonl")
    made = records(defect, next_number(home))
    path = home / file
    home.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(json.dumps(_header()) + "\n", encoding="utf-8")
    with path.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps(record) + "\n" for record in made)
    write_sums(home)
    load(home)
    return [record["id"] for record in made]


def _header() -> dict[str, Any]:
    preamble = [base64.b64encode(line).decode() for line in _HANDSHAKE]
    return {
        "format": "stdout-guard hostile corpus",
        "version": VERSION,
        "default_schema": DEFAULT_SCHEMA,
        "preamble": preamble,
        "stages": [*STAGES, "none"],
        "default_replies": [0, 1],
    }


def write_sums(home: Path) -> None:
    """Write the checksum of every data file, in the format of ``sha256sum``."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(home.glob("*.jsonl"))]
    (home / SUMS).write_text("".join(lines))
