"""Goes on working after each answer, and says goodbye when SIGTERM interrupts that."""

import os
import signal
import time

import mcpbase

at_work = False


def bye(number, frame):
    if at_work:
        os.write(1, b"interrupted\n")
    os._exit(0)


def send(message):
    global at_work
    at_work = True
    mcpbase.send(message)
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    at_work = False


signal.signal(signal.SIGTERM, bye)
mcpbase.serve(send=send)
