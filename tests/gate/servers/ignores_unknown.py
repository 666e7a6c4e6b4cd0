"""Answers what it knows and ignores every other request, ping among them."""

import mcpbase

KNOWN = {"initialize", "tools/list", "tools/call"}
mcpbase.serve(accept=lambda message: mcpbase.well_formed(message) and message["method"] in KNOWN)
