"""An MCP server on the official SDK (mcp 2.x: MCPServer, mcp 1.x: FastMCP). The SDK is not changed in any way."""

import stdout_guard.auto  # noqa: F401

# isort: split
try:
    from mcp.server import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("calculator")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    print(f"adding {a} and {b}")  # would have broken the client
    return a + b


if __name__ == "__main__":
    server.run("stdio")
