"""A noisy MCP server on the high-level interface of the Python SDK, version 1."""

import noise
from mcp.server.fastmcp import FastMCP

server = FastMCP("noisy")


@server.tool()
def shout(text: str) -> str:
    noise.make("during")
    return text.upper()


@server.tool()
async def whisper(text: str) -> str:
    print("noise async print", end="", flush=True)
    return text.lower()


noise.make("before")
server.run()
noise.make("after")
