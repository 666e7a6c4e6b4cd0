"""Greets when stdout is a terminal."""

import sys

import mcpbase

if sys.stdout.isatty():
    print("\x1b[1mWelcome\x1b[0m", flush=True)
mcpbase.serve()
