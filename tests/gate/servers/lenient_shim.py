"""A shim that mends what clients send before the server sees it: what was malformed is executed."""

import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
for line in sys.stdin.buffer:
    server.stdin.write(line.replace(b'"jsonrpc": "1.0"', b'"jsonrpc": "2.0"'))
    server.stdin.flush()
server.stdin.close()
sys.exit(server.wait())
