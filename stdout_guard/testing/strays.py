"""What the second run recorded, asked for bytes of the first: strays by their text, frames by their bytes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from stdout_guard.testing.blame import NATIVE
from stdout_guard.testing.protocols import Json


def matching(raw: bytes, strays: Sequence[Json]) -> list[Json]:
    """The strays whose text is in the dirty bytes: the whole line if there is one, else the longest part of it.

    Of those that say the same of the same text, one stands for all.
    """
    return Strays(strays).matching(raw)


class Strays:
    """The strays of a run by their text, each text prepared once, whatever their number and that of the problems."""

    def __init__(self, strays: Iterable[Json]) -> None:
        self._kinds: dict[str, Json] = {}  # by what is told of it, one of each
        self._by_text: dict[str, dict[str, str]] = {}  # bare text: what is told, and the text of the record
        self._by_shape: dict[str, list[str]] = {}  # made when it is first asked for
        self._cut: dict[tuple[str, str], str] = {}
        for stray in strays:
            what, text = told_of(stray), str(stray.get("text", ""))
            what = str(self._kinds.setdefault(what, {**stray, "told": what})["told"])  # one string for all
            self._by_text.setdefault(_bare(text), {}).setdefault(what, text)
            if stray.get("source") != "python" and (unit := _unit(_bare(text))):
                self._by_text.setdefault(unit, {}).setdefault(what, text)
            if _CUT.search(text):
                self._cut[_bare(text.partition("...")[0]), _bare(text.rpartition("...")[2])] = _bare(text)

    def matching(self, raw: bytes) -> list[Json]:
        """See ``matching``."""
        line = _bare(raw.decode("utf-8", "backslashreplace"))
        if line in self._by_text or not line:
            return self._with(line)
        for (head, tail), text in self._cut.items():
            if len(line) > len(head) + len(tail) and line.startswith(head) and line.endswith(tail):
                return self._with(text)
        if len(line) * len(self._by_text) > _MOST_COMPARED:
            line = line[:_ENDS] + line[-_ENDS:]
        parts = [text for text in self._by_text if len(text) > 2 and (text in line or line in text)]
        parts = [text for text in parts if not text.startswith('{"jsonrpc"')]  # frames that went around
        longest = max(map(len, parts), default=0)
        return [stray for text in parts if len(text) == longest for stray in self._with(text)]

    def alike(self, raw: bytes) -> list[Json]:
        """The strays that differ from the dirty line in numbers alone: a time, a process id, an address."""
        if not self._by_shape:
            for text in self._by_text:
                self._by_shape.setdefault(_shape(text), []).append(text)
        line = shape(raw)
        return [stray for text in self._by_shape.get(line, ()) if line for stray in self._with(text)]

    def _with(self, text: str) -> list[Json]:
        return [{**self._kinds[what], "text": own} for what, own in self._by_text.get(text, {}).items()]


def shape(raw: bytes) -> str:
    """A line of text with its numbers made equal; empty when hardly a word is left of it."""
    return _shape(_bare(raw.decode("utf-8", "backslashreplace")))


def _shape(text: str) -> str:
    found = _NUMBERS.sub("0", text)
    return found if len(re.sub("[^A-Za-z]", "", found)) > 2 else ""


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|[0-9]+")
_CUT = re.compile(r"\.\.\.\[\d+ of \d+ characters cut\]\.\.\. ")  # how the guard shortens a long line in a record
_MOST_COMPARED = 1 << 30  # characters of a line times texts looked for in it; beyond it only the ends are compared
_ENDS = 4096  # characters
_UNLIKE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\x20-\x7e]")


def _bare(text: str) -> str:
    """Text without what differs between a raw line and a record of it: ends, blanks, control characters, escapes."""
    text = text.strip()
    if "\\" not in text and text.isascii() and text.isprintable():
        return text
    return _UNLIKE.sub("", text).strip()


def _unit(text: str) -> str:
    """What ``text`` repeats: pieces without a newline, written one after the other, are one record; else nothing."""
    period = (text + text).find(text, 1) if len(text) < _ENDS else 0
    return text[:period] if 2 < period < len(text) else ""


def told_of(stray: Json) -> str:
    caller = stray.get("caller")
    if stray.get("source") == "python":
        behind = f", from {caller}" if caller else ""
        return f"written by {stray.get('file')}:{stray.get('line')} in {stray.get('function')}{behind}"
    if stray.get("source") == "child":
        return f"written by a child process ({stray.get('program')}), started at {caller}"
    return NATIVE


def unprintable(raw: bytes, strays: Strays) -> list[Json]:
    """The strays without a letter (a byte order mark, NUL bytes) that are in the dirty bytes."""
    texts = ((one, data) for one in strays.matching(b"") for data in _unescaped(str(one.get("text", ""))))
    found = [one for one, data in texts if data in raw or (len(set(data)) == 1 and data[:1] in raw)]
    return [one for number, one in enumerate(found) if one not in found[:number]]


def _unescaped(text: str) -> Iterator[bytes]:
    """The bytes that a record may stand for: an escape below 256 is a character, or a byte that was no UTF-8."""
    for encoding in ("utf-8", "latin-1"):
        plain = _ESCAPE.sub(lambda escape: chr(int(escape[0][2:], 16)), text)
        with suppress(UnicodeEncodeError):
            if data := plain.encode(encoding).strip():
                yield data


_ESCAPE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")


def stands_in(raw: bytes, data: bytes) -> int | None:
    """Where these lines stand in ``data`` as lines; of a very long one the head is looked for."""
    wanted = raw.rstrip(b"\r\n") if raw.strip() else raw
    whole = len(wanted) < KEPT
    at = data.find(wanted[:KEPT])
    while at >= 0:
        end = at + len(wanted)
        if (at == 0 or data[at - 1] == 10) and (not whole or not raw.strip() or data[end : end + 1] in _ENDS_LINE):
            return at
        at = data.find(wanted[:KEPT], at + 1)
    return None


KEPT = 1 << 15  # bytes, less than what is kept of one write
_ENDS_LINE = (b"\n", b"\r", b"")


class Passed:
    """What the guard let through to the wire in the second run, with the line that wrote each piece."""

    def __init__(self, records: Iterable[bytes]) -> None:
        self._starts: list[int] = []
        self._places: list[Json] = []
        pieces: list[bytes] = []
        size = 0
        for data in records:
            at = 0
            while at < len(data):
                end = data.find(b"\n", at)
                end = len(data) if end < 0 else end
                length, *where = data[at:end].decode("utf-8", "replace").split("\t")
                self._starts.append(size)
                self._places.append({"source": "python", **dict(zip(_SITE, where, strict=False))})
                pieces.append(data[end + 1 : end + 1 + int(length)])
                size, at = size + len(pieces[-1]), end + 1 + int(length)
        self._data = b"".join(pieces)

    def writer_of(self, raw: bytes) -> Json | None:
        """Who wrote these bytes; None when nobody did, or the place is not known."""
        at = stands_in(raw, self._data)
        if at is None:
            return None
        place = self._places[bisect_right(self._starts, at) - 1]
        return place if "file" in place else None


_SITE = ("file", "line", "function", "caller")
