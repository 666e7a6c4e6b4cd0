"""Does not leave at end of input, nor at SIGTERM."""

import signal

import mcpbase

signal.signal(signal.SIGTERM, signal.SIG_IGN)
mcpbase.serve()
while True:
    signal.pause()
