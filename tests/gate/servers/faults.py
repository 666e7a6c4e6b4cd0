"""Faults that a server on any SDK can have, by name: what is done before it serves, in a tool, and after."""

import atexit
import os
import subprocess
import sys

# mcp 2.x moves descriptor 1 while it serves; a library that was loaded earlier still has the wire, like these two
WIRE = os.dup(1)
MOVED = "mcp2" in sys.argv[0] or "fastmcp" in sys.argv[0]
STREAM = os.fdopen(os.dup(1), "w")


def chosen(argv):
    return argv[1] if len(argv) > 1 else ""


def raw(data):
    os.write(WIRE, data)


def goodbye():
    say("Goodbye, 3 documents saved")


def excepthook(kind, value, trace):
    say(f"Oops, something went wrong: {value}")


def say(text):
    try:
        print(text, flush=True)
    except ValueError:  # mcp 1.x leaves a closed sys.stdout behind
        raw(text.encode() + b"\n")


BEFORE = {
    "banner": lambda: print("loading optional extension", flush=True),
    "glued-import": lambda: raw(b"Loading model... "),
    "exit": lambda: atexit.register(goodbye),
    "crash": lambda: setattr(sys, "excepthook", excepthook),
}
DURING = {
    "print": lambda: print("listing tables", file=STREAM if MOVED else sys.stdout, flush=True),
    "raw": lambda: raw(b"listing tables\n"),
    "child": lambda: subprocess.run(["/bin/echo", "Already up to date."], check=True, stdout=WIRE if MOVED else None),
    "glued-tool": lambda: raw(b"working..."),
    "utf8": lambda: raw(b"Z\xfcrich\n"),
    "json": lambda: raw(b'{"level": "info", "msg": "request served"}\n'),
    "nan": lambda: raw(b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": NaN}}\n'),
    "waits": lambda: (STREAM.write("text that waits\n"), atexit.register(STREAM.flush)),
    "no-id": lambda: raw(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "what?"}}\n'),
    "twice": lambda: raw(b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'),
}
AFTER = {
    "no-newline": lambda: raw(b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'),
    "crash": lambda: 1 // 0,
}


def before(fault):
    BEFORE.get(fault, int)()


def during(fault):
    DURING.get(fault, int)()


def after(fault):
    AFTER.get(fault, int)()
