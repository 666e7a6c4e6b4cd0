"""Strict mode: the error at the call site, and a verdict that no swallowing can undo."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, Result

STRICT = {"STDOUT_GUARD": "strict"}
VERDICT = "strict: 1 stray write to stdout in this run; exit status 120"


def test_the_error_is_raised_at_the_line_that_wrote(run: Callable[..., Result]) -> None:
    """A stray write raises StrayWriteError, an Exception, in the code that wrote; the error carries the record, can be
    pickled, and says who, where, what and what next."""
    done = run("""
import copy, pickle, sys
import stdout_guard
assert issubclass(stdout_guard.StrayWriteError, stdout_guard.StdoutGuardError)
assert issubclass(stdout_guard.StdoutGuardError, Exception)
def tool():
    print("hello\\x1b[31m")  #@a
try:
    tool()
except stdout_guard.StrayWriteError as error:
    caught = error
assert caught.__traceback__.tb_next.tb_frame.f_code.co_name == "tool"
for error in (caught, pickle.loads(pickle.dumps(caught)), copy.deepcopy(caught)):
    stray = error.stray
    assert isinstance(stray, stdout_guard.StrayWrite)
    assert (stray.source, stray.file, stray.function) == ("python", "server.py", "tool"), stray
    assert stray.text == "hello\\x1b[31m", stray.text
    assert stray.pid == __import__("os").getpid() and stray.time > 1e9
    sys.stderr.write(f"{error} @{stray.line}\\n")
assert [s.text for s in guard.strays] == ["hello\\x1b[31m"]
answer()
""", env=STRICT)  # fmt: skip
    assert done.wire == FRAME
    assert done.status == 120
    (place,) = done.at("server.py:{a} in tool")
    line = place.partition(":")[2].partition(" ")[0]
    message = (
        f"stray write to stdout at {place}: 'hello\\\\x1b[31m'; stdout belongs to the protocol: print to sys.stderr, or "
        f"write frames to guard.wire @{line}"
    )
    assert done.lines.count(message) == 3, done.text


def test_an_uncaught_stray_ends_the_program_with_a_traceback(run: Callable[..., Result]) -> None:
    """Uncaught, the error is a traceback that ends at the line of the print, and the status is 120."""
    done = run("answer()\ndef tool():\n    print('hello')  #@a\ntool()\n", env=STRICT)
    assert (done.wire, done.status) == (FRAME, 120)
    assert f'server.py", line {done.at("{a}")[0]}, in tool' in done.text
    assert "StrayWriteError: stray write to stdout at" in done.text


SWALLOWED = [
    ("except-exception", "try:\n    print('x')\nexcept Exception:\n    pass"),
    ("bare-except", "try:\n    print('x')\nexcept:\n    pass"),
    ("suppress", "import contextlib\nwith contextlib.suppress(Exception): print('x')"),
    ("del", "class N:\n    def __del__(self): print('x')\nN()"),
    ("logging", "import logging, sys\nlogging.basicConfig(stream=sys.stdout)\nlogging.error('x')"),
    ("logging-silent", "import logging, sys\nlogging.raiseExceptions = False\nlogging.basicConfig(stream=sys.stdout)\nlogging.error('x')"),
    ("thread", "import threading\nt = threading.Thread(target=lambda: print('x')); t.start(); t.join()"),
    ("task", "import asyncio\nasync def m():\n    t = asyncio.create_task(n())\n    await asyncio.wait([t])\nasync def n(): print('x')\nasyncio.run(m())"),
    ("atexit", "import atexit\natexit.register(print, 'x')"),
    ("child", "import subprocess\nsubprocess.run(['echo', 'x'])"),
    ("os-write", "import os\nos.write(1, b'x\\n')"),
    ("os-system", "import os\nos.system('echo x')"),
    ("libc-unflushed", "import ctypes; ctypes.CDLL(None).printf(b'x')"),
    ("fork", "import os\nif os.fork() == 0:\n    try: print('x')\n    finally: os._exit(0)\nos.wait()"),
    ("fork-os-write", "import os\nif os.fork() == 0:\n    os.write(1, b'x\\n'); os._exit(0)\nos.wait()"),
    (
        "fork-worker",
        "import multiprocessing as m\np = m.get_context('fork').Process(target=print, args=('x',)); p.start(); p.join()",
    ),
    ("before-guard-handler", "HELD held.write('x\\n')"),
]  # fmt: skip


@pytest.mark.parametrize("source", [row[1] for row in SWALLOWED], ids=[row[0] for row in SWALLOWED])
def test_a_swallowed_stray_still_ends_with_120(run: Callable[..., Result], source: str, unbuffered: bool) -> None:
    """Every stray is latched: swallowed ones, children's, fd 1's, forked workers' and what libc still held; the process
    ends with status 120 and says why in one line."""
    prelude_first, source = (
        ("import sys; held = sys.stdout\n", source.removeprefix("HELD ")) if source.startswith("HELD") else ("", source)
    )
    if prelude_first:
        source = f"try:\n    {source}\nexcept Exception: pass"
    from guard.harness import PRELUDE

    done = run(f"{source}\nanswer()\n", prelude=prelude_first + PRELUDE, env=STRICT, unbuffered=unbuffered)
    assert done.wire == FRAME
    assert done.status == 120, done.text
    assert any(line.startswith("strict: ") and line.endswith("; exit status 120") for line in done.report), done.text
    assert "kept off the wire" in done.summary


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "sys.exit(3)", "raise ValueError('own')", "asyncio.run(asyncio.sleep(0))"]
)
def test_120_whatever_the_way_out_and_files_are_flushed(run: Callable[..., Result], tmp_path: Path, end: str) -> None:
    """120 replaces the status of a normal end, sys.exit and an uncaught error alike; exit hooks run and the user's open
    files are flushed."""
    done = run(f"""
import asyncio, atexit, sys
kept = open("kept.txt", "w"); kept.write("unflushed text")
atexit.register(lambda: open("hook.txt", "w").write("ran"))
try: print("x")
except Exception: pass
answer()
{end}
""", env=STRICT)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 120), done.text
    assert (tmp_path / "kept.txt").read_text() == "unflushed text"
    assert (tmp_path / "hook.txt").read_text() == "ran"
    assert VERDICT in done.report
    assert "Exception ignored" not in done.text


def test_a_clean_strict_run_ends_as_it_would(run: Callable[..., Result]) -> None:
    """Without a stray, strict is silent and leaves the status alone."""
    for end, status in (("", 0), ("raise SystemExit(3)", 3), ("raise SystemExit('bye')", 1)):
        done = run(f"import sys\nsys.stderr.write('')\nsys.stdout.flush()\nanswer()\n{end}\n", env=STRICT)
        assert (done.wire, done.status) == (FRAME, status), done.text
        assert "stdout-guard" not in done.text


def test_a_forked_worker_has_no_verdict_of_its_own(run: Callable[..., Result]) -> None:
    """Workers raise at their call site and are counted by the owner; their own exit status is theirs."""
    done = run("""
import multiprocessing as mp, os, sys
def work():
    try: print("x")
    except Exception as error: assert type(error).__name__ == "StrayWriteError"
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        p = mp.get_context(method).Process(target=work); p.start(); p.join()
        assert p.exitcode == 0, (method, p.exitcode)
    answer()
""", env=STRICT)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 120), done.text
    assert "strict: 3 stray writes to stdout in this run; exit status 120" in done.report


def test_multiprocessing_starts_under_strict(run: Callable[..., Result]) -> None:
    """flush() of the stand-in never raises before the end, though strays were latched: Process.start() flushes it."""
    done = run("""
import multiprocessing as mp, sys
if __name__ == "__main__":
    try: print("x")
    except Exception: pass
    sys.stdout.flush(); sys.__stdout__.flush()
    for method in ("fork", "spawn"):
        p = mp.get_context(method).Process(target=int); p.start(); p.join(); assert p.exitcode == 0
    answer()
""", env=STRICT)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 120), done.text
    assert "Traceback" not in done.text


def test_a_print_with_several_arguments_is_one_stray_with_its_first_piece(run: Callable[..., Result]) -> None:
    """print() raises at its first piece; the record names the line."""
    done = run("try:\n    print('a', 'b')  #@a\nexcept Exception: pass\nanswer()\n", env=STRICT)
    assert (done.wire, done.status) == (FRAME, 120)
    assert done.report[0] == done.at("server.py:{a} in <module>: a")[0]
    assert VERDICT in done.report


def test_writes_that_are_meant_for_a_person_or_elsewhere_are_no_strays(run: Callable[..., Result]) -> None:
    """stderr, captured output, the wire and an empty write raise nothing in strict mode."""
    done = run("""
import contextlib, io, subprocess, sys
with contextlib.redirect_stdout(io.StringIO()): print("captured")
print("to stderr", file=sys.stderr)
subprocess.run(["echo", "x"], stdout=subprocess.PIPE)
sys.stdout.write(""); print(end="")
assert guard.counts.strays == 0
answer()
""", env=STRICT)  # fmt: skip
    assert (done.wire, done.status, done.text) == (FRAME, 0, "to stderr\n")


def test_the_verdict_reads_well_beside_a_daemon_thread(run: Callable[..., Result]) -> None:
    """A daemon thread that prints until the end, swallowing the errors, cannot crash the interpreter or hide the
    verdict."""
    done = run("""
import threading
def forever():
    while True:
        try: print("x")
        except Exception: pass
threading.Thread(target=forever, daemon=True).start()
while guard.counts.strays < 10: pass
answer()
""", env={**STRICT, "STDOUT_GUARD_LOG": "log"})  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 120)
    assert "Fatal Python error" not in done.text


def test_signals_still_end_the_process_by_signal(run: Callable[..., Result]) -> None:
    """SIGTERM's default action is the server's end in strict mode too."""
    done = run(
        "import os, signal\ntry: print('x')\nexcept Exception: pass\nanswer()\nos.kill(os.getpid(), signal.SIGTERM)\n",
        env=STRICT,
    )
    assert (done.wire, done.status) == (FRAME, -15)


def test_keyboard_interrupt_keeps_its_meaning(run: Callable[..., Result]) -> None:
    """An interrupted strict server with strays ends non-zero, with its traceback, and nothing else on the wire."""
    done = run("""
import os, signal
try: print('x')
except Exception: pass
answer()
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
import time; time.sleep(30)
""", env=STRICT)  # fmt: skip
    assert done.wire == FRAME
    assert done.status in (120, -2, 130), done.status
    assert "KeyboardInterrupt" in done.text


def test_a_hook_of_the_servers_own_for_ignored_errors_is_kept(run: Callable[..., Result]) -> None:
    """The server's own sys.unraisablehook still gets everything but our verdict."""
    done = run("""
import sys
sys.unraisablehook = lambda u: sys.stderr.write(f"own hook: {u.exc_value!r}\\n")
class Bad:
    def __del__(self): 1 / 0
Bad()
try: print("x")
except Exception: pass
import builtins; builtins.late = Bad()
answer()
""", env=STRICT)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 120), done.text
    assert done.text.count("own hook: ZeroDivisionError") >= 1
    assert "own hook: StrayWriteError" not in done.text
    assert VERDICT in done.report


def test_sub_interpreters_stay_off_the_wire(run: Callable[..., Result]) -> None:
    """A sub-interpreter has a stdout of its own over fd 1: it cannot reach the wire either."""
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    done = run(f"""
import {module} as interpreters
one = interpreters.create()
interpreters.run_string(one, "import sys; print('from below'); sys.stdout.flush()")
interpreters.destroy(one)
answer()
""")
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == ["[fd 1]: from below"]
