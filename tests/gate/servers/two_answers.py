"""Two answers to one id."""

import mcpbase


def send(message):
    mcpbase.send(message)
    if "content" in message.get("result", {}):
        mcpbase.send(message)


mcpbase.serve(send=send)
