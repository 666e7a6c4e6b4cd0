"""A tool prints."""

import mcpbase


def tool(name, arguments):
    print("listing tables")
    return "42"


mcpbase.serve(tool)
