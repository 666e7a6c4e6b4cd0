"""A number that JSON does not have."""

import mcpbase


def send(message):
    if "content" in message.get("result", {}):
        message["result"]["structuredContent"] = {"ratio": float("nan")}
    mcpbase.send(message)


mcpbase.serve(send=send)
