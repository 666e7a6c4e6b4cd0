"""The grammar of the keys of ``_meta``: what is no such key, and what is kept for the specification itself. No I/O.

A key is ``prefix/name`` or ``name``. Prefix: labels joined by dots; a label starts with a letter, ends with a letter or
digit, and has letters, digits and hyphens between. Name: empty, or from letter or digit to letter or digit with
hyphens, underscores and dots between.

Source: MCP basic, section on ``_meta``, from 2025-06-18; reserved prefixes as 2025-11-25 states them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from stdout_guard._mcp_methods import META_KEYS
from stdout_guard._strictness import Note

_LABEL: Final = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_RESERVED: Final = re.compile(r"[^./]*\.(?:modelcontextprotocol|mcp)[./]")


def bad_key(keys: Iterable[str]) -> str | None:
    """The first key that the grammar does not allow."""
    return next((key for key in keys if not _KEY.fullmatch(key)), None)


def reserved_keys(keys: Iterable[str], notes: list[Note]) -> None:
    """Note the keys under a prefix of the specification that no revision defines."""
    for key in keys:
        if key not in META_KEYS and _RESERVED.match(key):
            notes.append(Note("reserved-meta-key", f"the prefix of _meta[{key[:64]!r}] is reserved for MCP itself"))
            return
