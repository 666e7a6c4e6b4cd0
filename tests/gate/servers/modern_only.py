"""Speaks only the revision without initialize (2026-07-28)."""

import json
import sys

import mcpbase

for line in sys.stdin.buffer:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if not mcpbase.well_formed(message) or "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    meta = message.get("params", {}).get("_meta", {})
    info = {"name": "modern", "version": "1"}
    results = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": info,
                            "ttlMs": 0, "cacheScope": "private"},
        "tools/list": {"tools": mcpbase.TOOLS, "ttlMs": 0, "cacheScope": "private"},
        "tools/call": {"content": [{"type": "text", "text": "42"}]},
    }  # fmt: skip
    if "io.modelcontextprotocol/protocolVersion" not in meta:
        reply["error"] = {"code": -32602, "message": "the request names no protocol version"}
    elif message["method"] not in results:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = {"resultType": "complete", **results[message["method"]]}
    mcpbase.send(reply)
