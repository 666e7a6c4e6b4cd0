"""A server on the Python SDK, version 1, whose one tool writes down each execution."""

from mcp.server.fastmcp import FastMCP
from recording import record

server = FastMCP("recorder")
server.tool()(record)
server.run()
