"""A server on FastMCP (2, 3 and 4), whose one tool writes down each execution."""

from fastmcp import FastMCP
from recording import record

server = FastMCP("recorder")
server.tool(record)
server.run(show_banner=False)
