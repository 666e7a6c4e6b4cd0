"""Correct, and logs to stderr: harmless until a wrapper merges the streams."""

import sys

import mcpbase


def tool(name, arguments):
    print("INFO serving get_answer", file=sys.stderr, flush=True)
    return "42"


mcpbase.serve(tool)
