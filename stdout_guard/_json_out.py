"""JSON for the wire: a value as the compact text of a frame, and whether it would come back the same. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from json import encoder
from json.encoder import JSONEncoder
from typing import Any, cast

from stdout_guard._strict_json import LINE_SEPARATORS

_compact = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LEAVES = frozenset((str, int, float, bool, type(None)))


def _encoder() -> Callable[[object], str]:
    """``encode`` of the compact encoder, which makes the C encoder anew for each call: a third of a small frame's time.

    What refers to itself is a RecursionError then; it has to be refused all the same.
    """
    chunks: Any = cast("Any", encoder).c_make_encoder
    if chunks is None:
        return _compact.encode
    quote, separators = encoder.encode_basestring, (_compact.key_separator, _compact.item_separator)
    chunks = chunks(None, _compact.default, quote, None, *separators, False, False, False)
    return lambda value: "".join(chunks(value, 0))


_dumps = _encoder()


def encode_json(value: object) -> bytes:
    """``value`` as compact JSON; what some readers take for a line end is escaped. Raises ValueError or TypeError."""
    text = _dumps(value)
    if not text.isascii():
        for separator, escape in LINE_SEPARATORS.items():
            text = text.replace(separator, escape)
    return text.encode()


def bad_name(value: object) -> str:
    """Why ``value``, which can be encoded, would not come back the same: a member name that is no string, or one given
    twice by strings that are not equal (members of a str enumeration); "" when it would."""
    held: list[Any] = [value]
    for item in held:
        if isinstance(item, dict):
            mapping: dict[object, object] = item  # pyright: ignore[reportUnknownVariableType]  # a cast is a call
            for name, child in mapping.items():
                if type(name) is not str and (why := _odd_names(mapping)):
                    return why
                if type(child) not in _LEAVES:
                    held.append(child)
        elif isinstance(item, list | tuple):
            held += [child for child in cast("list[object]", item) if type(child) not in _LEAVES]
    return ""


def _odd_names(mapping: dict[object, object]) -> str:
    names = {str.__str__(name) for name in mapping if isinstance(name, str)}
    if len(names) == len(mapping):
        return ""
    for name in mapping:
        if not isinstance(name, str):
            return f"the member name {name!r} is not a string"
    return "a member name is given twice"
