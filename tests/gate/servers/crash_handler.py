"""An exception hook prints friendly text."""

import sys

import mcpbase


def hook(kind, value, trace):
    print(f"Oops, something went wrong: {value}")


def tool(name, arguments):
    raise RuntimeError("no such table")


sys.excepthook = hook
mcpbase.serve(tool)
