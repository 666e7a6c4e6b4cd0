"""A server on the Python SDK, version 2, whose one tool writes down each execution where STDOUT_GUARD_RECORDER says.

It takes whatever arrives: what is tested is the way to the tool, not the tool's schema.
"""

import json
import os
from typing import Any

from mcp.server import MCPServer

server = MCPServer("recorder")


@server.tool()
def record(target: Any, count: Any = None) -> str:
    """Write down what was executed."""
    with open(os.environ["STDOUT_GUARD_RECORDER"], "a", encoding="utf-8") as out:
        out.write(json.dumps({"name": "record", "arguments": {"target": target, "count": count}}) + "\n")
    return "done"


server.run("stdio")
