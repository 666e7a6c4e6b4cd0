"""Malformed lines that no server may execute, and how it is seen whether one did."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stdout_guard.testing.protocols import Json, Protocol

HOSTILE = "stdout-guard-hostile-"  # begins the ids of the two malformed requests
HOSTILE_STEP = "hostile lines"


@dataclass(frozen=True)
class Call:
    """What to call: a tool (MCP) or a method, with its arguments or params."""

    name: str
    arguments: Json = field(default_factory=dict[str, Any])


def can_be_hostile(protocol: Protocol) -> bool:
    """Whether the malformed lines mean something in this protocol."""
    return protocol.framing == "ndjson" and protocol.fence is not None


def lines(protocol: Protocol, call: Call | None) -> list[bytes]:
    """Lines that must never be executed: the first three are no JSON, the fourth no object, two are no requests."""
    method, params = protocol.listing or "stdout-guard/none", None
    if call is not None:
        method, params = protocol.calls(call.name, call.arguments)
    request = {"method": method, "params": protocol.params(params) or {}}
    return [
        b"DEBUG loading optional extension\n",
        b"<html><body>502 Bad Gateway</body></html>\n",
        b"{not json}\n",
        b"null\n",
        json.dumps({"jsonrpc": "1.0", "id": f"{HOSTILE}1", **request}).encode() + b"\n",
        json.dumps({"jsonrpc": "2.0", "id": f"{HOSTILE}2", **request, "params": "text"}).encode() + b"\n",
    ]


def snapshot(paths: Sequence[str]) -> dict[str, object]:
    """What can be told of files and folders without reading them."""
    found: dict[str, object] = {}
    for path in paths:
        try:
            status = os.stat(path)
            names = sorted(os.listdir(path)) if os.path.isdir(path) else []
            found[path] = (status.st_mtime_ns, status.st_size, names)
        except OSError:
            found[path] = None
    return found
