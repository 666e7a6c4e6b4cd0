"""A small JSON-RPC server whose author, whose dependencies and whose children all print. One import protects it."""

from stdout_guard.auto import guard  # first, before anything that may print

# isort: split
import ctypes
import json
import logging
import subprocess
import sys
import warnings

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")
libc = ctypes.CDLL(None)
print("calculator 1.0 ready")


def add(a: int, b: int) -> int:
    print("adding", a, b)
    logging.info("a log line that was configured for stdout")
    subprocess.run(["echo", "a child was here"], check=True)
    libc.puts(b"a C library was here")
    libc.fflush(None)
    return a + b


def serve() -> None:
    for line in guard.take_stdin():
        request = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": add(**request["params"])}
        guard.wire.write(json.dumps(answer).encode() + b"\n")


warnings.warn("this configuration is deprecated", stacklevel=1)
serve()
print("bye")
