"""Strict JSON: bytes to one value, or the first reason why they are none. No I/O.

Rules: UTF-8 is checked before parsing and nothing else is tried; nesting and integer length are bounded; member names
are unique at any depth, compared after unescaping; NaN, Infinity, numbers beyond a double and lone surrogates are
not data. The fast way is json's C scanner: what costs time per byte or per value is done only when a cheap look finds
cause. An exception is never kept, nor handed to the function that may catch the next: no frame, good or bad, leaves
garbage for the cyclic collector.

Sources: RFC 8259, RFC 7493 (I-JSON).
"""

from __future__ import annotations

import re
from json.decoder import JSONDecodeError
from json.encoder import JSONEncoder
from typing import NamedTuple, cast

from stdout_guard._json_hooks import Hooks, Refused, Scan
from stdout_guard._json_looks import (
    LARGE,
    LONG,
    balanced,
    count_keys,
    depth_within,
    keys_and_depth,
    many_brackets,
    many_objects,
    number_hooks,
)
from stdout_guard._strictness import STRICT, Fault, Note, Strictness
from stdout_guard._tuples import maker
from stdout_guard.framing import Framing

_SPACE = " \t\n\r"


class Decoded(NamedTuple):
    """One JSON value and what is worth knowing about its text."""

    value: object
    notes: tuple[Note, ...] = ()


_decoded = maker(Decoded)
_FAILURES = (StopIteration, JSONDecodeError, Refused, RecursionError)
_SURROGATE = re.compile(rb"\\(?=u[dD][89a-fA-F])")  # a look-ahead keeps the search a memchr for the backslash
_HEADER = re.compile(rb"content-(?:length|type)[ \t]*:", re.IGNORECASE)
LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
_LINE_SEPARATOR = Note("line-separator", "raw U+2028, U+2029 or U+0085: some readers split lines there; escape it")
_WIDE = {b"\1\0\1\0": "utf-16-be", b"\0\1\0\1": "utf-16-le", b"\1\1\1\0": "utf-32-be", b"\0\1\1\1": "utf-32-le"}


class Decoder:
    """Strict JSON under one set of options. Keep one for each stream; it is not for several threads at once.

    Two ways to see a member given twice: the members kept are counted and compared with the colons, or else the keys,
    in the text; or every object is handed over as pairs (long texts with few objects, and whenever in doubt).
    """

    def __init__(self, options: Strictness = STRICT, framing: Framing = "ndjson") -> None:
        self._options = options
        self._lines = framing == "ndjson"
        self._reject_cr = self._lines and options.bare_cr == "reject"
        self._hooks = Hooks(options)
        self._notes, self._doubled, self._kept = self._hooks.notes, self._hooks.doubled, self._hooks.kept
        self._counts = options.dup_keys == "reject"
        self._shallow = 2 * options.max_depth  # a body of no more bytes is not too deep, since each bracket closes
        self._scanners: dict[tuple[bool, int], Scan] = {}
        self._counted, self._pairs = self._scanner(True, 2), self._scanner(False, 2)

    def decode(self, body: bytes) -> Decoded | Fault:
        """The one JSON value that ``body`` is, or the first reason why it is not."""
        found = self.scan(body)
        return found if isinstance(found, Fault) else _decoded(found)

    def scan(self, body: bytes) -> tuple[object, tuple[Note, ...]] | Fault:
        """What :meth:`decode` says, as a plain tuple: sooner, where there are many small frames."""
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            return Fault("not-utf-8", "encoding", f"byte {error.start}: {error.reason}")
        try:
            start = 0 if text[:1] == "{" else len(text) - len(text.lstrip(_SPACE))
            small = len(body) <= LARGE
            if not self._counts or (not small and (len(body) > LONG or many_objects(body))):
                value, end = self._large(body, text, start)
            else:
                scan = self._counted if small else self._scanner(True, number_hooks(body))
                (value, end), kept = self._counting(scan, text, start)
                if kept != text.count(":") and kept != count_keys(text):
                    self._notes.clear()
                    value, end = self._pairs(text, start)
                # of the objects around the deepest value each has a member
                if len(body) > self._shallow and many_brackets(body, self._options.max_depth - kept - 1, (b"[",)):
                    self._look(body)
            if end != len(text) and text[end:].strip(_SPACE):
                return self._not_json(body, text, "more after the JSON value", end)
            if self._reject_cr and "\r" in text:
                return Fault("bare-cr", "json", "a carriage return inside the line: some readers end the line there")
            if "\\" in text or not text.isascii() or self._notes or self._doubled:
                return self._finish(body, text, value)
            return value, ()
        except _FAILURES as failure:
            return self._failed(body, text, failure)
        finally:
            if self._doubled or self._notes:
                self._doubled.clear()
                self._notes.clear()

    def _failed(self, body: bytes, text: str, failure: Exception) -> Fault:
        """Why the scan did not end well; that a body is too deep comes before whatever else was found in it."""
        fault = self._deeper(body)
        counted = self._counts and (len(body) <= LARGE or (len(body) <= LONG and not many_objects(body)))
        if fault is None and counted:
            fault = self._first(body, text)  # counting finds a double at the end only: what came first?
        return fault or self._named(body, text, failure)

    def _first(self, body: bytes, text: str) -> Fault | None:
        try:
            self._pairs(text, len(text) - len(text.lstrip(_SPACE)))
        except _FAILURES as failure:
            return self._named(body, text, failure)
        return None

    def _named(self, body: bytes, text: str, failure: Exception) -> Fault:
        if isinstance(failure, Refused):
            return failure.fault
        if isinstance(failure, JSONDecodeError):
            return self._not_json(body, text, failure.msg, failure.pos)
        if isinstance(failure, StopIteration):
            return self._not_json(body, text, "no JSON value", cast("int", failure.value))
        return Fault("too-deep", "limits", "nested deeper than the parser follows")

    def _deeper(self, body: bytes) -> Fault | None:
        return self._too_deep(body) if many_brackets(body, self._options.max_depth) else None

    def _look(self, body: bytes) -> None:
        if fault := self._deeper(body):
            raise Refused(fault)

    def _large(self, body: bytes, text: str, start: int) -> tuple[object, int]:
        """The scan of a body that is long enough for a look at all of it to save time."""
        hooks = number_hooks(body)
        if not (self._counts and many_objects(body)):
            self._look(body)
            return self._scanner(False, hooks)(text, start)
        keys, deep = keys_and_depth(body, self._options.max_depth)
        if deep and (fault := self._too_deep(body)):
            raise Refused(fault)
        found, kept = self._counting(self._scanner(True, hooks), text, start)
        if kept == keys:
            return found
        self._notes.clear()
        return self._scanner(False, hooks)(text, start)

    def _counting(self, scan: Scan, text: str, start: int) -> tuple[tuple[object, int], int]:
        """What is found, and how many members were kept; a signal handler may decode in the midst of this."""
        before = self._kept.cell_contents
        try:
            return scan(text, start), self._kept.cell_contents - before
        finally:
            self._kept.cell_contents = before

    def _scanner(self, counted: bool, numbers: int) -> Scan:
        if (found := self._scanners.get((counted, numbers))) is None:
            found = self._scanners[counted, numbers] = self._hooks.scanner(counted, numbers)
        return found

    def _finish(self, body: bytes, text: str, value: object) -> tuple[object, tuple[Note, ...]] | Fault:
        """The rarer questions: half surrogates, line separators, doubled members, notes."""
        if self._doubled and (fault := self._doubled_envelope(value)):
            return fault
        escaped = self._options.surrogates == "reject" and b"\\" in body and _SURROGATE.search(body)
        if escaped and not _encodes(value):
            return Fault("lone-surrogate", "json", "an escape names half a surrogate pair: no such character")
        if not text.isascii() and any(separator in text for separator in LINE_SEPARATORS):
            if self._options.line_seps == "reject":
                return Fault("line-separator", "json", _LINE_SEPARATOR.why)
            self._notes.append(_LINE_SEPARATOR)
        return value, tuple(dict.fromkeys(self._notes))

    def _not_json(self, body: bytes, text: str, reason: str, at: int) -> Fault:
        """Name what breaks the encoding or the line framing; everything else is simply not JSON."""
        if text[:1] == "\ufeff":
            return Fault("byte-order-mark", "encoding", "starts with a byte order mark")
        if b"\0" in body and (name := _WIDE.get(bytes(byte == 0 for byte in body[:4]))):
            return Fault("not-utf-8", "encoding", f"this is {name}")
        if self._lines and _HEADER.match(body):
            return Fault("content-length-framing", "framing", "a Content-Length header on a newline-delimited channel")
        cut = text.rstrip(_SPACE)
        unfinished = cut and at >= len(cut) and cut.lstrip(_SPACE)[0] in "{["
        if self._lines and unfinished and not self._too_deep(body):
            return Fault("embedded-newline", "framing", "the line ends between the tokens of an unfinished JSON value")
        return Fault("not-json", "json", f"{reason[:1].lower()}{reason[1:]} (character {at})")

    def _too_deep(self, body: bytes) -> Fault | None:
        """Depth from the brackets outside strings, before anything recursive sees the text."""
        if depth_within(body, self._options.max_depth):
            return None
        if not balanced(body):
            return Fault("not-json", "json", "brackets are opened and never closed, or the reverse")
        return Fault("too-deep", "limits", f"nested deeper than {self._options.max_depth}")

    def _doubled_envelope(self, value: object) -> Fault | None:
        messages = cast("list[object]", value) if isinstance(value, list) else [value]
        doubled = set(map(id, self._doubled))
        if any(id(message) in doubled for message in messages):
            return Fault("duplicate-key", "json", "a member of the message is given twice")
        self._notes.append(Note("duplicate-key", "a member is given twice: readers differ on which one counts"))
        return None


def decode(body: bytes, options: Strictness = STRICT, framing: Framing = "ndjson") -> Decoded | Fault:
    """The one JSON value that ``body`` is, or why it is not. For many frames keep a :class:`Decoder`."""
    return Decoder(options, framing).decode(body)


_unescaped = JSONEncoder(ensure_ascii=False, check_circular=False).encode


def _encodes(value: object) -> bool:
    try:
        _unescaped(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
