"""A noisy MCP server on FastMCP, the same source for its versions 2, 3 and 4."""

import noise
from fastmcp import FastMCP

server = FastMCP("noisy")


@server.tool
def shout(text: str) -> str:
    noise.make("during")
    return text.upper()


@server.tool
async def whisper(text: str) -> str:
    print("noise async print", end="", flush=True)
    return text.lower()


noise.make("before")
server.run()
noise.make("after")
