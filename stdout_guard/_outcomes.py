"""What judging one inbound message can come to, and the memory of used request ids: data, no rules of a protocol."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from typing_extensions import TypeIs

from stdout_guard._tools import Tool
from stdout_guard._tuples import maker

Phase: TypeAlias = Literal["new", "greeted", "ready", "modern"]
_REMEMBERED_IDS: Final = 65_536
#: ``Refused.data`` that asks for a tools/call result with ``isError`` in place of an error (MCP SEP-1303).
EXPLAINED: Final = "explained"


class Refused(NamedTuple):
    """Not taken. ``request_id`` is echoed when it is known; ``silent``: nobody may be answered.

    ``revision`` is the one the request was judged by, where the session has not taken it yet.
    ``gentle``: the request is well formed and this refusal is the protocol's own answer to it, so the session stays.
    """

    stage: str
    reason: str
    request_id: int | str | None = None
    id_type: str = "none"
    silent: bool = False
    gentle: bool = False
    tool: str | None = None
    data: object = None
    revision: str | None = None


class Answered(NamedTuple):
    """A request that needs no executor. ``client`` and ``phase`` take effect when it is accepted."""

    request_id: int | str
    result: Mapping[str, Any]
    phase: Phase | None = None
    revision: str | None = None
    client: tuple[str, str] | None = None


class Ignored(NamedTuple):
    """A notification: never answered. ``cancels`` is the id of the request it takes back."""

    phase: Phase | None = None
    cancels: int | str | None = None


class Wanted(NamedTuple):
    """A call that passed every stage but authorisation; ``arguments`` are deep-frozen."""

    request_id: int | str
    tool: Tool
    arguments: Mapping[str, Any]
    revision: str
    client: tuple[str, str] | None = None
    phase: Phase | None = None


make_wanted = maker(Wanted)

Outcome: TypeAlias = Refused | Answered | Ignored | Wanted


class IdMemory:
    """Which request ids were used: 7 and "7" are different ids. The newest 65,536 are remembered."""

    def __init__(self) -> None:
        self._used: OrderedDict[int | str | bytes, None] = OrderedDict()

    def __contains__(self, request_id: int | str) -> bool:
        return (request_id if type(request_id) is int else _id_key(request_id)) in self._used

    def add(self, request_id: int | str) -> None:
        """Remember one more; the oldest is forgotten when there are too many."""
        self._used[_id_key(request_id)] = None
        if len(self._used) > _REMEMBERED_IDS:
            self._used.popitem(last=False)


def _id_key(request_id: int | str) -> int | str | bytes:
    if isinstance(request_id, str) and len(request_id) > 64:
        return hashlib.sha256(request_id.encode("utf-8", "surrogatepass")).digest()
    return request_id


def id_type(value: object) -> str:
    """For the audit: integer, string or none."""
    return "integer" if type(value) is int else "string" if type(value) is str else "none"


def as_object(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if is_object(value) else {}


def is_object(value: object) -> TypeIs[dict[str, Any]]:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeIs[list[object]]:
    """Whether this is a JSON array."""
    return isinstance(value, list)
