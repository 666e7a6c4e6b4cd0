"""What the boundary says back: bounded replies with fixed texts, never an echo of what was refused.

Codes: JSON-RPC 2.0 section 5.1; MCP 2026-07-28 basic (error codes); a denial is an application error, so its code lies
outside -32768..-32000. The id of an unreadable request is null through 2025-06-18 and omitted from 2025-11-25, whose
schema makes it optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from stdout_guard._actions import AuthorizedAction, thaw
from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import Framing, encode
from stdout_guard.jsonrpc import dump_outgoing

DENIED: Final = -31403
MODERN: Final = "2026-07-28"
IdUnknown: TypeAlias = Literal["auto", "null", "omit"]

_STAGE_CODES: Final = {
    "framing": -32700,
    "encoding": -32700,
    "json": -32700,
    "limits": -32600,
    "jsonrpc": -32600,
    "session": -32600,
    "method": -32601,
    "schema": -32602,
    "authorisation": DENIED,
}
_REASON_CODES: Final = {
    "duplicate-key": -32600,
    "params-not-object": -32602,
    "params-member": -32602,
    "meta": -32602,
    "unknown-tool": -32602,
    "unsupported-version": -32022,
    "internal-error": -32603,
}
_TEXTS: Final = {
    -32700: "parse error",
    -32600: "invalid request",
    -32601: "method not found",
    -32602: "invalid params",
    -32603: "internal error",
    -32022: "unsupported protocol version",
    DENIED: "not authorised",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole frame to write to the wire."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client takes back a released action. ``started`` False: the executor wrapper will refuse it from now on."""

    action: AuthorizedAction
    started: bool


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """Nothing more is taken from this peer. ``refused``: because of what it sent, not because it left."""

    reason: str
    refused: bool


Event: TypeAlias = Reply | AuthorizedAction | Cancelled | SessionClosed


def code_for(stage: str, reason: str) -> int:
    """The error code owed for a refusal."""
    return _REASON_CODES.get(reason, _STAGE_CODES[stage])


def error(code: int, request_id: object, *, data: object = None) -> dict[str, Any]:
    """An error message with a known id; its text is the code's own."""
    body: dict[str, Any] = {"code": code, "message": _TEXTS[code]}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def error_without_id(code: int, revision: str | None, choice: IdUnknown) -> dict[str, Any]:
    """An error whose request has no readable id: null, or no id at all where the revision's schema allows it."""
    message = error(code, None)
    omit = revision is not None and revision >= "2025-11-25" if choice == "auto" else choice == "omit"
    if omit:
        del message["id"]
    return message


def result(request_id: object, value: Mapping[str, Any], revision: str | None) -> dict[str, Any]:
    """A result message; from 2026-07-28 every result says that it is complete."""
    body = {"resultType": "complete", **value} if revision == MODERN else dict(value)
    return {"jsonrpc": "2.0", "id": request_id, "result": body}


def tool_result(value: object) -> dict[str, Any]:
    """What an executor returned, as the result of tools/call: text, or a mapping with ``content``.

    Raises LocalProtocolError for anything else: the client could not read it.
    """
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}]}
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        if isinstance(members.get("content"), (list, tuple)):
            return cast("dict[str, Any]", thaw(members))
    raise LocalProtocolError(
        f"complete: a tool's result is text or a mapping with a list `content`, not {_kind(value)}; nothing was sent"
    )


def _kind(value: Any) -> str:
    return type(value).__name__


def pack(message: dict[str, Any] | list[Any], framing: Framing) -> bytes:
    """One message or batch as a frame. Raises LocalProtocolError for what is not JSON, such as NaN or a set."""
    return encode(framing, dump_outgoing(message))
