"""Fault 40: strict's verdict, whoever swallows its exception, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faults.harness import Child

SWALLOWERS = {
    "not swallowed": ("print('stray')", "caught at the top"),
    "bare except": ("try:\n    print('stray')\nexcept:\n    pass", ""),
    "logging": ("import logging\nlogging.basicConfig(stream=sys.stdout)\nlogging.warning('stray')", ""),
    "logging, quiet": (
        "import logging\nlogging.raiseExceptions = False\nlogging.basicConfig(stream=sys.stdout)\n"
        "logging.warning('stray')",
        "",
    ),
    "__del__": ("class X:\n    def __del__(self): print('stray')\nx = X()\ndel x", ""),
    "thread": ("import threading\nt = threading.Thread(target=print, args=('stray',))\nt.start()\nt.join()", ""),
    "executor": (
        "import concurrent.futures as f\nwith f.ThreadPoolExecutor() as pool: pool.submit(print, 'stray')",
        "",
    ),
    "asyncio task": (
        "import asyncio\nasync def f(): print('stray')\nasync def m():\n    t = asyncio.create_task(f())\n"
        "    await asyncio.wait([t])\nasyncio.run(m())",
        "",
    ),
    "native": ("os.write(1, b'stray\\n')", ""),
    "printf at exit": ("import ctypes\nctypes.CDLL(None).printf(b'stray')", ""),
    "child": ("os.system('echo stray')", ""),
    "popen": ("import subprocess\nsubprocess.run(['/bin/echo', 'stray'])", ""),
    "fork": (
        "if not os.fork():\n    try: print('stray')\n    except Exception: pass\n    os._exit(0)\nos.wait()",
        "",
    ),
    "buffer": ("try: sys.stdout.buffer.write(b'stray\\n')\nexcept Exception: pass", ""),
    "warnings": (
        "import warnings\nwarnings.showwarning = lambda *a, **k: print('stray')\ntry: warnings.warn('x')\n"
        "except Exception: pass",
        "",
    ),
    "without newline": ("os.write(1, b'stray')", ""),
    "atexit": ("import atexit\natexit.register(lambda: print('stray'))", ""),
}


@pytest.mark.parametrize("swallower", SWALLOWERS)
def test_the_verdict(launch: Callable[..., Child], wire: str, unbuffered: bool, swallower: str) -> None:
    """Fault 40: whoever swallows the error, the process ends with 120, the stray text and the verdict are on stderr,
    the user's file that was not closed is whole, and exit handlers ran.

    Seen to fail with the verdict taken out of flush(); and, for each row, with the latch set only by an error let
    through.
    """
    code, _ = SWALLOWERS[swallower]
    if swallower == "not swallowed":
        code = "sys.excepthook = lambda *a: None\n" + code
    child = launch(
        "import atexit\natexit.register(lambda: os.write(2, b'exit handler ran\\n'))\n"
        "file = open('kept', 'w')\nfile.write('user data')\nsend(1)\n" + code + "\n",
        wire=wire,
        unbuffered=unbuffered,
        mode="strict",
    )
    assert child.finish() == 120
    assert child.ids() == [1]
    assert "stray" in child.text
    assert "strict: " in child.text and "exit status 120" in child.text
    assert (child.folder / "kept").read_text() == "user data"
    assert "exit handler ran" in child.text


CLEAN = {
    "nothing": ("", 0),
    "exit 3": ("sys.exit(3)", 3),
    "uncaught": ("raise ValueError", 1),
    "stderr": ("sys.stderr.write('fine')\nos.write(2, b'fine')", 0),
    "redirect": ("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): print('kept')", 0),
    "flush": ("sys.stdout.flush()\nsys.stdout.buffer.flush()\nprint('', end='', flush=True)", 0),
    "captured child": ("import subprocess\nsubprocess.run(['/bin/echo', 'kept'], stdout=subprocess.PIPE)", 0),
    "multiprocessing": (
        "import multiprocessing as m\np = m.get_context('fork').Process(target=len, args=('',))\np.start()\np.join()",
        0,
    ),
    "daemon thread": ("import threading\nthreading.Thread(target=sys.stdin.readline, daemon=True).start()", 0),
    "help": ("import argparse\nargparse.ArgumentParser().parse_args(['--help'])", 0),
}


@pytest.mark.parametrize("kind", CLEAN)
def test_no_verdict_without_a_stray(launch: Callable[..., Child], wire: str, unbuffered: bool, kind: str) -> None:
    """Fault 40: without a stray write strict changes no exit status and says nothing.

    Seen to fail with the verdict given whatever the latch holds.
    """
    code, status = CLEAN[kind]
    sent = "" if kind == "help" else "send(1)\n"
    child = launch(sent + code + "\n", wire=wire, unbuffered=unbuffered, mode="strict")
    assert child.wait_exit() == status
    child.finish()
    if kind == "help":
        assert bytes(child.wire.data).startswith(b"usage: server.py")
    else:
        assert child.ids() == [1]
    assert "stdout-guard" not in child.text


@pytest.mark.parametrize("end", ["falls off", "sys.exit(0)", "sys.exit(3)", "raise ValueError"])
def test_the_verdict_over_every_end(launch: Callable[..., Child], wire: str, end: str) -> None:
    """Hazard 49: 120 stands over a normal end, any sys.exit and an uncaught exception, whose traceback is still shown.

    Seen to fail with the verdict given by sys.exit in an exit handler.
    """
    code = "" if end == "falls off" else end
    child = launch(f"send(1)\nos.write(1, b'stray\\n')\n{code}\n", wire=wire, mode="strict")
    assert child.finish() == 120
    assert child.ids() == [1]
    assert ("ValueError" in child.text) == ("ValueError" in end)


def test_the_error_says_all(launch: Callable[..., Child]) -> None:
    """Decision 8: the error is an Exception, names file, line, text and the way out, carries the record, and pickles.

    Seen to fail with the record left out of the error.
    """
    child = launch(
        """
import pickle
try:
    print("the text")
except Exception as error:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is stdout_guard.StrayWriteError and str(again) == str(error)
    assert again.stray.text == "the text" and again.stray.line == error.stray.line
    os.write(2, b"said: " + str(error).encode() + b"\\n")
    send(1)
""",
        mode="strict",
    )
    assert child.finish() == 120
    assert child.ids() == [1]
    line = child.line('print("the text")')
    assert f"said: stray write to stdout at server.py:{line} in <module>: 'the text'; " in child.text
    assert "guard.wire" in child.text


def test_flush_raises_nothing_before_the_end(launch: Callable[..., Child]) -> None:
    """Hazard 20: multiprocessing and others flush sys.stdout at will: after a stray write flush() is as harmless as
    before.

    Seen to fail with the verdict raised by any flush().
    """
    child = launch(
        """
os.write(1, b"stray\\n")
import atexit, multiprocessing
atexit.register(sys.stdout.flush)
for method in ("fork", "spawn", "forkserver"):
    if __name__ == "__main__":
        process = multiprocessing.get_context(method).Process(target=len, args=("",))
        process.start()
        process.join()
        assert process.exitcode == 0, (method, process.exitcode)
sys.stdout.flush()
if __name__ == "__main__": send(1)
""",
        mode="strict",
    )
    assert child.finish() == 120
    assert child.ids() == [1]
    assert "Traceback" not in child.text
