"""Call sites: wherever the code runs (threads, tasks, generators, destructors, exit hooks, generated code)."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

FLOWS = [
    (
        "thread",
        "import threading\ndef work():\n    print('hello')  #@a\nt = threading.Thread(target=work); t.start(); t.join()",
        "server.py:{a} in work: hello",
    ),
    (
        "thread-runs-print",  # no frame of the application is on that stack: the standard library's is all there is
        "import threading\nt = threading.Thread(target=print, args=('hello',)); t.start(); t.join()",
        None,
    ),
    (
        "pool",
        "from concurrent.futures import ThreadPoolExecutor\ndef work():\n    print('hello')  #@a\n"
        "with ThreadPoolExecutor() as pool: pool.submit(work).result()",
        "server.py:{a} in work: hello",
    ),
    (
        "timer",
        "import threading\ndef work():\n    print('hello')  #@a\nt = threading.Timer(0, work); t.start(); t.join()",
        "server.py:{a} in work: hello",
    ),
    (
        "task",
        "import asyncio\nasync def tool():\n    await asyncio.sleep(0)\n    print('hello')  #@a\nasyncio.run(tool())",
        "server.py:{a} in tool: hello",
    ),
    (
        "to-thread",
        "import asyncio\ndef tool():\n    print('hello')  #@a\nasyncio.run(asyncio.to_thread(tool))",
        "server.py:{a} in tool: hello",
    ),
    (
        "loop-callback",
        "import asyncio\nasync def main():\n    asyncio.get_running_loop().call_soon(print, 'hello')\n"
        "    await asyncio.sleep(0.01)\nasyncio.run(main())  #@a",
        "server.py:{a} in <module>: hello",
    ),
    (
        "generator",
        "def gen():\n    yield 1\n    print('hello')  #@a\nlist(gen())",
        "server.py:{a} in gen: hello",
    ),
    (
        "context-manager",
        "import contextlib\n@contextlib.contextmanager\ndef cm():\n    yield\n    print('hello')  #@a\nwith cm(): pass",
        "server.py:{a} in cm: hello",
    ),
    (
        "decorated",
        "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner():\n        print('hello')  #@a\n"
        "        return f()\n    return inner\n@deco\ndef tool(): pass\ntool()",
        "server.py:{a} in inner: hello",
    ),
    (
        "cache",
        "import functools\n@functools.cache\ndef tool():\n    print('hello')  #@a\ntool()",
        "server.py:{a} in tool: hello",
    ),
    ("map", "def show(x):\n    print(x)  #@a\nlist(map(show, ['hello']))", "server.py:{a} in show: hello"),
    ("map-print", "list(map(print, ['hello']))  #@a", "server.py:{a} in <module>: hello"),
    ("partial", "import functools\nfunctools.partial(print, 'hello')()  #@a", "server.py:{a} in <module>: hello"),
    (
        "del",
        "class Noisy:\n    def __del__(self):\n        print('hello')  #@a\nNoisy()",
        "server.py:{a} in Noisy.__del__: hello",
    ),
    (
        "weakref",
        "import weakref\nclass T: pass\nt = T()\ndef gone():\n    print('hello')  #@a\nweakref.finalize(t, gone)\ndel t",
        "server.py:{a} in gone: hello",
    ),
    ("atexit", "import atexit\ndef bye():\n    print('hello')  #@a\natexit.register(bye)", "server.py:{a} in bye: hello"),
    (
        "del-at-shutdown",
        "import builtins\nclass Noisy:\n    def __del__(self, print=print):\n        print('hello')  #@a\nbuiltins.x = Noisy()",
        "server.py:{a} in Noisy.__del__: hello",
    ),
    ("exec", "exec(\"print('hello')\")  #@a", "<string>:1 in <module>: hello"),
    (
        "exec-compiled",
        "exec(compile(\"\\n\\nprint('hello')\", 'made.py', 'exec'))",
        "made.py:3 in <module>: hello",
    ),
    ("eval", "eval(\"print('hello')\")", "<string>:1 in <module>: hello"),
    (
        "signal-handler",
        "import os, signal\ndef handler(number, frame):\n    print('hello')  #@a\n"
        "signal.signal(signal.SIGUSR1, handler)\nos.kill(os.getpid(), signal.SIGUSR1)",
        "server.py:{a} in handler: hello",
    ),
    (
        "excepthook",
        "import sys\nsys.excepthook = lambda *a: print('hello')  #@a\nanswer()\nanswer = lambda: 1 / 0",
        "server.py:{a} in <lambda>: hello",
    ),
    (
        "unraisablehook",
        "import sys\nsys.unraisablehook = lambda a: print('hello')  #@a\nclass Bad:\n    def __del__(self): 1 / 0\nBad()",
        "server.py:{a} in <lambda>: hello",
    ),
    (
        "trace-function",
        "import sys\ndef tracer(frame, event, arg):\n    if frame.f_code.co_name == 'f': print('hello')  #@a\n"
        "def f(): pass\nsys.settrace(tracer); f(); sys.settrace(None)",
        "server.py:{a} in tracer: hello",
    ),
    (
        "metaclass",
        "class Meta(type):\n    def __new__(m, *a):\n        print('hello')  #@a\n        return type.__new__(m, *a)\n"
        "class C(metaclass=Meta): pass",
        "server.py:{a} in Meta.__new__: hello",
    ),
    ("property", "class C:\n    @property\n    def p(self):\n        print('hello')  #@a\nC().p", "server.py:{a} in C.p: hello"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in FLOWS], ids=[row[0] for row in FLOWS])
def test_the_call_site_is_exact_wherever_the_code_runs(
    run: Callable[..., Result], source: str, expected: str | None
) -> None:
    """The line that wrote is named in threads, tasks, generators, destructors, hooks and generated code, up to the last
    moment of the process."""
    done = run(
        f"{source}\nanswer()\n" if "excepthook =" not in source or "unraisable" in source else source + "\nanswer()"
    )
    assert done.wire == FRAME
    if expected is None:
        assert len(done.report) == 1 and done.report[0].endswith(": hello")
    else:
        assert done.report == done.at(expected)


def test_lines_of_threads_never_mix(run: Callable[..., Result]) -> None:
    """Four threads that print at once give whole lines only, each with the line of the thread that printed it, though
    print() writes in two pieces."""
    done = run("""
import sys, threading
sys.setswitchinterval(1e-6)
def zero():
    for n in range(100): print(0, "n", n)  #@t0
def one():
    for n in range(100): print(1, "n", n)  #@t1
def two():
    for n in range(100): print(2, "n", n)  #@t2
def three():
    for n in range(100): print(3, "n", n)  #@t3
threads = [threading.Thread(target=f) for f in (zero, one, two, three)]
for t in threads: t.start()
for t in threads: t.join()
assert guard.counts.strays == 400, guard.counts
answer()
""")
    assert done.wire == FRAME
    names = ["zero", "one", "two", "three"]
    expected = [f"server.py:{{t{i}}} in {names[i]}: {i} n {n}" for i in range(4) for n in range(100)]
    assert sorted(done.report) == sorted(done.at(*expected))
    for i in range(4):  # and in order within a thread
        mine = [line for line in done.report if f" in {names[i]}: " in line]
        assert mine == done.at(*expected[i * 100 : i * 100 + 100])


def test_a_recycled_thread_never_inherits_a_line(run: Callable[..., Result]) -> None:
    """A thread that ended in the middle of a line does not give its piece to the next thread with its ident."""
    done = run("""
import threading
idents = set()
def piece(n):
    idents.add(threading.get_ident())
    print(f"<{n}>", end="")  #@a
for n in range(20):
    t = threading.Thread(target=piece, args=(n,)); t.start(); t.join()
assert len(idents) < 20, "no ident was recycled: nothing was tested"
answer()
""")
    assert done.wire == FRAME
    assert sorted(done.report) == sorted(done.at(*(f"server.py:{{a}} in piece: <{n}>" for n in range(20))))


def test_tasks_of_one_thread_share_its_line_and_the_first_piece_names_it(run: Callable[..., Result]) -> None:
    """Pieces are put together by thread: whole prints of concurrent tasks stay whole and are named one by one."""
    done = run("""
import asyncio
async def one():
    for n in range(10):
        print("one", n)  #@one
        await asyncio.sleep(0)
async def two():
    for n in range(10):
        print("two", n)  #@two
        await asyncio.sleep(0)
async def main(): await asyncio.gather(one(), two())
asyncio.run(main())
answer()
""")
    assert done.wire == FRAME
    assert sorted(done.report) == sorted(
        done.at(*(f"server.py:{{{x}}} in {x}: {x} {n}" for x in ("one", "two") for n in range(10)))
    )


def test_an_unfinished_line_is_shown_while_the_server_waits(run: Callable[..., Result]) -> None:
    """A prompt without a newline appears half a second after its last piece, while the process is still busy."""
    done = run("""
import os, sys, time
begin = time.monotonic()
sys.stdout.write("prompt> ")  #@a
os.write(1, b"from fd 1> ")
while len(guard.strays) < 2 and time.monotonic() < begin + 20:
    time.sleep(0.01)
sys.stderr.write(f"{time.monotonic() - begin:.2f} {sorted(s.text for s in guard.strays)}\\n")
sys.stderr.flush()
answer()
""")
    assert done.wire == FRAME
    waited = next(line for line in done.lines if line[0].isdigit() and "kept off" not in line)
    assert waited.endswith("['from fd 1> ', 'prompt> ']")
    assert 0.4 <= float(waited.split()[0]) < 15, waited
    assert sorted(done.report) == sorted(done.at("server.py:{a} in <module>: prompt> ", "[fd 1]: from fd 1> "))


def test_the_newline_after_a_line_that_was_shown_is_its_end(run: Callable[..., Result]) -> None:
    """A prompt that was shown unfinished and the newline that follows are one stray; an empty line of its own is one."""
    done = run("""
import sys, time
sys.stdout.write("prompt> ")  #@a
while not guard.strays:
    time.sleep(0.01)
print()
print()  #@b
print("next")  #@c
answer()
""")
    assert done.wire == FRAME
    where = "server.py:{%s} in <module>: %s"
    assert done.report == done.at(where % ("a", "prompt> "), where % ("b", ""), where % ("c", "next"))


def test_printing_deep_in_a_recursion_still_works(run: Callable[..., Result]) -> None:
    """A print near the recursion limit is named or raises RecursionError as without the guard; the wire is untouched."""
    done = run("""
import sys
def down(n):
    if n == 0:
        print("deep")  #@a
    else:
        down(n - 1)
down(500)
def for_ever(): print("x" * 3); for_ever()
try:
    for_ever()
except RecursionError:
    pass
answer()
""")
    assert done.wire == FRAME
    assert done.report[0] == done.at("server.py:{a} in down: deep")[0]
    assert done.status == 0


def test_a_print_in_a_handler_while_printing_loses_nothing(run: Callable[..., Result]) -> None:
    """Signal handlers that print while the main thread prints: no reentrant-call error, no character lost
    (a handler's line that falls between two pieces of a print is put where it fell, as on a terminal)."""
    done = run("""
import signal, sys
hits = 0
def handler(number, frame):
    global hits
    hits += 1
    print("in handler", "x" * 20, hits)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for n in range(1500):
    print("in main", "y" * 20, n)
signal.setitimer(signal.ITIMER_REAL, 0)
sys.stderr.write(f"hits={hits} strays={guard.counts.strays}\\n")
answer()
""")
    assert done.wire == FRAME
    assert done.status == 0, done.text
    hits = int(re.search(r"hits=(\d+)", done.text)[1])  # type: ignore[index]
    assert hits > 5, "no signal fell into a print: nothing was tested"
    assert f"strays={1500 + hits}" in done.text
    said = [line.partition(": ")[2] for line in done.report]
    whole = [f"in main {'y' * 20} {n}" for n in range(1500)] + [f"in handler {'x' * 20} {n + 1}" for n in range(hits)]
    assert len(said) == len(whole)
    assert sorted("".join(said)) == sorted("".join(whole)), "characters were lost"
