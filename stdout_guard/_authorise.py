"""Ask the user's authoriser: only True, or a decision that says True, allows. Everything else denies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from stdout_guard._actions import Decision
from stdout_guard._outcomes import Wanted


@dataclass(frozen=True, slots=True)
class Call:
    """What an authoriser sees: the validated call, deep-frozen. The executor later gets this same ``arguments``."""

    name: str
    arguments: Mapping[str, Any]
    request_id: int | str
    revision: str
    client: tuple[str, str] | None


Authoriser: TypeAlias = Callable[[Call], "bool | Decision"]


def decide(authorise: Authoriser, wanted: Wanted) -> Decision:
    """The decision on one validated call; an authoriser that raises, or answers something else, denies."""
    call = Call(wanted.tool.name, wanted.arguments, wanted.request_id, wanted.revision, wanted.client)
    try:
        verdict: object = authorise(call)
    except Exception as error:
        return Decision(False, f"the authoriser raised {type(error).__name__}")
    if isinstance(verdict, Decision):
        return verdict if verdict.allowed is True else Decision(False, verdict.reason)
    if inspect.iscoroutine(verdict):
        verdict.close()
    return Decision(verdict is True, f"the authoriser answered {type(verdict).__name__}")
