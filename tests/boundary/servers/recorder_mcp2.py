"""A server on the Python SDK, version 2, whose one tool writes down each execution."""

from mcp.server import MCPServer
from recording import record

server = MCPServer("recorder")
server.tool()(record)
server.run("stdio")
