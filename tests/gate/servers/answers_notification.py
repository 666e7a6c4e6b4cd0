"""Answers a notification, which must never be answered."""

import mcpbase


def notified(message):
    mcpbase.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "not a request"}})


mcpbase.serve(notified=notified)
