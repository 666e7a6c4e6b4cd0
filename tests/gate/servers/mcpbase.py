"""A small correct MCP server for the faulty ones beside it to spoil: two tools, refuses what is malformed."""

import json
import sys

TOOLS = [
    {"name": "get_answer", "description": "42", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "echo", "description": "text back", "inputSchema": {"type": "object", "required": ["text"]}},
]


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name, arguments):
    return arguments.get("text", "42")


def result_of(method, params, run):
    if method == "initialize":
        info = {"name": "hand-written", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") in [one["name"] for one in TOOLS]:
        return {"content": [{"type": "text", "text": run(params["name"], params.get("arguments", {}))}]}
    return {} if method == "ping" else None


def well_formed(message):
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(message.get("params", {}), dict)
    )


def serve(run=tool, send=send, accept=well_formed, notified=lambda message: None):
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not accept(message):
            continue
        if "id" not in message:
            notified(message)
            continue
        params = message.get("params")
        result = result_of(message["method"], params if isinstance(params, dict) else {"name": "get_answer"}, run)
        if result is None:
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        else:
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})
