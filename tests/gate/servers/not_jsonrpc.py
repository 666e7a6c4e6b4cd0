"""A JSON log record on stdout."""

import json

import mcpbase


def tool(name, arguments):
    print(json.dumps({"level": "info", "msg": "request served"}))
    return "42"


mcpbase.serve(tool)
