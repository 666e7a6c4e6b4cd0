"""Cheap looks at a JSON text: what only reading all of it could find is looked for only when one of these finds cause.

Each works on the bytes with one of bytes' own C loops, because a Python loop would cost more than the parse.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
LARGE: Final = 1024  # bytes from which a look at the whole text pays


def numbers_harmless(body: bytes) -> bool:
    """True when the frame is full of digits, yet no number in it is long or large enough for the hooks to matter."""
    sample = body[::32].translate(_DIGITS)
    if sample.count(b"0") * 6 < len(sample):
        return False  # few numbers: the hooks cost less than reading every byte
    digits = body.translate(_DIGITS, b"+")
    return b"0" * 16 not in digits and b"e000" not in digits


def count_keys(body: bytes) -> int:
    """At least as many as there are keys in the text (values that start with a colon count too); -1: cannot say.

    A key's closing quote stands before its colon; space between the two, or an escaped quote before a colon inside a
    string, makes counting ``":`` worthless.
    """
    if b"\t" in body or b"\r" in body or b"\n" in body or b" :" in body or (b"\\" in body and b'\\":' in body):
        return -1
    return body.count(b'":')


def many_brackets(body: bytes, limit: int) -> bool:
    """Whether more than ``limit`` brackets open, strings included; in long text looking for each is faster."""
    if len(body) < 8 * LARGE:
        return body.count(b"{") + body.count(b"[") > limit
    count = 0
    for bracket in (b"{", b"["):
        at = body.find(bracket)
        while at >= 0:
            count += 1
            if count > limit:
                return True
            at = body.find(bracket, at + 1)
    return False


def structure(body: bytes) -> bytes:
    """The brackets of ``body`` that stand outside strings."""
    if b"\\" in body and b'\\"' in body:
        if b"\\\\" in body:
            body = body.replace(b"\\\\", b"")
        body = body.replace(b'\\"', b"")
    kept = body.translate(None, _STRUCTURE).replace(b'""', b"")
    if b'"' in kept:  # a string holds brackets: the pairs removed above need not have been opening and closing
        kept = b"".join(body.translate(None, _STRUCTURE).split(b'"')[::2])
    return kept


def _collapses(brackets: bytes, limit: int) -> bool:
    """Whether taking out matched neighbours a few times leaves nothing: cheap, and true of every ordinary frame."""
    for _ in range(min(limit, 16)):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not brackets:
            return True
    return False


def depth_within(body: bytes, limit: int) -> bool:
    """Whether the brackets outside strings are never more than ``limit`` deep."""
    brackets = structure(body)
    if _collapses(brackets, limit):
        return True
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) <= limit


def balanced(body: bytes) -> bool:
    """Whether as many brackets outside strings close as open."""
    brackets = structure(body)
    return brackets.count(b"[") == brackets.count(b"]") and brackets.count(b"{") == brackets.count(b"}")
