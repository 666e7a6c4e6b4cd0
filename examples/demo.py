"""A noisy server, without and with the guard: what its client sees on stdout, and what stderr says.

python examples/demo.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

SERVER = Path(__file__).with_name("noisy_server.py")
REQUESTS = [{"jsonrpc": "2.0", "id": n, "method": "add", "params": {"a": n, "b": 40}} for n in (1, 2)]


def talk(*, guarded: bool) -> tuple[bytes, str, int]:
    """Run the server with two requests; its stdout to the last byte, its stderr, its exit status."""
    environment = {**os.environ, "STDOUT_GUARD": "redirect" if guarded else "off"}
    environment.pop("PYTHONUNBUFFERED", None)  # as most clients start a server
    requests = "".join(json.dumps(request) + "\n" for request in REQUESTS).encode()
    command = [sys.executable, SERVER.name]
    done = subprocess.run(
        command, input=requests, capture_output=True, env=environment, cwd=SERVER.parent, timeout=30, check=False
    )
    return done.stdout, done.stderr.decode("utf-8", "replace"), done.returncode


def show(title: str, stdout: bytes, stderr: str) -> int:
    """Print one run as a client sees it; returns how many lines were not protocol."""
    print(f"\n{title}")
    print("  stdout, line by line, as a client sees it:")
    broken = 0
    for number, line in enumerate(stdout.split(b"\n"), 1):
        if not line:
            continue
        try:
            json.loads(line)
            verdict = "ok "
        except ValueError:
            verdict, broken = "BAD", broken + 1
        print(f"    {verdict} {number}: {line.decode('utf-8', 'backslashreplace')[:100]}")
    print("  stderr:")
    print(
        textwrap.indent(
            "\n".join(textwrap.shorten(line, 150, placeholder=" ...") for line in stderr.splitlines()) or "(nothing)",
            "    ",
        )
    )
    return broken


def main() -> int:
    """Both runs, then what they come to."""
    stdout, stderr, _ = talk(guarded=False)
    before = show("WITHOUT the guard (STDOUT_GUARD=off)", stdout, stderr)
    stdout, stderr, _ = talk(guarded=True)
    after = show("WITH the guard (one import at the top of the server)", stdout, stderr)
    print(f"\nlines on stdout that no client can read: {before} without the guard, {after} with it")
    return 0 if before and not after else 1


if __name__ == "__main__":
    sys.exit(main())
