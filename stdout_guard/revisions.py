"""The protocol revisions by name, and whether a message stands under one: the door to the tables. No I/O.

Rules: a message is looked up by revision, direction and method. Members of params and of ``_meta`` are checked at the
top level only (there or not, and of which JSON type), as the published schemas state them; the tables are compared
with those schemas in a test. Deeper validation belongs to whoever knows the tool.

Sources: modelcontextprotocol schema/<revision>/schema.json and docs/specification/<revision>/basic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stdout_guard._mcp_methods import LEVELS, PREFIX as META
from stdout_guard._mcp_revisions import (
    DIRECTIONS,
    MCP_2024_11_05,
    MCP_2025_03_26,
    MCP_2025_06_18,
    MCP_2025_11_25,
    MCP_2026_07_28,
    MCP_REVISIONS,
    Direction,
    Revision,
)
from stdout_guard._messages import Envelope
from stdout_guard._method_rules import check_batch, check_message

__all__ = [
    "DAP",
    "DIRECTIONS",
    "JSONRPC",
    "LEVELS",
    "LSP",
    "MCP_2024_11_05",
    "MCP_2025_03_26",
    "MCP_2025_06_18",
    "MCP_2025_11_25",
    "MCP_2026_07_28",
    "MCP_REVISIONS",
    "META",
    "REVISIONS",
    "Direction",
    "Revision",
    "check_batch",
    "check_message",
    "revision_named",
]

_NOTHING: Final[Mapping[Direction, dict[str, dict[str, str]]]] = {direction: {} for direction in DIRECTIONS}
JSONRPC: Final = Revision("jsonrpc", _NOTHING, _NOTHING, mcp=False, batches=True)
LSP: Final = Revision("lsp", _NOTHING, _NOTHING, mcp=False, envelope=Envelope(error_id_null="any"))
DAP: Final = Revision("dap", _NOTHING, _NOTHING, mcp=False)
REVISIONS: Final[Mapping[str, Revision]] = MCP_REVISIONS | {r.name: r for r in (JSONRPC, LSP, DAP)}
_ALIASES = {"jsonrpc-2.0": "jsonrpc", "lsp-3.17": "lsp", "lsp-3.18": "lsp", "dap-1": "dap"}


def revision_named(name: str) -> Revision:
    """The revision of that name. Raises ValueError with the names there are."""
    found = REVISIONS.get(_ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"unknown revision {name!r}: expected auto or one of {', '.join(REVISIONS)}")
    return found
