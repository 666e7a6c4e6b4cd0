"""A JSON-RPC server written by hand, one JSON message a line: frames by FrameWriter, requests by take_stdin."""

from stdout_guard.auto import guard  # first, before anything that may print

# isort: split
import json

from stdout_guard.writer import FrameWriter

writer = FrameWriter(guard.wire)

for line in guard.take_stdin():
    request = json.loads(line)
    print("got", request["method"])  # goes to stderr, with this line's number
    if "id" in request:
        writer.send({"jsonrpc": "2.0", "id": request["id"], "result": {"echo": request.get("params")}})
