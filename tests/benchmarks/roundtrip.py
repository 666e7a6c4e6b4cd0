"""Round trips of a tool call through unmodified SDK servers, all contestants alive at once and asked in turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import peers
from .measure import Ratio, alternate
from .process import Child
from .rows import OURS, Measured, Row, Run

MCP_TOOL = "@server.tool()\ndef echo(text: str) -> str:\n    return text\n"


@dataclass(frozen=True)
class Server:
    """One SDK: the test environment it is in, a server's source, and how a client talks to it."""

    environment: str
    source: str
    protocol: str = "mcp"


SERVERS = {
    "mcp 1": Server(
        "mcp1", f"from mcp.server.fastmcp import FastMCP\nserver = FastMCP('bench')\n{MCP_TOOL}server.run()\n"
    ),
    "mcp 2": Server(
        "newest", f"from mcp.server import MCPServer\nserver = MCPServer('bench')\n{MCP_TOOL}server.run('stdio')\n"
    ),
    "FastMCP 4": Server(
        "newest",
        "from fastmcp import FastMCP\nserver = FastMCP('bench')\n"
        f"{MCP_TOOL.replace('()', '', 1)}server.run(show_banner=False)\n",
    ),
    "pygls 2": Server(
        "newest",
        "from lsprotocol import types\nfrom pygls.lsp.server import LanguageServer\n"
        "server = LanguageServer('bench', '1')\n@server.feature(types.TEXT_DOCUMENT_HOVER)\n"
        "def hover(params: types.HoverParams) -> types.Hover:\n    return types.Hover(contents='x' * 100)\n"
        "server.start_io()\n",
        "lsp",
    ),
}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _headed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_PLACE = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}
HELLO = {
    "mcp": (
        _line({"id": 0, "method": "initialize", "params": _CLIENT}),
        _line({"method": "notifications/initialized"}),
    ),
    "lsp": (
        _headed({"id": 0, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}),
        _headed({"method": "initialized", "params": {}}),
    ),
}


def _answer(child: Child, protocol: str) -> Any:
    if protocol == "mcp":
        return json.loads(child.line())
    length = 0
    while (line := child.line().strip()) != b"":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(child.buffer) < length:
        child._read()
    body = bytes(child.buffer[:length])
    del child.buffer[:length]
    return json.loads(body)


def _until(child: Child, protocol: str, ident: int) -> Any:
    while (found := _answer(child, protocol)).get("id") != ident or "method" in found:
        pass
    if "result" not in found:
        raise AssertionError(f"no result: {found}")
    return found


def start(run: Run, server: Server, prelude: str, *options: str) -> Child:
    """The server behind ``prelude``, past its handshake."""
    command = (run.python(server.environment), *options, "-c", prelude + server.source)
    child = Child(command, {"PYTHONPATH": run.peers()}, deadline=600)
    hello, ready = HELLO[server.protocol]
    child.send(hello)
    _until(child, server.protocol, 0)
    child.send(ready)
    return child


def calls(child: Child, protocol: str, count: int) -> tuple[float, float]:
    """Wall and CPU seconds (the server's) of one call, out of ``count`` one after the other."""
    message: dict[str, Any] = {"id": 7, "method": "tools/call", "params": {"name": "echo"}}
    if protocol == "mcp":
        message["params"]["arguments"] = {"text": "x" * 100}
        request = _line(message)
    else:
        request = _headed({"id": 7, "method": "textDocument/hover", "params": _PLACE})
    cpu, wall = child.cpu(), time.perf_counter()
    for _ in range(count):
        child.send(request)
        _until(child, protocol, 7)
    wall = time.perf_counter() - wall
    return wall / count, (child.cpu() - cpu) / count


def measure(name: str, run: Run) -> Iterator[Measured]:
    """The servers of one SDK, asked in turn."""
    server = SERVERS[name]
    rivals = [rival for rival in peers.OF_SDKS if server.protocol == "mcp" or rival != peers.QUIETMCP]
    alive = {rival: start(run, server, peers.OF_SDKS[rival]) for rival in rivals}
    contestants: dict[str, Callable[[], tuple[float, float]]] = {
        rival: partial(calls, child, server.protocol, run.rounds(20, 40)) for rival, child in alive.items()
    }
    found = alternate(contestants, run.rounds(12, 60))
    for child in alive.values():
        child.finish()
    for rival, series in found.items():
        if rival != peers.NOTHING:
            ratio = Ratio.of(series, found[peers.NOTHING])
            detail = f"CPU {ratio.cpu:.2f}, {min(series.wall) * 1e6:.0f} us"
            yield Measured(rival, ratio.wall, detail, tuple(series.wall))


ROWS = [
    Row(
        "trip-" + name.replace(" ", "").lower(),
        f"tool-call round trip through an unmodified {name} server, guarded / not"
        if name != "pygls 2"
        else "hover round trip through an unmodified pygls 2 server, guarded / not",
        1.0,
        partial(measure, name),
        why="within what runs of the same code differ (0.93 to 1.05): a frame costs the wire two looks at descriptors, "
        "and the SDK the rest.",
    )
    for name in SERVERS
]
assert OURS in peers.OF_SDKS
