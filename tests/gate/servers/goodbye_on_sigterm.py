"""A SIGTERM handler says goodbye."""

import os
import signal

import mcpbase


def bye(number, frame):
    os.write(1, b"terminated, bye\n")  # no stream: the signal may come while one is at work
    os._exit(0)


signal.signal(signal.SIGTERM, bye)
mcpbase.serve()
