"""Which revisions a message may be judged by: the one that is given, or what the transcript has not yet ruled out.

Rules (auto): the framing and how the client opened decide first; then what initialize negotiates, or that a request
names its revision itself. An answer is judged as its request asked. Until it is known, every revision is possible.

Source: MCP basic/lifecycle (version negotiation), 2026-07-28 basic (``_meta`` of requests).
"""

from __future__ import annotations

from typing import Final, cast

from stdout_guard import revisions as rev
from stdout_guard._sent import mapping
from stdout_guard._session import Session
from stdout_guard.framing import Framing
from stdout_guard.jsonrpc import Envelope, Message
from stdout_guard.revisions import Direction, Revision

_LEGACY: Final = tuple(r for r in reversed(rev.MCP_REVISIONS.values()) if not r.result_type)


class Eras:
    """The possible revisions, narrowed down as the transcript is read."""

    def __init__(self, framing: Framing, direction: Direction, fixed: Revision | None, session: Session | None) -> None:
        self._session = session
        self._to_client = direction == "server-to-client"
        self.auto = fixed is None
        self.by_message = self.auto and not (session is None and self._to_client)  # candidates() has more to say
        self.current: tuple[Revision, ...] = ()
        self.envelope = Envelope()
        self._settle(*((fixed,) if fixed else _opening(framing, session)))

    def _settle(self, *revisions: Revision) -> None:
        self.current = revisions
        self.envelope = Envelope(
            any(r.envelope.error_id_optional for r in revisions),
            "any" if any(r.envelope.error_id_null == "any" for r in revisions) else "unreadable",
        )

    @property
    def name(self) -> str:
        """The revision there is no doubt about, or ``auto``."""
        return self.current[0].name if len(self.current) == 1 else "auto"

    def candidates(self, message: Message) -> tuple[Revision, ...]:
        """The revisions that may allow this message, the likeliest first."""
        current = self.current
        if not current[0].mcp:
            return current
        if self._session is not None and message.kind in ("response", "error"):
            request = self._session.request_of(message)
            if request is not None and request.modern is not None:
                return (request.modern,) if message.kind == "response" else (*current, request.modern)
            if request is not None and (legacy := tuple(r for r in current if not r.result_type)):
                return legacy
        if not self._to_client and _names_revision(message):
            return (rev.MCP_2026_07_28,)
        return current

    def is_dap(self, value: object) -> bool:
        """Whether a body is the Debug Adapter Protocol's; the first one that can be no LSP settles it."""
        members = mapping(value)
        if self.auto and self.current[0] is rev.LSP and "jsonrpc" not in members and {"seq", "type"} <= members.keys():
            self._settle(rev.DAP)
        return self.current[0] is rev.DAP

    def learn(self, message: Message) -> None:
        """What this response or initialize settles about the messages that follow, itself included."""
        if not self.current[0].mcp:
            return
        if message.kind == "response":
            if self._to_client:
                self._learn_from_result(message)
        elif not self._to_client and type(mapping(message.params).get("protocolVersion")) is int:
            self._settle(rev.JSONRPC)

    def _learn_from_result(self, message: Message) -> None:
        result, session = message.value["result"], self._session
        if not isinstance(result, dict) or "protocolVersion" not in result:
            return
        version = cast("dict[str, object]", result)["protocolVersion"]
        if session is not None and ((asked := session.request_of(message)) is None or asked.method != "initialize"):
            return
        if isinstance(version, str) and "capabilities" in result and (found := rev.MCP_REVISIONS.get(version)):
            modern = session is not None and session.sent.modern
            if not found.result_type:
                self._settle(found, *((rev.MCP_2026_07_28,) if modern else ()))
        elif type(version) is int and session is None:
            self._settle(rev.JSONRPC)


def _names_revision(message: Message) -> bool:
    return rev.META + "protocolVersion" in mapping(mapping(message.params).get("_meta"))


def _opening(framing: Framing, session: Session | None) -> tuple[Revision, ...]:
    if framing == "content-length":
        return (rev.LSP,)
    if session is None:
        return (*_LEGACY, rev.MCP_2026_07_28)
    sent = session.sent
    if sent.plain:
        return (rev.JSONRPC,)
    if not sent.initializes and sent.modern:
        return (rev.MCP_2026_07_28,)
    if sent.initializes and not sent.modern:
        return _LEGACY
    return (*_LEGACY, rev.MCP_2026_07_28)
