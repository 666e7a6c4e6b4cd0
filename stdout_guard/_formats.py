"""The forms of a record that most servers never ask for: JSON lines, bare text, counts. Loaded when they are wanted."""

import time

from ._ledger import FIELDS, KEPT, Ledger, StrayWrite, thaw, value
from ._outlets import cut, escape, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RAW_BYTES = 65536  # the raw format keeps JSON log lines whole up to here


def as_raw(stray: StrayWrite) -> str:
    """The text alone, for collectors that expect the application's own (JSON) log lines."""
    text = cut(escape(stray.text), RAW_BYTES)
    return "\\x3a" + text.lstrip()[1:] if text.lstrip().startswith("::") else text  # GitHub: "::command::"


def as_json(stray: StrayWrite) -> str:
    """One JSON object."""
    fields = {name: getattr(stray, name) for name in FIELDS if name != "text" and getattr(stray, name)}
    return _object("stray", stray.time, fields, cut(stray.text))


def note_json(text: str) -> str:
    """Something that the guard itself has to say, for collectors of JSON lines."""
    return _object("note", time.time(), {}, cut(text))


def _object(kind: str, when: float, fields: "dict[str, Any]", text: str) -> str:
    from _json import encode_basestring_ascii as quote  # the C encoder alone: package json costs the cold start

    head = "".join(f', "{key}": {v if isinstance(v, int) else quote(cut(v, 600))}' for key, v in fields.items())
    line = f'{{"tool": "stdout-guard", "kind": "{kind}", "time": {when:.3f}{head}, "text": '
    while len(line) + len(quote(text)) > 4000 and text:  # escapes make a short text long
        text = text[: len(text) // 3] + "..." + text[-(len(text) // 3) :]
    return line + quote(text).replace("##", "#\\u0023") + "}"  # "##[...]", "##vso[...]": commands to a CI system


# log_format -> how a record looks, how a note of ours does
FORMATS: "dict[str, tuple[Callable[[StrayWrite], str], Callable[[str], str]]]" = {
    "json": (as_json, note_json),
    "raw": (as_raw, note),
}


def newest(ledger: Ledger) -> tuple[StrayWrite, ...]:
    """The newest 1,000 records, oldest first; those of a flood are made here, from its lines."""
    found: list[StrayWrite] = []
    for held in list(ledger.newest):
        if isinstance(held, StrayWrite):
            found.append(held)
            continue
        like, lines = held
        values = [getattr(like, name) for name in FIELDS[:-1]]
        found += [thaw((*values, line.decode("utf-8", "backslashreplace"), like.time)) for line in lines]
    return tuple(found[-KEPT:])


class Counts:
    """A frozen snapshot: ``strays`` in all, by source (``python``, ``child``, ``fd1``), ``places`` as (place, count)
    pairs, most frequent first, and what no reader took: ``dropped_lines`` and ``dropped_bytes``."""

    __slots__ = ("child", "dropped_bytes", "dropped_lines", "fd1", "places", "python", "strays")
    strays: int
    python: int
    child: int
    fd1: int
    places: tuple[tuple[str, int], ...]
    dropped_lines: int
    dropped_bytes: int

    def __init__(self, **values: object) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, values.get(name, () if name == "places" else 0))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"counts are a snapshot: {name} cannot be set")

    def __repr__(self) -> str:
        return "Counts(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__) + ")"


def count(ledger: Ledger, dropped_lines: int = 0, dropped_bytes: int = 0) -> Counts:
    """The counts as they are now."""
    places = sorted(((place, value(n)) for place, n in list(ledger.places.items())), key=lambda item: -item[1])
    by_source = {name: value(counter) for name, counter in list(ledger.sources.items())}
    return Counts(
        strays=sum(by_source.values()),
        places=tuple(places),
        dropped_lines=dropped_lines,
        dropped_bytes=dropped_bytes,
        **by_source,
    )
