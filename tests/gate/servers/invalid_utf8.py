"""An answer in latin-1."""

import json
import sys

import mcpbase


def send(message):
    sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).encode("latin-1") + b"\n")
    sys.stdout.buffer.flush()


mcpbase.serve(lambda name, arguments: "Zürich", send)
