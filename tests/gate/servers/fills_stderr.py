"""Logs more than a pipe holds."""

import sys

import mcpbase


def tool(name, arguments):
    for _ in range(40):
        sys.stderr.write("x" * 4095 + "\n")
    return "42"


mcpbase.serve(tool)
