"""Faults 31 to 36, 38 and 39: what Python code does with stdout, and who is named for it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from faults.harness import Child

BARE = "import os, sys\n"
GUARD = """
import stdout_guard
guard = stdout_guard.install()
def frame(i): return b'{"jsonrpc":"2.0","id":%d,"result":0}\\n' % i
send = lambda i: guard.wire.write(frame(i))
"""

CAPTURED = {  # what took hold of stdout before the guard: (before, after, is the line named?)
    "logging": (
        "import logging\nlogging.basicConfig(stream=sys.stdout, format='%(message)s')",
        "logging.warning('captured')",
        True,
    ),
    "default argument": ("def say(text, out=sys.stdout): out.write(text)", "say('captured\\n')", True),
    "object": ("out = sys.stdout", "print('captured', file=out)", True),
    "__stdout__": ("out = sys.__stdout__", "print('captured', file=out)", True),
    "bound write": ("write = sys.stdout.write", "write('captured\\n')\nsys.__stdout__.flush()", False),
    "buffer": ("out = sys.stdout.buffer", "out.write(b'captured\\n')\nout.flush()", False),
    "raw": ("out = sys.stdout.buffer", "getattr(out, 'raw', out).write(b'captured\\n')", False),
    "bound and never flushed": ("write = sys.stdout.write", "write('captured\\n')", False),
    "pending": ("sys.stdout.write('captured\\n')", "", False),
    "wrapper": ("import io\nout = io.TextIOWrapper(sys.stdout.buffer)", "out.write('captured\\n')", False),
    "codecs": ("import codecs\nout = codecs.getwriter('utf-8')(sys.stdout.buffer)", "out.write('captured\\n')", False),
    "early fileno": ("fd = sys.stdout.fileno()", "os.write(fd, b'captured\\n')", False),
}


@pytest.mark.parametrize("capture", CAPTURED)
def test_captured_before_the_guard(launch: Callable[..., Child], wire: str, unbuffered: bool, capture: str) -> None:
    """Fault 31: whoever took hold of stdout before the guard stood does not reach the wire; through the object itself
    he is named, through what lies below he is at least heard.

    Seen to fail with the original's write left alone (named), and with pending text flushed before fd 1 moves
    (pending).
    """
    before, after, named = CAPTURED[capture]
    unbuffered = unbuffered and capture != "pending"  # unbuffered, it was on the wire before there was a guard
    child = launch(f"{before}\n{GUARD}\nsend(1)\n{after}\nsend(2)\n", prelude=BARE, wire=wire, unbuffered=unbuffered)
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert child.text.count("captured") == 1
    if named:
        assert re.search(r"server.py:\d+ in \S+( \(from server.py:\d+\))?: captured\n", child.text)


IDIOMS = {
    "TextIOWrapper collected": "import io, gc\nout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')\n"
    "out.write('by idiom\\n')\n"
    "out.flush()\ndel out\ngc.collect()",
    "TextIOWrapper over detach": "import io\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8')\n"
    "print('by idiom', flush=True)",
    "codecs.getwriter": "import codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)\nprint('by idiom')",
    "codecs over detach": "import codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\n"
    "print('by idiom')",
    "reconfigure": "sys.stdout.reconfigure(encoding='utf-8', errors='replace', line_buffering=True)\nprint('by idiom')",
    "raw": "sys.stdout.buffer.raw.write(b'by idiom\\n')",
    "open(1)": "f = open(1, 'w', closefd=False)\nf.write('by idiom\\n')\nf.close()",
    "fdopen": "f = os.fdopen(os.dup(sys.stdout.fileno()), 'w')\nf.write('by idiom\\n')\nf.close()",
    "/dev/stdout": "open('/dev/stdout', 'w').write('by idiom\\n')",
    "/dev/fd/1": "open('/dev/fd/1', 'w').write('by idiom\\n')",
    "close": "sys.stdout.close()\nprint('by idiom')",
    "close buffer": "sys.stdout.buffer.close()\nprint('by idiom')",
    "with": "with sys.stdout as out: out.write('by idiom\\n')",
    "unbuffered": "sys.stdout = os.fdopen(sys.stdout.fileno(), 'wb', 0, closefd=False)\n"
    "sys.stdout.write(b'by idiom\\n')",
    "colorama style": "class W:\n    def __init__(s, w): s.w = w\n    def write(s, t): s.w.write(t)\n"
    "    def __getattr__(s, n): return getattr(s.w, n)\n"
    "sys.stdout = W(sys.stdout)\nprint('by idiom')",
    "writelines": "sys.stdout.writelines(['by idiom', '\\n'])",
    "displayhook": "sys.displayhook('by idiom')",
    "never flushed wrapper": "import io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')\nprint('by idiom')",
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_idioms(launch: Callable[..., Child], wire: str, unbuffered: bool, idiom: str) -> None:
    """Fault 32: the idioms that rewrap, detach, close and reopen stdout work, their text is on stderr once, and frames
    and later prints are none the worse.

    Seen to fail with a close() that closes, and with detach() of the stand-in killing the original's hook.
    """
    child = launch(
        f"send(1)\nout = sys.stdout\n{IDIOMS[idiom]}\nsend(2)\n"
        "if 'detach' not in sys.argv[1]: sys.stdout = sys.__stdout__\n"  # else it stays unusable, as a plain one would
        "print('later')\nsend(3)\n",
        wire=wire,
        unbuffered=unbuffered,
        arguments=[idiom],
    )
    assert child.finish() == 0
    assert child.ids() == [1, 2, 3]
    assert child.text.count("by idiom") == 1 and "later" in child.text
    assert "Exception" not in child.text


def test_redirects_are_not_strays(launch: Callable[..., Child], wire: str) -> None:
    """Fault 33: what redirect_stdout keeps, nested and across tasks, is no stray write, in strict mode neither; the
    first print behind it is.

    Seen to fail with print itself replaced.
    """
    child = launch(
        """
import asyncio, contextlib, io
first, second = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(first):
    print("one")
    with contextlib.redirect_stdout(second):
        print("two")
    print("three")
assert (first.getvalue(), second.getvalue()) == ("one\\nthree\\n", "two\\n")
async def tool():
    with contextlib.redirect_stdout(io.StringIO()):
        print("kept")
        await asyncio.sleep(0)
async def main():
    for _ in range(5): await tool()
asyncio.run(main())
assert guard.counts.strays == 0 and sys.stdout is sys.__stdout__
with contextlib.redirect_stdout(sys.stderr): print("to stderr")
send(1)
""",
        wire=wire,
        mode="strict",
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert child.text == "to stderr\n"


def test_parity_with_a_real_stdout(launch: Callable[..., Child], unbuffered: bool) -> None:
    """Fault 34 and hazard 21: everything that a real stdout answers is answered, in the same types, and the same
    mistakes raise the same errors.

    Seen to fail with a class of our own in the place of TextIOWrapper.
    """
    child = launch(
        """
import io
real = sys.stdout
kinds = {name: type(getattr(real, name)) for name in dir(real)}
def error(call):
    try: call()
    except Exception as e: return type(e)
before = [error(lambda: real.write(b"x")), error(lambda: real.buffer.write("x")), error(real.read), error(real.seek)]
"""
        + GUARD
        + """
ours = sys.stdout
missing = [name for name in kinds if not hasattr(ours, name)]
assert not missing, missing
other = {n: (k, type(getattr(ours, n))) for n, k in kinds.items() if type(getattr(ours, n)) is not k and n != "buffer"}
assert not other, other
assert isinstance(ours, io.TextIOWrapper) and isinstance(ours, io.TextIOBase)
assert ours.name == "<stdout>" and ours.mode == "w" and ours.encoding == "utf-8" and ours.newlines is None
assert ours.fileno() == ours.buffer.fileno() == ours.buffer.raw.fileno() == 1
assert not ours.closed and not ours.buffer.closed and ours.writable() and not ours.readable() and not ours.seekable()
assert ours.isatty() is False and ours.errors == "backslashreplace" and ours.line_buffering in (True, False)
after = [error(lambda: ours.write(b"x")), error(lambda: ours.buffer.write("x")), error(ours.read), error(ours.seek)]
assert before == after, (before, after)
assert ours.buffer.write(b"bytes\\n") == 6 and ours.write("text\\n") == 5
assert ours.buffer.write(memoryview(b"view\\n")) == 5 and ours.buffer.write(bytearray(b"array\\n")) == 6
ours.write("\\udcff lone \\ud800\\n")
ours.flush(); ours.buffer.flush(); ours.buffer.raw.flush(); ours.writelines([])
send(1)
""",
        prelude=BARE,
        unbuffered=unbuffered,
    )
    assert child.finish() == 0
    assert child.ids() == [1]


CHILDREN = {
    "Popen(stdout=sys.stdout)": "subprocess.run(ECHO, stdout=sys.stdout)",
    "Popen(stdout=sys.__stdout__)": "subprocess.run(ECHO, stdout=sys.__stdout__)",
    "Popen(stdout=1)": "subprocess.run(ECHO, stdout=1)",
    "Popen(stderr=STDOUT)": "subprocess.run(['/bin/sh', '-c', 'echo from a child >&2'], stderr=subprocess.STDOUT)",
    "inherited": "subprocess.run(ECHO)",
    "positional": "subprocess.Popen(ECHO, -1, None, None, None).wait()",
    "call": "subprocess.check_call(ECHO)",
    "asyncio": "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec(*ECHO)\n"
    "    await p.wait()\nasyncio.run(main())",
    "asyncio shell": "import asyncio\nasync def main():\n"
    "    p = await asyncio.create_subprocess_shell('echo from a child')\n    await p.wait()\nasyncio.run(main())",
    "os.system": "os.system('echo from a child')",
    "os.popen": "assert os.popen('echo from a child >&2').read() == ''",
    "os.spawnv": "os.spawnv(os.P_WAIT, '/bin/echo', ECHO)",
    "posix_spawn": "os.waitpid(os.posix_spawn('/bin/echo', ECHO, os.environ), 0)",
    "libc.system": "import ctypes\nctypes.CDLL(None).system(b'echo from a child')",
    "pty.spawn": "import pty\npty.spawn(ECHO)",
    "close_fds=False": "subprocess.run(ECHO, close_fds=False)",
}
NAMED = {name for name in CHILDREN if name.startswith(("Popen", "inherited", "positional", "call", "asyncio", "close"))}


@pytest.mark.parametrize("start", CHILDREN)
@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_children_of_every_kind(launch: Callable[..., Child], wire: str, start: str, channel: str) -> None:
    """Fault 35: what children started in any way print is on stderr; those of subprocess and asyncio are named with
    pid, program and the line that started them.

    Seen to fail with Popen left unwrapped (named), and fd 1 left alone.
    """
    child = launch(
        f"import subprocess\nECHO = ['/bin/echo', 'from a child']\nsend(1)\n{CHILDREN[start]}\nsend(2)\n",
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert child.text.count("from a child") == 1
    if start in NAMED and channel == "thread":
        assert re.search(r"\[child \d+ (echo|sh), started at server.py:\d+\]: from a child\n", child.text)


@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_prints_from_odd_places(launch: Callable[..., Child], wire: str, unbuffered: bool, mode: str) -> None:
    """Fault 36: prints in a destructor, a weak reference's callback, an exit handler, a trace function, an audit hook
    and at the interpreter's very end are on stderr, none of them on the wire, none hangs.

    Seen to fail with module globals used by the write path (gone when a destructor prints at the very end).
    """
    child = launch(
        """
import atexit, builtins, gc, weakref
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print("destructor", self.name)
a = Loud("early"); del a
class Thing: pass
thing = Thing()
ref = weakref.ref(thing, lambda _: print("weakref"))
del thing
atexit.register(print, "exit handler")
def tracer(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "traced": print("tracer")
sys.settrace(tracer)
def traced(): pass
try: traced()
except stdout_guard.StrayWriteError: pass
sys.settrace(None)
builtins.last = Loud("late")
cycle = Loud("cycle"); cycle.me = cycle; del cycle
gc.collect()
send(1)
""",
        wire=wire,
        unbuffered=unbuffered,
        mode=mode,
    )
    assert child.finish() == (120 if mode == "strict" else 0)
    assert child.ids() == [1]
    if mode == "redirect":
        for text in ("destructor early", "weakref", "exit handler", "tracer", "destructor cycle", "destructor late"):
            assert text in child.text


def test_a_sub_interpreter(launch: Callable[..., Child], wire: str) -> None:
    """Fault 36 and hazard 46: a sub-interpreter builds a stdout of its own over fd 1, which is not the wire.

    Seen to fail with fd 1 left alone.
    """
    child = launch(
        """
for name in ("_interpreters", "_xxsubinterpreters"):
    try: module = __import__(name)
    except ImportError: continue
    break
number = module.create()
module.run_string(number, "print('from a sub-interpreter', flush=True)")
module.destroy(number)
send(1)
""",
        wire=wire,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "[fd 1]: from a sub-interpreter" in child.text


@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_logging_to_stdout_does_not_recurse(launch: Callable[..., Child], wire: str, mode: str) -> None:
    """Fault 38 and hazards 3 and 47: logging, warnings and stderr itself all pointed at the stand-in: bounded output,
    no recursion.

    Seen to fail with the report written to sys.stderr.
    """
    child = launch(
        """
import logging, warnings
logging.basicConfig(stream=sys.stdout, level=0)
logging.captureWarnings(True)
logging.raiseExceptions = False
for number in range(20): logging.warning("logged %d", number)
warnings.warn("warned")
kept, sys.stderr = sys.stderr, sys.stdout
try: print("both are one", file=sys.stderr)
except stdout_guard.StrayWriteError: pass
logging.error("again")
sys.stderr = kept
send(1)
""",
        wire=wire,
        mode=mode,
    )
    assert child.finish() == (120 if mode == "strict" else 0)
    assert child.ids() == [1]
    assert "RecursionError" not in child.text
    assert len(child.text.splitlines()) < 40
    assert [child.text.count(f"logged {number}\n") for number in range(20)] == [1] * 20
    assert re.search(rf"server.py:{child.line('logged %d')} in <module>: WARNING:root:logged 3\n", child.text)


def test_lines_of_four_threads(launch: Callable[..., Child], wire: str, unbuffered: bool) -> None:
    """Fault 39 and hazard 50: four threads print in several pieces each: 4 x 500 whole lines, each with the line of the
    script that wrote it.

    Seen to fail with one unfinished line for all threads.
    """
    functions = "".join(
        f"def chatter{n}():\n    for i in range(500): print('thread', {n}, 'line', i, 'of {n}')\n" for n in range(4)
    )
    child = launch(
        functions
        + """
import threading
threads = [threading.Thread(target=globals()[f"chatter{n}"]) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
send(1)
""",
        wire=wire,
        unbuffered=unbuffered,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    for n in range(4):
        at = child.line(f"'of {n}')")
        found = re.findall(
            rf"^stdout-guard: server.py:{at} in chatter{n}: thread {n} line (\d+) of {n}$", child.text, re.M
        )
        assert [int(number) for number in found] == list(range(500))


def test_faulthandler_over_stdout(launch: Callable[..., Child], wire: str) -> None:
    """Hazard 23: faulthandler keeps a descriptor's number: its dump of a crash is on stderr, not on the wire.

    Seen to fail with fileno() of sys.stdout giving the private descriptor.
    """
    child = launch(
        "import faulthandler, ctypes\nfaulthandler.enable(sys.stdout)\nsend(1)\nctypes.string_at(0)\n",
        wire=wire,
        channel="dup",
    )
    assert child.finish() == -11
    assert child.ids() == [1]
    assert "Fatal Python error: Segmentation fault" in child.text


def test_isatty_is_honest(launch: Callable[..., Child]) -> None:
    """Hazard 55: stray output is for a log: colour and progress libraries are told that it is no terminal.

    Seen to fail with isatty() asked of stderr.
    """
    child = launch("assert not sys.stdout.isatty() and not os.isatty(1)\nsend(1)\n", stderr="tty")
    assert child.finish() == 0
    assert child.ids() == [1]
