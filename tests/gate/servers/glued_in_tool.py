"""Text without a newline in a tool: glued to its answer."""

import mcpbase


def tool(name, arguments):
    print("working...", end="")
    return "42"


mcpbase.serve(tool)
