"""Writes a log file where it starts, and falls back to stdout."""

import mcpbase

try:
    log = open("server.log", "a", encoding="utf-8")  # noqa: SIM115
except OSError:
    print("cannot write server.log, logging here")
mcpbase.serve()
