"""Ask the user's authoriser: only True, or a decision that says True, allows. Everything else denies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from stdout_guard._actions import Decision, close_unawaited
from stdout_guard._outcomes import Wanted
from stdout_guard._tuples import maker


class Call(NamedTuple):
    """What an authoriser sees: the validated call, deep-frozen. The executor later gets this same ``arguments``."""

    name: str
    arguments: Mapping[str, Any]
    request_id: int | str
    revision: str
    client: tuple[str, str] | None


Authoriser: TypeAlias = Callable[[Call], "bool | Decision"]
_make_call = maker(Call)
_ALLOWED: Final = Decision(True, "the authoriser answered bool")


def decide(authorise: Authoriser, wanted: Wanted) -> Decision:
    """The decision on one validated call; an authoriser that raises, or answers something else, denies."""
    request_id, tool, arguments, revision, client, _phase = wanted
    try:
        verdict: object = authorise(_make_call((tool.name, arguments, request_id, revision, client)))
        if verdict is True:
            return _ALLOWED
        if issubclass(type(verdict), Decision):  # isinstance would believe a stand-in's own word for its class
            return _plain(cast("Decision", verdict))
    except Exception as error:
        return Decision(False, f"the authoriser raised {type(error).__name__}")
    close_unawaited(verdict)
    return Decision(False, f"the authoriser answered {type(verdict).__name__}")


def _plain(verdict: Decision) -> Decision:
    """The decision as it is now, whatever its own class makes of these names later."""
    if type(verdict) is Decision and type(verdict.reason) is str and verdict.allowed is True:
        return verdict
    allowed = verdict.allowed is True
    return Decision(allowed, str(verdict.reason), verdict.grant if allowed else None)
