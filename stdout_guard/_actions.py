"""The only thing an executor takes: a frozen action that the boundary alone can issue, good for one execution.

Contract: `only_authorized` (or `claim`) is the last door before the outside world. It opens once for each action that
a `Boundary` issued in this process, and for nothing else: a dict, a copy, a pickle, a subclass or a look-alike is a
TypeError, because a door that takes a dict will one day be opened too early.
It stops accidents, not adversaries in the same process.
"""

from __future__ import annotations

import _thread
import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self, TypeVar, cast

from typing_extensions import override

from stdout_guard.errors import LocalProtocolError

T = TypeVar("T")

FRESH: Final = "fresh"
CLAIMED: Final = "claimed"
REVOKED: Final = "revoked"
_DOOR: Final = "__takes_only_authorized__"
_FIELDS: Final = ("name", "arguments", "decision", "request_id", "revision", "client", "serial")
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True)
class Decision:
    """What the authoriser decided. Only ``allowed is True`` lets a call pass; ``reason`` goes to the audit alone.

    ``grant`` is whatever the executor needs to know about the permission (the name of a credential, never its value).
    """

    allowed: bool
    reason: str = ""
    grant: object = field(default=None, repr=False)


class _Referable:
    """What a class of the same slots has before them: only then one may become the other."""

    __slots__ = ("__weakref__",)


class AuthorizedAction(_Referable):
    """One tool call that passed every stage. Read-only; made by `Boundary` alone; executable once.

    ``arguments`` is deep-frozen (mappings and tuples); `arguments_copy` gives plain dicts and lists.
    ``client`` is what the peer says of itself (name, version): for the log, never for a decision.
    """

    __slots__ = _FIELDS

    name: str
    arguments: Mapping[str, Any]
    decision: Decision
    request_id: int | str
    revision: str
    client: tuple[str, str] | None
    serial: int

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        raise TypeError("AuthorizedAction: only a Boundary makes one; feed it the client's bytes instead")

    def __init_subclass__(cls, **_kwargs: object) -> None:
        raise TypeError("AuthorizedAction: cannot be subclassed; wrap the executor instead")

    @override
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"AuthorizedAction.{name}: an authorised action is read-only")

    @override
    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"AuthorizedAction.{name}: an authorised action is read-only")

    def __copy__(self) -> NoReturn:
        raise TypeError("AuthorizedAction: a copy would run twice; pass the action itself")

    def __deepcopy__(self, _memo: object) -> NoReturn:
        raise TypeError("AuthorizedAction: a copy would run twice; pass the action itself")

    @override
    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("AuthorizedAction: cannot be pickled; its permission ends with this process")

    @override
    def __repr__(self) -> str:
        return f"<AuthorizedAction #{self.serial} {self.name!r}>"

    def arguments_copy(self) -> dict[str, Any]:
        """A plain, mutable copy of the arguments (dicts and lists), for the code that builds the real request."""
        return cast("dict[str, Any]", thaw(self.arguments))


# By weak reference, which hashes and compares as the action itself: by identity. An action that is gone is forgotten.
_states: dict[weakref.ref[AuthorizedAction], str] = {}
_states_lock = _thread.allocate_lock()
_gone: Callable[[weakref.ref[AuthorizedAction]], object] = _states.pop


class _Draft(_Referable):
    """An action until it is finished: the same slots, and they can be set."""

    __slots__ = _FIELDS


def issue(
    name: str,
    arguments: Mapping[str, Any],
    decision: Decision,
    request_id: int | str,
    revision: str,
    client: tuple[str, str] | None,
    serial: int,
) -> AuthorizedAction:
    """For `Boundary` only: make and register one action. ``arguments`` must be frozen already."""
    draft: Any = _Draft()
    draft.name = name
    draft.arguments = arguments
    draft.decision = decision
    draft.request_id = request_id
    draft.revision = revision
    draft.client = client
    draft.serial = serial
    draft.__class__ = AuthorizedAction  # read-only from here
    action: AuthorizedAction = draft
    _states[weakref.ref(action, _gone)] = FRESH
    return action


def claim(action: object) -> AuthorizedAction:
    """Take the one permission an action carries, right before it is executed.

    Raises TypeError for anything a `Boundary` did not issue, `LocalProtocolError` for a second execution or one that
    the client cancelled before it started.
    """
    if type(action) is not AuthorizedAction:
        kind = type(action).__name__
        raise TypeError(f"executor: takes an AuthorizedAction from Boundary.feed, not {kind}; nothing was executed")
    key = weakref.ref(action)
    with _states_lock:
        state = _states.get(key)
        if state == FRESH:
            _states[key] = CLAIMED
    if state is None:
        raise TypeError("executor: this AuthorizedAction was not issued by a Boundary; nothing was executed")
    if state != FRESH:
        why = "already executed" if state == CLAIMED else "cancelled by the client before it started"
        raise LocalProtocolError(f"executor: action {action.name!r} {why}; an action is executed at most once")
    return action


def revoke(action: AuthorizedAction) -> bool:
    """For `Boundary` only: a cancelled action that has not started never will. False: it had started already."""
    key = weakref.ref(action)
    with _states_lock:
        if _states.get(key) != FRESH:
            return False
        _states[key] = REVOKED
        return True


def only_authorized(
    execute: Callable[[AuthorizedAction], T],
) -> Callable[[AuthorizedAction], T]:
    """Wrap an executor (plain or ``async def``) so that it opens once for each issued action and for nothing else.

    Wrapping twice is wrapping once.
    """
    if getattr(execute, _DOOR, False) is True:  # a mock has every attribute
        return execute
    if inspect.iscoroutinefunction(execute):
        run = cast("Callable[[AuthorizedAction], Awaitable[Any]]", execute)

        @functools.wraps(execute)
        async def guarded_async(action: AuthorizedAction) -> Any:
            return await run(claim(action))

        setattr(guarded_async, _DOOR, True)
        return cast("Callable[[AuthorizedAction], T]", guarded_async)

    @functools.wraps(execute)
    def guarded(action: AuthorizedAction) -> T:
        return execute(claim(action))

    setattr(guarded, _DOOR, True)
    return guarded


def close_unawaited(verdict: object) -> None:
    """A coroutine that nobody is going to await: closed here, or its warning would come at any time later."""
    if inspect.iscoroutine(verdict):
        verdict.close()


def freeze(value: Any) -> Any:
    """A deep, read-only copy of a JSON value: dict to a mapping proxy over a private dict, list to tuple."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # a cast is a call
    if kind in _LEAVES:
        return value
    if kind is dict:
        return MappingProxyType({key: item if type(item) in _LEAVES else freeze(item) for key, item in value.items()})
    if kind is list or kind is tuple:
        return tuple([freeze(item) for item in value])
    if isinstance(value, Mapping):
        return freeze(dict(cast("Mapping[str, Any]", value)))
    return freeze(list(cast("list[Any]", value))) if isinstance(value, (list, tuple)) else value


def thaw(value: Any) -> Any:
    """The opposite of `freeze`: a deep, plain copy that nobody else holds."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {key: thaw(member) for key, member in members.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in cast("list[Any]", value)]
    return value
