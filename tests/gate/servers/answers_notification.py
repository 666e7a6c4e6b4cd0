"""Answers a notification, which must never be answered."""

import mcpbase


def notified(message):
    mcpbase.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "no such method"}})


mcpbase.serve(notified=notified)
