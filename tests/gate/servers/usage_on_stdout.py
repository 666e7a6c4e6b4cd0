"""Prints its usage to stdout when it does not know an argument."""

import sys

import mcpbase

if len(sys.argv) > 1:
    print("usage: usage_on_stdout.py [stdio|sse]")
    sys.exit(1)
mcpbase.serve()
