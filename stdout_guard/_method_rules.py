"""Whether a message may be sent in this direction under this revision: method, params, result, error. No I/O.

The ordinary message is looked up in one row and waved through; the longer way, in the order in which faults are named,
is taken for whatever that row does not settle.

Sources: modelcontextprotocol schema/<revision>/schema.json and docs/specification/<revision>/basic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from stdout_guard._mcp_methods import LEVELS, NEEDS_PARAMS, Members
from stdout_guard._mcp_revisions import DIRECTIONS, MCP_REVISIONS, Direction, Revision
from stdout_guard._messages import Message
from stdout_guard._meta_keys import bad_key, reserved_keys
from stdout_guard._strictness import Fault, Note, Strictness

_TYPES: dict[str, tuple[type, ...]] = {  # exact types: bool is no integer here
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "id": (str, int),
    "level": (str,),
    "any": (dict, list, str, int, float, bool, type(None)),
}


class _Row(NamedTuple):
    """A method's params at a glance: the types that settle a member at once, and the members that must be there."""

    types: dict[str, tuple[type, ...]]
    required: frozenset[str]


def _row(members: Members, has_meta: bool) -> _Row:
    types = {name.rstrip("?"): () if kind == "level" else _TYPES[kind] for name, kind in members.items()}
    required = [name for name in members if not name.endswith("?")]
    return _Row(types | {"_meta": ()}, frozenset((*required, "_meta") if has_meta else required))


def _rows(revision: Revision, direction: Direction) -> dict[str, dict[str, _Row]]:
    requests, notifications = revision.requests[direction], revision.notifications[direction]
    names_itself = revision.result_type and direction == "client-to-server"
    return {
        "request": {method: _row(members, names_itself) for method, members in requests.items()},
        "notification": {m: _row(members, False) for m, members in notifications.items() if m not in NEEDS_PARAMS},
    }


_ROWS: Mapping[Direction, Mapping[str, dict[str, dict[str, _Row]]]] = {
    direction: {name: _rows(revision, direction) for name, revision in MCP_REVISIONS.items()}
    for direction in DIRECTIONS
}
_NONE: dict[str, object] = {}


def check_message(
    message: Message, revision: Revision, direction: Direction, options: Strictness, notes: list[Note]
) -> Fault | None:
    """None when ``message`` may be sent in this direction under this revision; else why not (stage ``method``)."""
    if not revision.mcp:
        if message.method.startswith("rpc."):
            notes.append(Note("reserved-method", "method names that begin with rpc. are reserved"))
        return None
    kind, _, _, _, method, params, _ = message
    if kind == "response":
        return _check_result(message, revision, direction, notes)
    if kind == "error":
        return _check_error(message, revision, direction)
    row = _ROWS[direction][revision.name][kind].get(method)
    if row is not None and (params is None or params.__class__ is dict):
        types, required = row
        given: dict[str, object] = params or _NONE  # pyright: ignore[reportAssignmentType]  # a cast is a call
        for name, value in given.items():
            if name in types and value.__class__ not in types[name]:
                break
        else:
            if required <= given.keys():
                return None
    return _check_call(message, revision, direction, options, notes)


def check_batch(messages: Iterable[Message], revision: Revision) -> Fault | None:
    """Whether these messages may share one array."""
    if not revision.batches:
        return Fault("batch", "method" if revision.mcp else "jsonrpc", f"{revision.name} has no batches")
    if not revision.mcp:
        return None
    calls = [message.kind in ("request", "notification") for message in messages]
    if any(calls) and not all(calls):
        return _fault("mixed-batch", "a batch holds calls or answers, not both")
    if any(message.method == "initialize" for message in messages):
        return _fault("initialize-in-batch", "initialize must not be part of a batch")
    return None


def _check_call(
    message: Message, revision: Revision, direction: Direction, options: Strictness, notes: list[Note]
) -> Fault | None:
    members = _find(message, revision, direction)
    if isinstance(members, Fault):
        return _unknown(members, message, direction, options, notes)
    if isinstance(message.params, list):
        return _fault("params-not-object", "params must be an object, not an array")
    if message.params is None and message.method in NEEDS_PARAMS:
        return _fault("params-member", f"{message.method} needs params")
    params = message.params or {}
    fault = _check_members(params, members, message.method, "params")
    return fault or _check_meta(message.kind, params, revision, notes)


def _find(message: Message, revision: Revision, direction: Direction) -> Members | Fault:
    """The members that the method's params have, or why it may not be called."""
    method, is_request = message.method, message.kind == "request"
    requests, notifications = revision.requests[direction], revision.notifications[direction]
    if is_request and not requests:
        return _fault("wrong-direction", f"under {revision.name} a {_sender(direction)} sends no requests")
    if method in (requests if is_request else notifications):
        return (requests if is_request else notifications)[method]
    if method in requests:
        return _fault("no-id", f"{method} is a request: without an id nobody can be told the outcome")
    if method in notifications:
        return _fault("notification-with-id", f"{method} is a notification: it must not have an id")
    opposite: Direction = DIRECTIONS[1 - DIRECTIONS.index(direction)]
    here = any(_knows(other, direction, method) for other in _ALL)
    if _knows(revision, opposite, method) or (not here and any(_knows(r, opposite, method) for r in _ALL)):
        return _fault("wrong-direction", f"{method} is never sent by a {_sender(direction)}")
    if here:
        return _fault("not-in-revision", f"{revision.name} has no {method}")
    return _fault("unknown-method", f"unknown method {method[:64]!r}")


_ALL = tuple(MCP_REVISIONS.values())


def _knows(revision: Revision, direction: Direction, method: str) -> bool:
    return method in revision.requests[direction] or method in revision.notifications[direction]


def _unknown(
    fault: Fault, message: Message, direction: Direction, options: Strictness, notes: list[Note]
) -> Fault | None:
    """Unknown methods are a fault, but for a server's notification under the common prefix: receivers ignore it."""
    if fault.code not in ("unknown-method", "not-in-revision"):
        return fault
    vendor = message.kind == "notification" and message.method.startswith("notifications/")
    lenient = vendor and direction == "server-to-client" and options.unknown_methods == "default"
    if not (lenient or options.unknown_methods == "note"):
        return fault
    notes.append(Note(fault.code, fault.why))
    return None


def _check_members(given: dict[str, object], members: Members, who: str, where: str) -> Fault | None:
    for row, kind in members.items():
        name = row.rstrip("?")
        place = f"{where}.{name}" if where == "params" else f"{where}[{name!r}]"
        if name not in given:
            if name == row:
                return _fault(f"{where}-member", f"{who} needs {place}")
        elif type(given[name]) not in _TYPES[kind] or (kind == "level" and given[name] not in LEVELS):
            return _fault(f"{where}-member", f"{who}: {place} must be of type {kind}")
    return None


def _check_meta(kind: str, holder: dict[str, object], revision: Revision, notes: list[Note]) -> Fault | None:
    """``_meta`` of params or of a result: an object, its known members, and the form of its keys."""
    meta = holder.get("_meta", _NONE)
    if not isinstance(meta, dict):
        return _fault("meta", "_meta must be an object")
    fields = cast("dict[str, object]", meta)
    if fault := _check_members(fields, revision.meta[kind], f"a {kind} under {revision.name}", "_meta"):
        return fault._replace(code="meta")
    if not (revision.meta_grammar and fields):
        return None
    if (key := bad_key(fields)) is not None:
        return _fault("meta-key", f"{key[:64]!r} is no key of _meta: prefix/name, each of letters, digits and - _ .")
    reserved_keys(fields, notes)
    return None


def _check_result(message: Message, revision: Revision, direction: Direction, notes: list[Note]) -> Fault | None:
    if direction == "client-to-server" and not revision.client_responses:
        return _fault("wrong-direction", f"under {revision.name} a client sends no responses")
    result = message.value["result"]
    if not isinstance(result, dict):
        return _fault("result-not-object", "result must be an object")
    members = cast("dict[str, object]", result)
    if "_meta" in members and (fault := _check_meta("response", members, revision, notes)):
        return fault
    if not revision.result_type:
        return None
    if not isinstance(members.get("resultType"), str):
        return _fault("result-type", f"under {revision.name} every result has a string resultType")
    if members["resultType"] == "input_required" and not members.keys() & {"inputRequests", "requestState"}:
        return _fault("result-type", "input_required needs inputRequests or requestState")
    return None


def _check_error(message: Message, revision: Revision, direction: Direction) -> Fault | None:
    if direction == "client-to-server" and not revision.client_responses:
        return _fault("wrong-direction", f"under {revision.name} a client sends no responses")
    code = cast("int", cast("dict[str, object]", message.value["error"])["code"])
    if code in revision.forbidden_codes:
        return _fault("error-code-retired", f"error code {code} must not be used under {revision.name}")
    if revision.spec_codes is not None and -32099 <= code <= -32020 and code not in revision.spec_codes:
        return _fault("error-code-reserved", f"error code {code} is reserved by {revision.name} and not defined")
    return None


def _sender(direction: Direction) -> str:
    return "server" if direction == "server-to-client" else "client"


def _fault(code: str, why: str) -> Fault:
    return Fault(code, "method", why)
