"""Cheap looks at a JSON text: what only reading all of it could find is looked for only when one of these finds cause.

Each works on the bytes with one of bytes' own C loops, because a Python loop would cost more than the parse.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 16  # an integer that some readers cannot hold
_HUGE = b"0" * 203  # fewer, and an exponent of two digits, stay within a double
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'"[]{},:')
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_ESCAPES = re.compile(rb'\\(?=["\\])')  # a look-ahead keeps the search a memchr for the backslash
_BACKSLASH, _QUOTE = b'\\"'  # numbers: looking for b"x" costs bytes an exception inside, five times the search
LARGE: Final = 1024  # bytes from which a look at the whole text pays, if it holds many objects
LONG: Final = 4096  # and if it does not


def number_hooks(body: bytes) -> int:
    """Which numbers the hooks must see: 2 all of them, 1 integers (fractions are harmless), 0 none."""
    sample = body[::31].translate(_DIGITS)  # an odd step: rows are often of even length
    if sample.count(b"0") * 40 < len(sample) or sample.count(b",") * 24 < len(sample):
        return 2  # few numbers: the hooks cost less than reading every byte
    digits = body.translate(_DIGITS, b"+")
    if digits.find(b"0e000") >= 0 or (digits[::7].find(_HUGE[::7]) >= 0 and digits.find(_HUGE) >= 0):
        return 2
    if sample.count(b".") * 2 > sample.count(b","):
        return 1  # fractions: there are few integers, and looking for a long one among so many digits takes long
    return int(digits.find(_LONG) >= 0)


def count_keys(text: str) -> int:
    """At least as many as there are keys in the text (values that start with a colon count too); -1: cannot say.

    A key's closing quote stands before its colon; space between the two makes counting ``":`` worthless.
    """
    if "\t" in text or "\r" in text or "\n" in text or " :" in text:
        return -1
    return text.count('":')


def many_objects(body: bytes) -> bool:
    """Whether this is data rather than a long text, from the head of it."""
    return body.count(b"{", 0, LARGE) > 5


def many_brackets(body: bytes, limit: int, kinds: tuple[bytes, ...] = (b"{", b"[")) -> bool:
    """Whether more than ``limit`` brackets open, strings included; few are found one by one faster than counted."""
    for bracket in kinds:
        at = body.find(bracket)
        while at >= 0 and limit >= 0:
            limit -= 1
            at = body.find(bracket, at + 1)
    return limit < 0


def keys_and_depth(body: bytes, limit: int) -> tuple[int, bool]:
    """How many keys a JSON text has, and whether it may be more than ``limit`` deep. Of what is no JSON: anything."""
    kept = _kept(body)
    shorter = kept.replace(b'""', b"")  # between two strings of JSON stands a comma or colon: these pairs are strings
    if _QUOTE in shorter:
        shorter = b"".join(shorter.split(b'"')[::2])
    deep = shorter.count(b"{") + shorter.count(b"[") > limit and not _collapses(shorter.translate(None, b":,"), limit)
    return shorter.count(b":"), deep


def _kept(body: bytes) -> bytes:
    """Quotes, and what may be structure."""
    if _BACKSLASH in body and _ESCAPES.search(body):
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return body.translate(None, _NOT_STRUCTURE)


def _brackets(body: bytes) -> bytes:
    """The brackets of ``body`` that stand outside strings, whatever it is."""
    return b"".join(_kept(body).split(b'"')[::2]).translate(None, b":,")


def _collapses(brackets: bytes, limit: int) -> bool:
    """Whether taking out matched neighbours a few times leaves nothing: cheap, and true of every ordinary frame."""
    for _ in range(min(limit, 16)):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not brackets:
            return True
    return False


def depth_within(body: bytes, limit: int) -> bool:
    """Whether the brackets outside strings are never more than ``limit`` deep."""
    brackets = _brackets(body)
    if _collapses(brackets, limit):
        return True
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) <= limit


def balanced(body: bytes) -> bool:
    """Whether as many brackets outside strings close as open."""
    brackets = _brackets(body)
    return brackets.count(b"[") == brackets.count(b"]") and brackets.count(b"{") == brackets.count(b"}")
