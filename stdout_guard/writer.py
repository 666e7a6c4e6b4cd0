"""Whole frames, one at a time, from any thread, task or signal handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from . import jsonrpc
from .errors import LocalProtocolError
from .framing import FRAMINGS, Framing, encode


class BinaryWriter(Protocol):
    """What a frame is written to: one ``write`` puts all of it, or raises. ``Guard.wire`` is one."""

    def write(self, data: bytes, /) -> object:
        """Put all of ``data``."""
        ...

    def flush(self) -> object:
        """Let the client have it now."""
        ...


class FrameWriter:
    """Sends messages over ``wire`` (``Guard.wire``, or any binary stream) in one framing.

    framing: ``"ndjson"`` (MCP, ACP: a message a line) or ``"content-length"`` (LSP, DAP). protocol: ``"jsonrpc"``, or
    ``"dap"`` for the Debug Adapter Protocol's shapes. ``check=False`` trusts the str and bytes it is given to be valid
    messages; a raw line break in an ndjson frame is refused all the same, and a mapping is always checked.
    """

    def __init__(
        self,
        wire: BinaryWriter,
        framing: Framing = "ndjson",
        *,
        protocol: jsonrpc.Protocol = "jsonrpc",
        check: bool = True,
    ) -> None:
        for name, value, choices in (("framing", framing, FRAMINGS), ("protocol", protocol, ("jsonrpc", "dap"))):
            if value not in choices:
                raise ValueError(f"{name}: {value!r} is not one of {', '.join(choices)}")
        self.wire, self.check = wire, check
        self.framing: Framing = framing
        self.protocol: jsonrpc.Protocol = protocol

    def send(self, message: Mapping[str, object] | str | bytes) -> None:
        """Send one message: a mapping (encoded here), or the body of a frame as str or UTF-8 bytes.

        One line end after a str or bytes body is taken for the delimiter. Raises LocalProtocolError, with nothing
        written, when the message is not one whole valid frame; BrokenPipeError when the client is gone;
        GuardStateError when this process does not own the wire.
        """
        if type(message) is bytes or isinstance(message, bytes | str):
            body = _encoded(message) if isinstance(message, str) else message
            if body[-1:] == b"\n":
                body = body[:-1]
            if self.check:
                jsonrpc.check_outgoing(body, self.framing, self.protocol)
        elif isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            body = jsonrpc.dump_outgoing(message, self.protocol)
        else:
            raise LocalProtocolError(
                f"refused to send a {type(message).__name__}: a message is a mapping, or one frame as str or bytes"
            )
        wire = self.wire
        wire.write(encode(self.framing, body))
        wire.flush()


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"refused to send: not encodable as UTF-8: {error}") from error
