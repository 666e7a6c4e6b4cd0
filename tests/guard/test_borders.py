"""Where the guard meets code that does unusual but legal things with arguments, descriptors and streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, Result


def test_help_in_mid_session_is_a_stray(run: Callable[..., Result]) -> None:
    """Help text passes to a person before a session only; frames that leave by the wire's descriptor begin one too."""
    done = run("""
import argparse, os
os.write(guard.wire.fileno(), b'{"jsonrpc":"2.0","id":1,"result":"ok"}\\n')
try: argparse.ArgumentParser("tool").parse_args(["--help"])
except SystemExit: pass
""")
    assert done.wire == FRAME
    assert any("usage: tool" in line for line in done.report)


def test_arguments_of_a_child_may_be_an_iterator(run: Callable[..., Result]) -> None:
    """Popen takes any iterable of words; looking at the first one does not eat it."""
    done = run("""
import subprocess
subprocess.run(map(str, ["echo", 1, 2]), check=True)
answer()
""")
    assert done.status == 0 and done.wire == FRAME
    assert done.report[0].endswith(": 1 2") and " echo, started at " in done.report[0]


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_bytes_read_ahead_survive_a_character_cut_in_two(run: Callable[..., Result], errors: str) -> None:
    """What sys.stdin had read ahead is handed over whole, though its text layer stopped inside a character."""
    head = b"first\n" + b"x" * (8191 - 6) + "é".encode() + b"y" * 100
    done = run(
        """
import sys
line = sys.stdin.readline()
rest = guard.take_stdin().read()
sys.stderr.write(f"{len(line)} {len(rest)} {rest[-102:-99]!r}\\n")
""",
        stdin=head,
        env={"PYTHONIOENCODING": f"utf-8:{errors}"},
    )
    assert done.lines == [f"6 {len(head) - 6} {head[-102:-99]!r}"]


def test_stderr_made_stdout_ends_with_the_server(run: Callable[..., Result]) -> None:
    """After dup2(1, 2) fd 2 is the channel too: its text is shown, and at exit nothing is left that feeds itself."""
    done = run("""
import os
os.dup2(1, 2)
os.write(2, b"session %d\\n" % os.getsid(0))
answer()
""")
    assert done.status == 0 and done.wire == FRAME
    assert len(done.report) == 1 and done.report[0].startswith("[fd 1]: session ")
    session = done.report[0].rpartition(" ")[2]
    left = [stat for stat in Path("/proc").glob("[0-9]*/stat") if _session(stat) == session]
    assert not left


def _session(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[3]
    except OSError:  # gone meanwhile
        return ""


def test_a_worker_with_a_stdout_of_its_own_has_it(run: Callable[..., Result]) -> None:
    """A forked worker that pointed fd 1 at its log, or got a terminal, prints there as without a guard."""
    done = run("""
import os, sys
if os.fork() == 0:
    os.dup2(os.open("worker.log", os.O_WRONLY | os.O_CREAT), 1)
    print("hello log", flush=True)
    os._exit(0)
os.wait()
sys.stderr.write(repr(open("worker.log").read()))
""")
    assert done.text.splitlines()[-1] == repr("hello log\n")


def test_a_malformed_record_is_a_line_like_any_other(run: Callable[..., Result]) -> None:
    """Text that looks like a worker's record, with a digit that int() refuses, breaks nothing and does not vanish."""
    done = run("""
import os
fields = ["python", "f", "\\u00b2", "fn", "", "0", "p", "n", "t"]
os.write(1, b"\\x1estdout-guard\\x1f" + "\\x1f".join(fields).encode() + b"\\n")
os.write(1, b"after\\n")
""")
    assert len(done.report) == 2 and done.report[1] == "[fd 1]: after"


def test_a_redactor_that_stops_the_world_stops_nothing(run: Callable[..., Result]) -> None:
    """Whatever a redact callable raises, the pump lives and the text is withheld."""
    done = run(
        """
import stdout_guard
class Stop(BaseException): pass
def redact(text): raise Stop
guard = stdout_guard.install(redact=redact)
import os
os.write(1, b"secret\\n" * 300_000)
print("secret")
""",
        prelude="",
    )
    assert done.status == 0 and "secret" not in done.text and "[not shown: redact failed: Stop]" in done.text


def test_an_exec_that_fails_leaves_nothing_on_the_wire(run: Callable[..., Result]) -> None:
    """execvp tries folder after folder; while it does, other threads' noise stays off the wire."""
    done = run("""
import os, threading
stop = threading.Event()
def noise():
    while not stop.is_set(): os.write(1, b"n\\n")
thread = threading.Thread(target=noise); thread.start()
for _ in range(5):
    try: os.execvp("no-such-program-x", ["x"])
    except FileNotFoundError: pass
stop.set(); thread.join()
answer()
""")
    assert done.wire == FRAME


def test_the_wire_takes_bytes_only(run: Callable[..., Result]) -> None:
    """wire.write(5) is a TypeError, as for any binary stream, not five zero bytes for the client."""
    done = run("""
try: guard.wire.write(5)
except TypeError: answer()
""")
    assert done.wire == FRAME and done.text == ""
