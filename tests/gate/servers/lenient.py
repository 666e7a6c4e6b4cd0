"""Runs a tool on requests that are none: version and params are not looked at."""

import mcpbase

mcpbase.serve(accept=lambda message: isinstance(message, dict) and "method" in message)
