"""A SIGTERM handler says goodbye."""

import signal
import sys

import mcpbase


def bye(number, frame):
    print("terminated, bye", flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, bye)
mcpbase.serve()
