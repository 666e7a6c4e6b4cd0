"""Loads the tables of cases that lie in data/."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """The rows of one table."""
    with open(DATA / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def channel(row: Row) -> bytes:
    """The bytes of a wire row, given as they are or as a rule to make them."""
    if row.get("gen"):
        gen = row["gen"]
        prefix, unit, suffix = (base64.b64decode(gen[name]) for name in ("prefix_b64", "unit_b64", "suffix_b64"))
        return prefix + unit * gen["count"] + suffix
    return base64.b64decode(row["b64"])


def json_files() -> list[tuple[str, bytes]]:
    """The files of JSONTestSuite test_parsing: name and bytes."""
    return [
        (
            row["name"],
            base64.b64decode(row["b64"]) if "b64" in row else zlib.decompress(base64.b64decode(row["zlib_b64"])),
        )
        for row in rows("JSONTestSuite/test_parsing.jsonl")
    ]
