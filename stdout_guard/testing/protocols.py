"""What a client says to open, fence and leave a session, for each protocol: a table.

A fence is a request that every server answers at once: when its answer is there, whatever the step before it caused
has been read, so bytes can be blamed on that step. Sources: MCP lifecycle and ping pages (2025-11-25), server/discover
(2026-07-28), LSP 3.17 "shutdown" and "exit", ACP "initialize".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Framing = Literal["ndjson", "content-length"]
Json = dict[str, Any]
CLIENT = {"name": "stdout-guard", "version": "1"}
LEGACY = "2025-11-25"
MODERN = "2026-07-28"


@dataclass(frozen=True)
class Protocol:
    """One protocol as a client speaks it; None where it has no such thing."""

    name: str
    framing: Framing
    revision: str
    opening: tuple[str, Json] | None = None
    opened: tuple[str, Json] | None = None
    fence: tuple[str, Json] | None = None
    listing: str | None = None
    calling: str | None = None
    farewell: str | None = None
    leaving: str | None = None
    meta: Json | None = None
    answers_server: bool = True
    server_methods: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def params(self, params: Json | None) -> Json | None:
        """``params`` with what this protocol wants in every request."""
        return params if self.meta is None else {**(params or {}), "_meta": self.meta}

    def calls(self, name: str, arguments: Json) -> tuple[str, Json]:
        """Method and params that call ``name``: a tool where the protocol has tools, else the method itself."""
        return (self.calling, {"name": name, "arguments": arguments}) if self.calling else (name, arguments)


def mapping(value: object) -> Json:
    """A JSON object, or an empty one for any other value."""
    return cast(Json, value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A JSON array, or an empty one for any other value."""
    return cast("list[Any]", cast("object", value)) if isinstance(value, list) else []


_MCP_OPENING = ("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT})
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
PROTOCOLS: dict[str, Protocol] = {
    "mcp": Protocol(
        "mcp",
        "ndjson",
        "auto",
        opening=_MCP_OPENING,
        opened=("notifications/initialized", {}),
        fence=("ping", {}),
        listing="tools/list",
        calling="tools/call",
        server_methods={"ping": {}},
    ),
    "mcp-2026-07-28": Protocol(
        "mcp-2026-07-28",
        "ndjson",
        MODERN,
        opening=("server/discover", {}),
        fence=("server/discover", {}),
        listing="tools/list",
        calling="tools/call",
        meta=_META,
        answers_server=False,
    ),
    "lsp": Protocol(
        "lsp",
        "content-length",
        "lsp",
        opening=("initialize", {"processId": None, "rootUri": None, "capabilities": {}}),
        opened=("initialized", {}),
        farewell="shutdown",
        leaving="exit",
    ),
    "acp": Protocol(
        "acp",
        "ndjson",
        "jsonrpc",
        opening=("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
    ),
    "jsonrpc": Protocol("jsonrpc", "ndjson", "jsonrpc"),
}
# The opening of "mcp" is refused by a server that speaks only the revision without initialize: then this one is tried.
FALLBACK = {"mcp": "mcp-2026-07-28"}
