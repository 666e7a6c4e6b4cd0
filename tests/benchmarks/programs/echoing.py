"""Runs in a child: answers each line of stdin with a frame; "flood" starts a child that floods stdout, "quiet" ends it.

argv: contestant's lines, a file to flood with.
"""

import sys

exec(sys.argv[1])

import os  # noqa: E402
import signal  # noqa: E402

wire = globals()["wire"]
flood = 0
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}],"isError":false}}\n' % (b"x" * 110)
read = sys.stdin.buffer.readline
if "guard" in globals():
    read = globals()["guard"].take_stdin().readline
while line := read():
    if line == b"flood\n":
        loop = f"while :; do cat {sys.argv[2]}; done"
        flood = os.posix_spawn("/bin/sh", ["sh", "-c", loop], os.environ, setpgroup=0)
    elif line == b"quiet\n":
        os.killpg(flood, signal.SIGKILL)
        os.waitpid(flood, 0)
    wire.write(ANSWER)
    wire.flush()
