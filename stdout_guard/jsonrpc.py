"""The JSON-RPC shapes, and the check of what we send ourselves. No I/O.

A peer's fault is a value (:class:`Fault`); only our own outgoing frames raise. Strict JSON (:class:`Decoder`,
:func:`decode`, :class:`Strictness`) and the shapes (:func:`classify`) are re-exported from here.
"""

from __future__ import annotations

from _thread import _local
from collections.abc import Mapping
from typing import cast

from stdout_guard._json_out import bad_name, encode_json
from stdout_guard._messages import (
    JSONRPC,
    Envelope,
    Kind,
    Message,
    Protocol,
    RequestId,
    classify,
    classify_batch,
    classify_dap,
)
from stdout_guard._strict_json import Decoded, Decoder, decode
from stdout_guard._strictness import STRICT, Fault, Note, Strictness
from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import FRAMINGS, Framing

__all__ = [
    "JSONRPC",
    "STRICT",
    "Decoded",
    "Decoder",
    "Envelope",
    "Fault",
    "Kind",
    "Message",
    "Note",
    "Protocol",
    "RequestId",
    "Strictness",
    "check_outgoing",
    "classify",
    "classify_batch",
    "classify_dap",
    "decode",
    "dump_outgoing",
]

_ID_TYPES = (int, str)
_LF, _CR = b"\n\r"


class _Outgoing(_local):
    """Decoders of this thread: frames are sent from any, and a decoder counts as it goes."""

    def __init__(self) -> None:
        self.decoders: dict[Framing, Decoder] = {name: Decoder(STRICT, name) for name in FRAMINGS}


_outgoing = _Outgoing()
_OUTGOING_ENVELOPE = Envelope(error_id_optional=True, error_id_null="any")


def check_outgoing(body: bytes, framing: Framing = "ndjson", protocol: Protocol = "jsonrpc") -> None:
    """Raise LocalProtocolError unless ``body`` (no newline after it) is one whole message, or a batch of them."""
    if framing == "ndjson" and (_LF in body or _CR in body):
        raise LocalProtocolError("refused to send: a raw line break tears the frame; write it as \\n inside a string")
    decoded = _outgoing.decoders[framing].decode(body)
    if isinstance(decoded, Fault):
        fault: Fault | None = decoded
    elif protocol == "jsonrpc" and _is_answer(decoded[0]):
        return
    else:
        fault = _outgoing_fault(decoded[0], protocol)
    if fault is not None:
        raise LocalProtocolError(f"refused to send: {fault.why} ({fault.stage}: {fault.code}): {body[:80]!r}")


def _is_answer(value: object) -> bool:
    """True for most of what a server sends; says of it what :func:`classify` would, sooner."""
    if value.__class__ is not dict:
        return False
    message: dict[str, object] = value  # pyright: ignore[reportAssignmentType]
    return (
        len(message) == 3
        and "result" in message
        and message.get("jsonrpc") == "2.0"
        and type(message.get("id")) in _ID_TYPES
    )


def dump_outgoing(message: Mapping[str, object] | list[object], protocol: Protocol = "jsonrpc") -> bytes:
    """One message (or batch) as the compact JSON body of a frame, U+2028 and its kin escaped.

    Raises LocalProtocolError when it is no message, or holds what JSON cannot say (NaN, a set, a lone surrogate, a
    member name that is not a string).
    """
    value = message if isinstance(message, dict | list) else dict(message)
    answer = protocol == "jsonrpc" and _is_answer(value)
    if not answer and (fault := _outgoing_fault(value, protocol)):
        raise LocalProtocolError(f"refused to send: {fault.why} ({fault.stage}: {fault.code})")
    try:
        body = encode_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"refused to send: not representable in JSON: {error}") from error
    if why := bad_name(cast("dict[str, object]", value)["result"] if answer else value):
        raise LocalProtocolError(f"refused to send: not representable in JSON: {why}")
    return body


def _outgoing_fault(value: object, protocol: Protocol) -> Fault | None:
    if protocol == "dap":
        return classify_dap(value)
    members: list[object] = [value]
    if isinstance(value, list) and value:
        members = cast("list[object]", value)
    for member in members:
        found = classify(member, STRICT, _OUTGOING_ENVELOPE)
        if isinstance(found, Fault):
            return found
    return None
