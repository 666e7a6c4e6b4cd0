"""The last frame is not terminated."""

import json
import sys

import mcpbase

mcpbase.serve()
note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "bye"}}
sys.stdout.write(json.dumps(note))
sys.stdout.flush()
