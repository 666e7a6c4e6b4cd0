"""A server on FastMCP, any version; a fault is chosen by the first argument."""

import sys

import faults
from fastmcp import FastMCP

fault = faults.chosen(sys.argv)
server = FastMCP("fast")


@server.tool()
def get_answer() -> str:
    """The answer."""
    faults.during(fault)
    return "42"


if __name__ == "__main__":
    faults.before(fault)
    server.run(show_banner=False)
    faults.after(fault)
