"""Text without a newline before the first frame: both end up on one line."""

import sys

import mcpbase

sys.stdout.write("Loading model... ")
mcpbase.serve()
