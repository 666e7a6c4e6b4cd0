"""Answers wait in a buffer until exit."""

import json
import sys

import mcpbase

sys.stdout.reconfigure(line_buffering=False, write_through=False)
mcpbase.serve(send=lambda message: sys.stdout.write(json.dumps(message) + "\n"))
