"""A small language server with Content-Length framing; with an argument it prints before a body."""

import json
import sys


def send(message):
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def receive():
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


while (message := receive()) is not None:
    if message["method"] == "exit":
        break
    if message["method"] == "textDocument/hover" and len(sys.argv) > 1:
        print("indexing workspace", flush=True)
    if "id" in message:
        result = {"capabilities": {"hoverProvider": True}} if message["method"] == "initialize" else None
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})
