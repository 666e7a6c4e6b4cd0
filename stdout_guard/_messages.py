"""The JSON-RPC and DAP shapes: one JSON value to a message, or the fault why it is none. No I/O.

Sources: JSON-RPC 2.0 sections 4 to 6, LSP 3.17 base protocol, DAP overview.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, cast

from stdout_guard._strictness import SAFE_INTEGER, STRICT, Fault, Note, Strictness
from stdout_guard._tuples import maker

RequestId: TypeAlias = int | str | None
Kind: TypeAlias = Literal["request", "notification", "response", "error"]
Protocol: TypeAlias = Literal["jsonrpc", "dap"]


class Message(NamedTuple):
    """A JSON-RPC message. ``id`` is meaningful only when ``has_id``; ``params`` is None when absent."""

    kind: Kind
    value: dict[str, object]
    has_id: bool
    id: RequestId
    method: str
    params: dict[str, object] | list[object] | None
    notes: tuple[Note, ...] = ()


_message = maker(Message)

_REQUEST_KEYS = frozenset(("jsonrpc", "id", "method", "params"))
_RESULT_KEYS = frozenset(("jsonrpc", "id", "result"))
_ERROR_KEYS = frozenset(("jsonrpc", "id", "error"))
_ERROR_OBJECT_KEYS = frozenset(("code", "message", "data"))
_JSON_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "fraction",
}
_ID_TYPES = (int, str)
_UNREADABLE = (-32700, -32600)  # the codes of an answer to something whose id could not be read
_BIG_ID = Note("big-id", "an id beyond 2^53-1 cannot be echoed by JavaScript peers")
_NULL_ID = Note("null-error-id", "an error with id null: some clients drop it")


class Envelope(NamedTuple):
    """Where the protocols on top of JSON-RPC differ about the envelope."""

    error_id_optional: bool = False  # MCP from 2025-11-25: an error whose request could not be read has no id
    error_id_null: Literal["unreadable", "any"] = "unreadable"  # LSP: any error may have a null id


JSONRPC: Final = Envelope()


def classify(value: object, options: Strictness = STRICT, envelope: Envelope = JSONRPC) -> Message | Fault:
    """Which JSON-RPC message one value is, or why it is none. A batch is not one value: classify its members.

    Checked: the exact version, member names, the id's type, method and params types, result xor error, the error
    object. Not checked: whether the method exists or may be used in this direction.
    """
    if not isinstance(value, dict):
        return _fault("not-an-object", f"a JSON {_json_type(value)} is not a message")
    message: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]  # a cast is a call
    if message.get("jsonrpc") != "2.0":
        return _fault("version", 'the member jsonrpc must be exactly "2.0"')
    if "method" in message:
        return _call(message, options)
    if "result" in message:
        return _result(message, options)
    if "error" in message:
        return _error(message, options, envelope)
    return _fault("no-shape", "none of method, result and error is there")


def classify_batch(members: list[object], options: Strictness, envelope: Envelope) -> list[Message] | Fault:
    """The messages of an array, or the first fault in it; that it holds other things comes before all else."""
    if not all(isinstance(member, dict) for member in members):
        return _fault("not-an-object", "an array that holds other things than messages")
    messages: list[Message] = []
    for member in members:
        message = classify(member, options, envelope)
        if isinstance(message, Fault):
            return message
        messages.append(message)
    return messages


def _call(message: dict[str, object], options: Strictness) -> Message | Fault:
    has_id, has_params = "id" in message, "params" in message
    if len(message) != 2 + has_id + has_params and (fault := _extra(message, _REQUEST_KEYS, options)):
        return fault
    method, params = message["method"], message.get("params")
    if not method or not isinstance(method, str):
        return _fault("method", "method must be a string that is not empty")
    if has_params and params.__class__ is not dict and not isinstance(params, dict | list):
        return _fault("params", "params must be an object or an array, or be left out")
    if not has_id:
        return _message(("notification", message, False, None, method, params, ()))
    identity = message["id"]
    if not _is_id(identity):
        return _fault("id", f"a request's id must be a string or an integer, not {_json_type(identity)}")
    return _message(("request", message, True, identity, method, params, _id_notes(identity)))


def _result(message: dict[str, object], options: Strictness) -> Message | Fault:
    identity = message.get("id")
    if len(message) != 3 or "id" not in message:
        if "error" in message:
            return _fault("result-and-error", "both result and error are there")
        if not message.keys() <= _RESULT_KEYS and (fault := _extra(message, _RESULT_KEYS, options)):
            return fault
    if type(identity) is int:
        return _message(("response", message, True, identity, "", None, _id_notes(identity)))
    if type(identity) is str:
        return _message(("response", message, True, identity, "", None, ()))
    return _fault("id", "a result must carry the string or integer id of its request")


def _error(message: dict[str, object], options: Strictness, envelope: Envelope) -> Message | Fault:
    if not message.keys() <= _ERROR_KEYS and (fault := _extra(message, _ERROR_KEYS, options)):
        return fault
    error = message["error"]
    if not isinstance(error, dict):
        return _fault("error-object", "error must be an object")
    body = cast("dict[str, object]", error)
    code = body.get("code")
    if type(code) is not int:
        return _fault("error-code", "error.code must be an integer")
    if not isinstance(body.get("message"), str):
        return _fault("error-message", "error.message must be a string")
    if not body.keys() <= _ERROR_OBJECT_KEYS and options.extra == "reject":
        return _fault("extra-member", "error holds a member that is not code, message or data")
    identity = message.get("id")
    if _is_id(identity):
        return Message("error", message, True, cast("RequestId", identity), "", None, _id_notes(identity))
    if "id" not in message:
        if envelope.error_id_optional:
            return Message("error", message, False, None, "", None)
        return _fault("id", "an error must carry an id (null when the request's could not be read)")
    if identity is None and (envelope.error_id_null == "any" or code in _UNREADABLE):
        return Message("error", message, True, None, "", None, (_NULL_ID,))
    if identity is None:
        return _fault("null-id", "an error has a null id only when the request's id could not be read")
    return _fault("id", f"an error's id must be its request's, not {_json_type(identity)}")


def _extra(message: dict[str, object], allowed: frozenset[str], options: Strictness) -> Fault | None:
    if "method" in message and ("result" in message or "error" in message):
        return _fault("hybrid", "both a call and an answer")
    if options.extra == "allow":
        return None
    name = next(name for name in message if name not in allowed)
    return _fault("extra-member", f"the message has a member {name[:64]!r}: some clients drop such a message")


def _fault(code: str, why: str) -> Fault:
    return Fault(code, "jsonrpc", why)


def _is_id(value: object) -> bool:
    return type(value) in _ID_TYPES


def _id_notes(value: object) -> tuple[Note, ...]:
    return (_BIG_ID,) if type(value) is int and not -SAFE_INTEGER <= value <= SAFE_INTEGER else ()


def _json_type(value: object) -> str:
    return _JSON_TYPES.get(type(value), "null")


# ------------------------------------------------------------------------------------------------------------------ DAP

_DAP_KINDS: Final = {
    "request": (("command", str),),
    "event": (("event", str),),
    "response": (("request_seq", int), ("success", bool), ("command", str)),
}


def classify_dap(value: object) -> Fault | None:
    """None when ``value`` is a Debug Adapter Protocol message (``seq``, ``type`` and what that type requires)."""
    if not isinstance(value, dict):
        return _fault("not-an-object", f"a JSON {_json_type(value)} is not a message")
    message = cast("dict[str, object]", value)
    if type(message.get("seq")) is not int:
        return _fault("dap-seq", "seq must be an integer")
    kind = message.get("type")
    required = _DAP_KINDS.get(kind) if isinstance(kind, str) else None
    if required is None:
        return _fault("dap-type", f"type must be one of {', '.join(_DAP_KINDS)}")
    for name, wanted in required:
        if type(message.get(name)) is not wanted:
            return _fault("dap-member", f"a {kind} must have {name} ({wanted.__name__})")
    return None
