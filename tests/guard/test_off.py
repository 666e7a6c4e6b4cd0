"""STDOUT_GUARD=off: nothing of ours is there, and the output is byte for byte what it would be without us."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

OFF = {"STDOUT_GUARD": "off"}

# A server that writes in every way; GUARD is `guard.wire` with us and `sys.stdout.buffer` without us.
SERVER = """
import atexit, logging, os, subprocess, sys, threading
print("banner")
sys.stdout.write("unfinished")
sys.__stdout__.write(" line\\n")
sys.stdout.flush()
os.write(1, b"raw\\n")
subprocess.run(["echo", "child"])
logging.basicConfig(stream=sys.stdout); logging.error("logged")
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
print("pending before the frame")
"""
END = """
print("after the frame")
atexit.register(print, "at exit")
assert sys.stdout.fileno() == 1
print(sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering, type(sys.stdout).__name__)
sys.stdout.write("\\udcff") if sys.stdout.errors == "surrogateescape" else None
"""
PLAIN_FRAME = f"sys.stdout.flush(); sys.stdout.buffer.write({FRAME!r}); sys.stdout.buffer.flush()\n"


@pytest.mark.parametrize(
    "env", [{}, {"PYTHONIOENCODING": "latin-1:replace"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str
)
def test_off_is_byte_identical(run: Callable[..., Result], env: dict[str, str], unbuffered: bool) -> None:
    """With STDOUT_GUARD=off a server's stdout, stderr and status are byte for byte those of the server without us."""
    guarded = run(f"{SERVER}answer()\n{END}", env={**env, **OFF}, unbuffered=unbuffered)
    bare = run(f"#\n#\n{SERVER}{PLAIN_FRAME}{END}", prelude="", env=env, unbuffered=unbuffered)
    assert (guarded.wire, guarded.stderr, guarded.status) == (bare.wire, bare.stderr, bare.status)
    assert FRAME in bare.wire


def test_off_by_argument_is_the_same(run: Callable[..., Result]) -> None:
    """install("off") does what the variable does."""
    guarded = run(
        f"import stdout_guard\nguard = stdout_guard.install('off')\n{SERVER}guard.wire.write({FRAME!r})\n", prelude=""
    )
    bare = run(f"{SERVER}{PLAIN_FRAME}", prelude="")
    assert (guarded.wire, guarded.stderr) == (bare.wire, bare.stderr)


def test_off_has_no_thread_no_descriptor_and_no_module_but_two(run: Callable[..., Result]) -> None:
    """No thread, no descriptor, no finder, no hook, no stream changed; of our modules only the package, the one that
    was imported and the one that stands for the guard."""
    done = run("""
import sys, os
def fds(): return [n for n in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + n)]
before = fds(), list(sys.meta_path), id(sys.stdout), vars(sys.stdout), os.execv, sys.breakpointhook, dict(os.environ)
modules = set(sys.modules)
from stdout_guard.auto import guard
assert before == (fds(), list(sys.meta_path), id(sys.stdout), vars(sys.stdout), os.execv, sys.breakpointhook, dict(os.environ))
assert len(os.listdir("/proc/self/task")) == 1
print(*sorted(set(sys.modules) - modules))
print(guard.mode)
""", prelude="", env=OFF)  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire == b"stdout_guard stdout_guard._off stdout_guard.auto\noff\n"


def test_off_keeps_the_order_of_text_and_frames(run: Callable[..., Result], unbuffered: bool) -> None:
    """guard.wire flushes pending text first, so that order holds, and its frame is out when write() returns."""
    done = run("""
import os, sys
sys.stdout.write("1\\n")
guard.wire.write(b"2\\n")
os.write(1, b"3\\n")
sys.stdout.write("4\\n")
guard.text_wire.write("5\\n"); guard.text_wire.flush()
guard.wire.write(memoryview(b"6\\n"))
os.write(1, b"7\\n")
""", env=OFF, unbuffered=unbuffered)  # fmt: skip
    assert done.wire == b"1\n2\n3\n4\n5\n6\n7\n"


def test_off_has_every_name_of_the_guard(run: Callable[..., Result]) -> None:
    """Code written for the guard runs with it switched off: the same attributes, empty records, zero counts, the plain
    stdin, uninstall and current."""
    done = run("""
import sys, stdout_guard
from stdout_guard.writer import FrameWriter
from stdout_guard._guard import Guard
public = [n for n in vars(Guard) if not n.startswith("_")]
missing = [n for n in ("mode", "role", "wire", "text_wire", "take_stdin", "strays", "counts", "verify", "adopt_after_fork") if not hasattr(guard, n)]
assert not missing, missing
assert guard.strays == () and guard.counts.strays == 0 and guard.counts.places == () and guard.verify() == ()
guard.adopt_after_fork()
assert guard.take_stdin().readline() == b"from the client\\n"
assert guard.wire.writable() and guard.wire.fileno() == 1
guard.wire.flush(); guard.wire.close()
FrameWriter(guard.wire).send({"jsonrpc": "2.0", "id": 1, "result": "ok"})
assert stdout_guard.install() is guard
stdout_guard.uninstall()
assert stdout_guard.current() is None
""", env=OFF, stdin=b"from the client\n")  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire.replace(b" ", b"") == FRAME
    assert done.text == ""


def test_off_leaves_sdks_alone(run: Callable[..., Result], tmp_path: object) -> None:
    """With the guard off no adapter is loaded for a known package, wrapt is not, and STDOUT_GUARD_WRITERS and a wrong
    STDOUT_GUARD_FORMAT are not even looked at."""
    done = run("""
import sys
sys.modules.pop("mcp", None)
import mcp.server.stdio
assert mcp.server.stdio.sys is sys
assert "wrapt" not in sys.modules and "stdout_guard.adapters" not in sys.modules
mcp.server.stdio.serve()
""", env={**OFF, "STDOUT_GUARD_WRITERS": "mcp.server.stdio"}, folder=fake_mcp(tmp_path))  # fmt: skip
    assert (done.wire, done.text) == (b"frame\n", "")


def fake_mcp(folder: object) -> object:
    """A package of the name of a known SDK below ``folder``."""
    from pathlib import Path

    root = Path(str(folder))
    for name in ("mcp", "mcp/server"):
        (root / name).mkdir()
        (root / name / "__init__.py").write_text("")
    text = "import sys\ndef serve():\n    sys.stdout.buffer.write(b'frame\\n'); sys.stdout.buffer.flush()\n"
    (root / "mcp/server/stdio.py").write_text(text)
    return root
