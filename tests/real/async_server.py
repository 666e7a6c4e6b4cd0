"""Servers of unmodified MCP SDKs, stock, guarded with threads, or guarded with the asynchronous wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import environments
from faults.harness import Child
from real import conversations

OLD = "from mcp.server.fastmcp import FastMCP\nserver = FastMCP('s')\nrun = server.run_stdio_async\n"
SDKS = {
    "mcp 2": ("newest", "from mcp.server import MCPServer\nserver = MCPServer('s')\nrun = server.run_stdio_async\n"),
    "mcp 1": ("mcp1", OLD),
    "mcp 1.9": ("oldest", OLD),
    "FastMCP 4": (
        "newest",
        "import functools\nfrom fastmcp import FastMCP\nserver = FastMCP('s')\n"
        "run = functools.partial(server.run_stdio_async, show_banner=False)\n",
    ),
}
TOOLS = """
import os, sys, anyio
@server.tool()
async def echo(text: str) -> str:
    print("stray", text[:20])
    return text
@server.tool()
async def big(size: int) -> str:
    return "x" * size
@server.tool()
async def touch(path: str) -> str:
    open(path, "w").close()
    return path
@server.tool()
async def execute() -> str:
    code = "import sys; print('new image', flush=True); print('got', sys.stdin.readline(), end='')"
    os.execv(sys.executable, [sys.executable, "-c", code])
"""
LOOPS = {
    "asyncio": "anyio.run(run)\n",
    "trio": "anyio.run(run, backend='trio')\n",
    "uvloop": "anyio.run(run, backend_options={'use_uvloop': True})\n",
}
GUARD = "import stdout_guard.auto\n"
HELLO, READY = conversations.mcp()[:2]


def call(ident: int, tool: str, **arguments: Any) -> str:
    """One request, as a client writes it, without its newline."""
    return json.dumps(conversations.request(ident, "tools/call", {"name": tool, "arguments": arguments}))


def start(
    folder: Path,
    kind: str,
    sdk: str = "mcp 2",
    loop: str = "asyncio",
    *,
    after: str = "",
    source: str = "",
    **options: Any,
) -> Child:
    """A server in ``folder``: ``kind`` is stock, threads or async; ``source`` stands for all of its text."""
    environment, server = SDKS[sdk]
    return Child(
        source or ("" if kind == "stock" else GUARD) + server + TOOLS + (after or LOOPS[loop]),
        folder,
        prelude="",
        python=str(environments.python("loops" if loop != "asyncio" else environment)),
        env={"STDOUT_GUARD_ASYNC": "1"} if kind == "async" else {},
        **options,
    )


def greet(child: Child) -> None:
    child.order(json.dumps(HELLO))
    child.wait_frame(1)
    child.order(json.dumps(READY))
