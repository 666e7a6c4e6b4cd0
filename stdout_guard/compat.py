"""The versioned compatibility boundary: which odd data of which client may be answered for a while, and never executed.

Do not accept odd data because some client sends it: have that client repaired, and until then record the rule here
with its version range and its expiry. An allowance keeps the session open after the refusal it names, so that the
client gets its error reply and goes on; the refused frame itself reaches no executor. No field could say otherwise.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Allowance:
    """One row: after a refusal with this reason code, from this client, the session stays open.

    ``rule``: the refusal's reason code. ``client``: its ``clientInfo.name``, exactly.
    ``since`` <= version < ``before``, dotted numbers. ``expires``: the first day on which the row no longer counts.
    ``ref``: where the client's defect is reported. Raises ValueError for a row that cannot be read.
    """

    rule: str
    client: str
    since: str
    before: str
    expires: datetime.date
    ref: str

    def __post_init__(self) -> None:
        for name in ("rule", "client", "ref"):
            if not getattr(self, name):
                raise ValueError(f"compatibility table: a row without {name}; every row says rule, client and ref")
        if version_key(self.since) is None or version_key(self.before) is None:
            raise ValueError(f"compatibility table: {self.rule} for {self.client}: versions are dotted numbers")
        if type(self.expires) is not datetime.date:
            raise ValueError(f"compatibility table: {self.rule} for {self.client}: expires is a date, as 2027-03-31")

    def covers(self, rule: str, client: tuple[str, str] | None, today: datetime.date) -> bool:
        """Whether this row applies; an unknown client or a version that is no dotted number is never covered."""
        if client is None or rule != self.rule or client[0] != self.client or today >= self.expires:
            return False
        since, version, before = version_key(self.since), version_key(client[1]), version_key(self.before)
        return since is not None and version is not None and before is not None and since <= version < before


def version_key(version: str) -> tuple[int, ...] | None:
    """A dotted number as a comparable tuple, trailing zeros dropped; None for anything else."""
    if len(version) > 64 or not _VERSION.fullmatch(version) or not version.isascii():
        return None
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def covering(
    table: Iterable[Allowance], rule: str, client: tuple[str, str] | None, today: datetime.date
) -> Allowance | None:
    """The first row that covers this refusal, or None."""
    return next((row for row in table if row.covers(rule, client, today)), None)


def parse(text: str) -> tuple[Allowance, ...]:
    """Read a TOML table: ``version = 1`` and one ``[[allow]]`` for each row, with the fields of `Allowance`.

    Raises ValueError for another version, an unknown field (``execute`` among them) or a missing one.
    """
    table = tomllib.loads(text)
    if table.get("version") != 1:
        raise ValueError("compatibility table: `version = 1` expected")
    known = {field.name for field in fields(Allowance)}
    rows = cast("list[Mapping[str, Any]]", table.get("allow", []))
    for row in rows:
        if set(row) != known:
            odd = sorted(set(row) ^ known)
            raise ValueError(f"compatibility table: row {dict(row)!r}: missing or unknown fields {odd}")
    return tuple(Allowance(**row) for row in rows)
