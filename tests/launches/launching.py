"""One small application for every way of starting it: where it prints, and what the report must say of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from guard.harness import FRAME, PRELUDE, environment

SDK = "mcp/server/stdio.py"  # a stand-in, by the name of a known protocol writer: it must get the wire unasked
FILES = {
    "app/__init__.py": "",
    "app/__main__.py": "from app.server import main\nmain()\n",
    "app/tools.py": "def tool():\n    print('hello')\n",
    "app/server.py": f"{PRELUDE}"
    "def main():\n"
    "    import subprocess\n"
    "    import dep\n"
    "    import mcp.server.stdio\n"
    "    from app import tools\n"
    "    tools.tool()\n"
    "    dep.load()\n"
    "    subprocess.run(['echo', 'from a child'], check=True)\n"
    "    mcp.server.stdio.send()\n",
    "dep/__init__.py": "def load():\n    print('from dep')\n",
    "mcp/__init__.py": "",
    "mcp/server/__init__.py": "",
    SDK: f"import sys\ndef send():\n    sys.stdout.buffer.write({FRAME!r})\n    sys.stdout.buffer.flush()\n",
}


def lay_out(folder: Path, *parts: str) -> Path:
    """Write the application's files, or those whose path begins with one of `parts`; return `folder`."""
    for name, text in FILES.items():
        if not parts or name.startswith(parts):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return folder


def expected(app: str = "", dep: str = "") -> set[str]:
    """The report's lines for an application whose files are shown below `app`, its dependency's below `dep`."""
    return {
        f"{app}app/tools.py:2 in tool: hello",
        f"{dep}dep/__init__.py:2 in load (from {app}app/server.py:9): from dep",
        f"[child PID echo, started at {app}app/server.py:10]: from a child",
    }


def build(*command: str | Path, cwd: Path) -> None:
    """Run a packager; its own words are in the error when it fails."""
    line = [str(word) for word in command]
    kept = {k: v for k, v in environment().items() if k != "PYTHONPATH"}
    done = subprocess.run(line, cwd=cwd, env=kept, stdin=subprocess.DEVNULL, capture_output=True, timeout=500)
    assert done.returncode == 0, f"{line}\n{done.stdout.decode()[-3000:]}\n{done.stderr.decode()[-3000:]}"
