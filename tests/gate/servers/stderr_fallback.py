"""Falls back to stdout when there is no stderr."""

import os

import mcpbase

try:
    os.fstat(2)
except OSError:
    print("no stderr, logging to stdout")
mcpbase.serve()
