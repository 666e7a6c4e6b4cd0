"""What is measured and what it should come to: one row of the table each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests import environments

OURS = "stdout-guard"


@dataclass(frozen=True)
class Measured:
    """One contestant's figure in a row. ``value`` is in the row's unit; ``detail`` is for a reader."""

    contestant: str
    value: float
    detail: str = ""
    values: tuple[float, ...] = ()  # round by round, for the file that pyperf reads


@dataclass(frozen=True)
class Row:
    """``measure`` gives the figures, ours under OURS; ``at_most`` False means at least ``goal``.

    ``why``: what stands between us and the goal, and what was tried; shown where it is not met.
    """

    name: str
    what: str
    goal: float
    measure: Callable[[Run], Iterable[Measured]]
    at_most: bool = True
    unit: str = "x"
    profile: Callable[[Run], str] | None = None
    why: str = ""

    def met(self, value: float) -> bool:
        """Whether the goal is reached by a figure as it is printed, with two decimals."""
        return round(value, 2) <= self.goal if self.at_most else round(value, 2) >= self.goal


@dataclass(frozen=True)
class Run:
    """One run of the command: quick or long, and where its scratch files go."""

    quick: bool
    folder: Path

    def rounds(self, quick: int, full: int) -> int:
        """How often to alternate."""
        return quick if self.quick else full

    @functools.cache  # noqa: B019  # one Run a process
    def python(self, name: str) -> str:
        """The interpreter of a test environment of which the peers and the measuring code are part."""
        environments.RECIPES.setdefault("peers", environments.Recipe(("quietmcp==0.1.0", "wurlitzer==3.1.1")))
        return str(environments.python(name))

    @functools.cache  # noqa: B019
    def peers(self) -> str:
        """The folder to put on the import path where an SDK's environment lacks the peers."""
        (site,) = (Path(self.python("peers")).parent.parent / "lib").glob("python*/site-packages")
        return str(site)
