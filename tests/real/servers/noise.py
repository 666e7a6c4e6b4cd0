"""Every ordinary way a line gets onto stdout. Each line says its phase and its kind, so that a test can look for it."""

import atexit
import ctypes
import logging
import os
import subprocess
import sys
import warnings

LIBC = ctypes.CDLL(None)
log = logging.getLogger("noise")
log.propagate = False
log.addHandler(logging.StreamHandler(sys.stdout))


def make(phase):
    print()  # ends what a handler may have left without a newline
    print(f"noise {phase} print")
    print(f"noise {phase} flushed", flush=True)
    sys.stdout.write(f"noise {phase} write\n")
    sys.stdout.buffer.write(f"noise {phase} buffer\n".encode())
    sys.stdout.buffer.flush()
    sys.__stdout__.write(f"noise {phase} original\n")
    log.warning("noise %s logging", phase)
    warnings.warn(f"noise {phase} warning", stacklevel=1)
    subprocess.run(["echo", f"noise {phase} child"], check=True)
    os.write(1, f"noise {phase} descriptor\n".encode())
    LIBC.puts(f"noise {phase} native".encode())
    LIBC.fflush(None)
    LIBC.puts(f"noise {phase} held".encode())  # in libc's buffer until the next flush, or the end of the process


atexit.register(make, "exit")
