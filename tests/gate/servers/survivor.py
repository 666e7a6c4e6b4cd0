"""Leaves a child behind that holds stdout."""

import subprocess
import sys

import mcpbase

subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL, start_new_session=True
)
mcpbase.serve()
