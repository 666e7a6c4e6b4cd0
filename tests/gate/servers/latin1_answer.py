"""Writes text beyond ASCII in whatever encoding its console has."""

import json
import sys

import mcpbase


def send(message):
    if "content" in message.get("result", {}):
        message["result"] = "Z\u00fcrich"
    sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
    sys.stdout.flush()


mcpbase.serve(send=send)
