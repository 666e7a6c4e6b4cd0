"""Refuses every call."""

import mcpbase

result_of = mcpbase.result_of
mcpbase.result_of = lambda method, params, run: None if method == "tools/call" else result_of(method, params, run)
mcpbase.serve()
