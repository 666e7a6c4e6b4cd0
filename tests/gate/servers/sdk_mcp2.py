"""A server on the high-level interface of mcp 2.x; a fault is chosen by the first argument."""

import sys

import faults
from mcp.server.mcpserver import MCPServer

fault = faults.chosen(sys.argv)
server = MCPServer("sdk2")


@server.tool()
def get_answer() -> str:
    """The answer."""
    faults.during(fault)
    return "42"


if __name__ == "__main__":
    faults.before(fault)
    server.run()
    faults.after(fault)
