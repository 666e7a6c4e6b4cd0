"""What a client says in the raw-bytes runs, protocol by protocol."""

from __future__ import annotations

from typing import Any

Messages = list[dict[str, Any]]


def request(ident: int, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """One JSON-RPC request; without `params` the member is left out."""
    return {"jsonrpc": "2.0", "id": ident, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """One JSON-RPC notification."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def mcp(*calls: tuple[str, dict[str, Any]]) -> Messages:
    """Handshake, tools/list and one tools/call for each of `calls` (name, arguments)."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    start = [request(1, "initialize", hello), notification("notifications/initialized"), request(2, "tools/list", {})]
    return start + [
        request(number, "tools/call", {"name": name, "arguments": arguments})
        for number, (name, arguments) in enumerate(calls, 3)
    ]


def lsp(*requests: tuple[str, dict[str, Any]], text: str = "x = 1\n") -> Messages:
    """Handshake, one open document, `requests`, and an orderly end."""
    uri = "file:///nowhere/example.py"
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    middle = [request(number, method, params) for number, (method, params) in enumerate(requests, 2)]
    return [
        request(1, "initialize", {"processId": None, "rootUri": None, "capabilities": {}}),
        notification("initialized", {}),
        notification("textDocument/didOpen", {"textDocument": document}),
        *middle,
        request(len(middle) + 2, "shutdown"),
        notification("exit"),
    ]


AT_START = {"textDocument": {"uri": "file:///nowhere/example.py"}, "position": {"line": 0, "character": 0}}
HOVER = ("textDocument/hover", AT_START)
WHISPER = ("workspace/executeCommand", {"command": "noisy.whisper", "arguments": []})


def acp() -> Messages:
    """Handshake, a session, one prompt."""
    return [
        request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        request(2, "session/new", {"cwd": "/", "mcpServers": []}),
        request(3, "session/prompt", {"sessionId": "session-1", "prompt": [{"type": "text", "text": "hello"}]}),
    ]
