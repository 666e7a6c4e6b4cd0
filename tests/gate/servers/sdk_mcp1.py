"""A server on the high-level interface of mcp 1.x; a fault is chosen by the first argument."""

import sys

import faults
from mcp.server.fastmcp import FastMCP

fault = faults.chosen(sys.argv)
server = FastMCP("sdk1")


@server.tool()
def get_answer() -> str:
    """The answer."""
    faults.during(fault)
    return "42"


if __name__ == "__main__":
    faults.before(fault)
    server.run()
    faults.after(fault)
