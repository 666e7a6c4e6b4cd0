"""Strict JSON: bytes to one value, or the first reason why they are none. No I/O.

Rules: UTF-8 is checked before parsing and nothing else is tried; nesting and integer length are bounded; member names
are unique at any depth, compared after unescaping; NaN, Infinity, numbers beyond a double and lone surrogates are
not data. The fast way is json's C scanner: what costs time per byte or per value is done only when a cheap look finds
cause.

Sources: RFC 8259, RFC 7493 (I-JSON).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import JSONEncoder
from json.scanner import make_scanner
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from stdout_guard._json_looks import LARGE, balanced, count_keys, depth_within, many_brackets, numbers_harmless
from stdout_guard.framing import Framing

SAFE_INTEGER: Final = 2**53 - 1
_SPACE = " \t\n\r"


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


class Decoded(NamedTuple):
    """One JSON value and what is worth knowing about its text."""

    value: object
    notes: tuple[Note, ...] = ()


_decoded = cast("Callable[[tuple[object, tuple[Note, ...]]], Decoded]", partial(cast("Any", tuple).__new__, Decoded))


class _Refused(Exception):
    """Carries a fault out of the scanner's hooks; never leaves this module."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


_SURROGATE = re.compile(rb"\\(?=u[dD][89a-fA-F])")  # a look-ahead keeps the search a memchr for the backslash
_HEADER = re.compile(rb"content-(?:length|type)[ \t]*:", re.IGNORECASE)
_LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
_BIG_INTEGER = Note("big-integer", "an integer beyond 2^53 loses digits in JavaScript readers")
_LINE_SEPARATOR = Note("line-separator", "raw U+2028, U+2029 or U+0085: some readers split lines there; escape it")
_WIDE = {b"\1\0\1\0": "utf-16-be", b"\0\1\0\1": "utf-16-le", b"\1\1\1\0": "utf-32-be", b"\0\1\1\1": "utf-32-le"}


class Decoder:
    """Strict JSON under one set of options. Keep one for each stream; it is not for several threads at once.

    Two ways to see a member given twice: every object is handed over as pairs (small frames, and whenever in doubt),
    or the members kept are counted and compared with the keys in the text (large frames).
    """

    def __init__(self, options: Strictness = STRICT, framing: Framing = "ndjson") -> None:
        self._options = options
        self._lines = framing == "ndjson"
        self._reject_cr = self._lines and options.bare_cr == "reject"
        self._notes: list[Note] = []
        self._doubled: list[dict[str, object]] = []
        count, self._kept = _counter()
        pairs = self._unique if options.dup_keys == "reject" else self._collect
        numbers: dict[str, Any] = {"parse_int": self._integer, "parse_float": self._float}
        self._pairs = _scanner(object_pairs_hook=pairs, **numbers)
        self._pairs_plain = _scanner(object_pairs_hook=pairs)
        self._counted = _scanner(object_hook=count, **numbers)
        self._counted_plain = _scanner(object_hook=count)

    def decode(self, body: bytes) -> Decoded | Fault:
        """The one JSON value that ``body`` is, or the first reason why it is not."""
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            return Fault("not-utf-8", "encoding", f"byte {error.start}: {error.reason}")
        limit = self._options.max_depth
        many = len(body) > 2 * limit and many_brackets(body, limit)  # each bracket closes: shorter is never too deep
        if many and (fault := self._too_deep(body)):
            return fault
        try:
            start = 0 if body[:1] == b"{" else len(text) - len(text.lstrip(_SPACE))
            value, end = self._scan(body, text, start, many) if len(body) > LARGE else self._pairs(text, start)
            if end != len(text) and text[end:].strip(_SPACE):
                return self._not_json(body, text, "more after the JSON value", end)
            if self._reject_cr and b"\r" in body:
                return Fault("bare-cr", "json", "a carriage return inside the line: some readers end the line there")
            if self._doubled or self._notes or b"\\" in body or not text.isascii():
                return self._finish(body, text, value)
            return _decoded((value, ()))
        except StopIteration as stop:
            return self._not_json(body, text, "no JSON value", cast("int", stop.value))
        except JSONDecodeError as error:
            return self._not_json(body, text, error.msg, error.pos)
        except _Refused as refused:
            return refused.fault
        except RecursionError:
            return Fault("too-deep", "limits", "nested deeper than the parser follows")
        finally:
            if self._doubled or self._notes:
                self._doubled, self._notes = [], []

    def _scan(self, body: bytes, text: str, start: int, many: bool) -> tuple[object, int]:
        plain = numbers_harmless(body)
        many = many or body.count(b"{", 0, LARGE) > 5
        keys = count_keys(body) if many and self._options.dup_keys == "reject" else -1
        if keys >= 0:
            self._kept()
            found = (self._counted_plain if plain else self._counted)(text, start)
            if self._kept() == keys:
                return found
            self._notes.clear()
        return (self._pairs_plain if plain else self._pairs)(text, start)

    def _finish(self, body: bytes, text: str, value: object) -> Decoded | Fault:
        """The rarer questions: half surrogates, line separators, doubled members, notes."""
        if self._doubled and (fault := self._doubled_envelope(value)):
            return fault
        escaped = self._options.surrogates == "reject" and b"\\" in body and _SURROGATE.search(body)
        if escaped and not _encodes(value):
            return Fault("lone-surrogate", "json", "an escape names half a surrogate pair: no such character")
        if not text.isascii() and any(separator in text for separator in _LINE_SEPARATORS):
            if self._options.line_seps == "reject":
                return Fault("line-separator", "json", _LINE_SEPARATOR.why)
            self._notes.append(_LINE_SEPARATOR)
        return Decoded(value, tuple(dict.fromkeys(self._notes)))

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

    def _unique(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise _Refused(_duplicate(pairs))
        return value

    def _collect(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self._doubled.append(value)
        return value

    def _doubled_envelope(self, value: object) -> Fault | None:
        messages = cast("list[object]", value) if isinstance(value, list) else [value]
        if any(message is double for message in messages for double in self._doubled):
            return Fault("duplicate-key", "json", "a member of the message is given twice")
        self._notes.append(Note("duplicate-key", "a member is given twice: readers differ on which one counts"))
        return None

    def _integer(self, digits: str) -> int:
        if len(digits) > 15:
            if len(digits.lstrip("-")) > self._options.max_digits:
                why = f"an integer of more than {self._options.max_digits} digits"
                raise _Refused(Fault("too-many-digits", "limits", why))
            try:
                value = int(digits)
            except ValueError:  # the interpreter's own limit, when max_digits is set above it
                raise _Refused(Fault("too-many-digits", "limits", "an integer longer than int() converts")) from None
            if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
                self._notes.append(_BIG_INTEGER)
            return value
        return int(digits)

    def _float(self, digits: str) -> float:
        value = float(digits)
        if value - value != 0 and self._options.overflow == "reject":
            raise _Refused(Fault("number-overflow", "json", "a number beyond the range of a double"))
        return value


def decode(body: bytes, options: Strictness = STRICT, framing: Framing = "ndjson") -> Decoded | Fault:
    """The one JSON value that ``body`` is, or why it is not. For many frames keep a :class:`Decoder`."""
    return Decoder(options, framing).decode(body)


_Scan: TypeAlias = Callable[[str, int], tuple[object, int]]


def _scanner(**hooks: Any) -> _Scan:
    return cast("_Scan", cast("Any", make_scanner)(JSONDecoder(parse_constant=_no_constant, **hooks)))


def _counter() -> tuple[Callable[[dict[str, object]], dict[str, object]], Callable[[], int]]:
    """An object hook that adds up members, and what gives the sum and starts again from nothing."""
    total = 0

    def count(value: dict[str, object]) -> dict[str, object]:
        nonlocal total
        total += len(value)
        return value

    def take() -> int:
        nonlocal total
        taken, total = total, 0
        return taken

    return count, take


def _no_constant(name: str) -> object:
    raise _Refused(Fault("not-a-number", "json", f"{name} is not JSON"))


def _duplicate(pairs: list[tuple[str, object]]) -> Fault:
    names = [name for name, _ in pairs]
    twice = next(name for position, name in enumerate(names) if name in names[:position])
    return Fault("duplicate-key", "json", f"the member {twice[:64]!r} is given twice in one object")


_unescaped = JSONEncoder(ensure_ascii=False, check_circular=False).encode
_dumps = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_json(value: object) -> bytes:
    """``value`` as compact JSON; what some readers take for a line end is escaped. Raises ValueError or TypeError."""
    text = _dumps(value)
    if not text.isascii():
        for separator, escape in _LINE_SEPARATORS.items():
            text = text.replace(separator, escape)
    return text.encode("utf-8")


def _encodes(value: object) -> bool:
    try:
        _unescaped(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
