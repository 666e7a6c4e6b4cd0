"""Imports the guard's package, which does nothing, and prints."""

import mcpbase

import stdout_guard  # noqa: F401


def tool(name, arguments):
    print("listing tables")
    return "42"


mcpbase.serve(tool)
