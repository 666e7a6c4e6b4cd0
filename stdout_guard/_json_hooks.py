"""What the JSON scanner asks of us: each object, number and constant of a text, under one set of options. No I/O.

A scanner keeps the hooks alive that it calls, never the reverse: whoever keeps both is no reference cycle, and goes
when it is let go, however rarely the collector runs.
"""

from __future__ import annotations

from collections.abc import Callable
from json.decoder import JSONDecoder
from json.scanner import make_scanner
from types import CellType, SimpleNamespace
from typing import Any, TypeAlias, cast

from stdout_guard._strictness import SAFE_INTEGER, Fault, Note, Strictness

Scan: TypeAlias = Callable[[str, int], tuple[object, int]]
_BIG_INTEGER = Note("big-integer", "an integer beyond 2^53 loses digits in JavaScript readers")


class Refused(Exception):
    """Carries a fault out of the scanner."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


class Hooks:
    """The hooks of one decoder, and what they have seen: notes, objects with a member given twice, members kept."""

    def __init__(self, options: Strictness) -> None:
        self._options = options
        self._unique_names = options.dup_keys == "reject"
        self.notes: list[Note] = []
        self.doubled: list[dict[str, object]] = []
        self._count, self.kept = _counter()

    def scanner(self, counted: bool, numbers: int) -> Scan:
        """One that adds up members or hands over pairs, and asks about as many kinds of number as number_hooks says.

        The C scanner needs these names of a decoder, and a decoder would make a scanner of its own.
        """
        asked: dict[str, Any] = {"parse_int": self._integer} if numbers else {}
        if numbers > 1:
            asked["parse_float"] = self._float
        if counted:
            asked["object_hook"] = self._count
        else:
            asked["object_pairs_hook"] = self._unique if self._unique_names else self._collect
        make: Any = make_scanner
        if make.__module__ != "_json":
            return make(JSONDecoder(parse_constant=_no_constant, **asked))  # type: ignore[no-any-return]
        plain = {"parse_int": int, "parse_float": float, "object_hook": None, "object_pairs_hook": None}
        settings = SimpleNamespace(strict=True, parse_constant=_no_constant, **plain | asked)
        return make(settings)  # type: ignore[no-any-return]

    def _unique(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise Refused(_duplicate(pairs))
        return value

    def _collect(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.doubled.append(value)
        return value

    def _integer(self, digits: str) -> int:
        if len(digits) > 15:
            if len(digits.lstrip("-")) > self._options.max_digits:
                why = f"an integer of more than {self._options.max_digits} digits"
                raise Refused(Fault("too-many-digits", "limits", why))
            try:
                value = int(digits)
            except ValueError:  # the interpreter's own limit, when max_digits is set above it
                raise Refused(Fault("too-many-digits", "limits", "an integer longer than int() converts")) from None
            if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
                self.notes.append(_BIG_INTEGER)
            return value
        return int(digits)

    def _float(self, digits: str) -> float:
        value = float(digits)
        if value - value != 0 and self._options.overflow == "reject":
            raise Refused(Fault("number-overflow", "json", "a number beyond the range of a double"))
        return value


def _counter() -> tuple[Callable[[dict[str, object]], dict[str, object]], CellType]:
    """An object hook that adds up members, and where the sum is."""
    total = 0

    def count(value: dict[str, object]) -> dict[str, object]:
        nonlocal total
        total += len(value)
        return value

    return count, cast("tuple[CellType]", count.__closure__)[0]


def _no_constant(name: str) -> object:
    raise Refused(Fault("not-a-number", "json", f"{name} is not JSON"))


def _duplicate(pairs: list[tuple[str, object]]) -> Fault:
    seen, name = set[str](), ""
    for name, _ in pairs:
        if name in seen:
            break
        seen.add(name)
    return Fault("duplicate-key", "json", f"the member {name[:64]!r} is given twice in one object")
