"""Call sites: every way in which Python code can reach stdout is named by file, line and function."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from guard.harness import FRAME, PRELUDE, Result, filled

# id, the script after the prelude, the whole report with {mark} for the number of the line that ends in #@mark
STREAMS = [
    ("print", "print('hello')  #@a", ["server.py:{a} in <module>: hello"]),
    (
        "print-in-function",
        "def tool():\n    print('hello')  #@a\ntool()",
        ["server.py:{a} in tool: hello"],
    ),
    (
        "print-in-method",
        "class Tool:\n    def call(self):\n        print('hello')  #@a\nTool().call()",
        ["server.py:{a} in Tool.call: hello"],
    ),
    (
        "print-in-closure",
        "def outer():\n    def inner():\n        print('hello')  #@a\n    inner()\nouter()",
        ["server.py:{a} in inner: hello"],
    ),
    (
        "print-in-comprehension",
        "def tool():\n    return [print(x) for x in 'ab']  #@a\ntool()",
        ["server.py:{a} in COMP: a", "server.py:{a} in COMP: b"],
    ),
    ("print-in-lambda", "f = lambda: print('hello')  #@a\nf()", ["server.py:{a} in <lambda>: hello"]),
    ("several-arguments", "print('a', 1, None, sep='-')  #@a", ["server.py:{a} in <module>: a-1-None"]),
    ("several-lines", "print('a\\nb')  #@a", ["server.py:{a} in <module>: a", "server.py:{a} in <module>: b"]),
    ("empty-line", "print()  #@a", ["server.py:{a} in <module>: "]),
    (
        "pieces-of-one-line",
        "print('a', end='')  #@a\nprint('b', end='')\nprint('c')",
        ["server.py:{a} in <module>: abc"],
    ),
    ("no-newline-at-exit", "sys.stdout.write('tail')  #@a", ["server.py:{a} in <module>: tail"]),
    ("write", "sys.stdout.write('hello\\n')  #@a", ["server.py:{a} in <module>: hello"]),
    ("flush", "print('hello', flush=True)  #@a", ["server.py:{a} in <module>: hello"]),
    ("writelines", "sys.stdout.writelines(['a\\n', 'b\\n'])  #@a", [f"server.py:{{a}} in <module>: {x}" for x in "ab"]),
    ("dunder-stdout", "print('hello', file=sys.__stdout__)  #@a", ["server.py:{a} in <module>: hello"]),
    ("dunder-write", "sys.__stdout__.write('hello\\n')  #@a", ["server.py:{a} in <module>: hello"]),
    ("buffer", "sys.stdout.buffer.write(b'hello\\n')  #@a", ["server.py:{a} in <module>: hello"]),
    ("buffer-writelines", "sys.stdout.buffer.writelines([b'hello\\n'])  #@a", ["server.py:{a} in <module>: hello"]),
    ("raw", "sys.stdout.buffer.raw.write(b'hello\\n')  #@a", ["server.py:{a} in <module>: hello"]),
    ("memoryview", "sys.stdout.buffer.write(memoryview(b'hello\\n'))  #@a", ["server.py:{a} in <module>: hello"]),
    ("bytearray", "sys.stdout.buffer.write(bytearray(b'hello\\n'))  #@a", ["server.py:{a} in <module>: hello"]),
    ("detach", "sys.stdout.buffer.detach().write(b'hello\\n')  #@a", ["server.py:{a} in <module>: hello"]),
    (
        "rewrapped",
        "import io\nout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8', write_through=True)\nprint('hello', file=out)  #@a",
        ["server.py:{a} in <module>: hello"],
    ),
    (
        "rewrapped-from-detached",
        "import io\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8', line_buffering=True)\nprint('hello')  #@a",
        ["server.py:{a} in <module>: hello"],
    ),
    (
        "reconfigured",
        "sys.stdout.reconfigure(encoding='latin-1', errors='replace', line_buffering=True)\nprint('hello')  #@a",
        ["server.py:{a} in <module>: hello"],
    ),
    (
        "codecs-writer",
        "import codecs\nprint('hello', file=codecs.getwriter('utf-8')(sys.stdout.buffer))  #@a",
        ["server.py:{a} in <module>: hello"],
    ),
    ("displayhook", "sys.displayhook(42)  #@a", ["server.py:{a} in <module>: 42"]),
    (
        "sys-dot-stdout-bound-early-by-default-argument",
        "def say(text, out=sys.stdout):\n    out.write(text)  #@a\nsay('hello\\n')",
        ["server.py:{a} in say: hello"],
    ),
    ("pprint", "import pprint\npprint.pprint({'a': 1})  #@a", ["server.py:{a} in <module>: {'a': 1}"]),
    ("pretty-printer", "import pprint\npprint.PrettyPrinter().pprint([1])  #@a", ["server.py:{a} in <module>: [1]"]),
    (
        "traceback",
        "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exception(None, ZeroDivisionError('no'), None, file=sys.stdout)  #@a",
        [
            "server.py:{a} in <module>: ZeroDivisionError: no",
        ],
    ),
    ("print-stack", "import traceback\ntraceback.print_list([], sys.stdout)\nprint('x')  #@a", ["server.py:{a} in <module>: x"]),
    ("help", "help(answer)  #@a", None),
    ("this", "import this  #@a", None),
    ("json-dump", "import json\njson.dump({'a': 1}, sys.stdout)  #@a", ['server.py:{a} in <module>: {"a": 1}']),
    ("csv", "import csv\ncsv.writer(sys.stdout).writerow([1, 2])  #@a", ["server.py:{a} in <module>: 1,2"]),
    ("shutil", "import io, shutil\nshutil.copyfileobj(io.StringIO('a\\n'), sys.stdout)  #@a", ["server.py:{a} in <module>: a"]),
    ("cmd", "import cmd\ncmd.Cmd().onecmd('nothing')  #@a", ["server.py:{a} in <module>: *** Unknown syntax: nothing"]),
    (
        "timeit",
        "import timeit\ntimeit.main(['-n1', '-r1', '-u', 'sec', 'pass'])  #@a",
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_every_way_to_stdout_is_named(run: Callable[..., Result], source: str, expected: list[str] | None) -> None:
    """A write to stdout by Python code is reported with file:line and function of the code that asked for it; the
    standard library's own lines are never blamed; the client gets the frame and nothing else."""
    done = run(f"import sys\n{source}\nanswer()\n")
    assert done.wire == FRAME
    assert done.status == 0
    if expected is None:  # many lines: each must carry the same call site
        place = filled("server.py:{a} in <module>: ", done.source)
        assert done.report and all(line.startswith(place) for line in done.report), done.report
    else:
        comprehension = "tool" if sys.version_info >= (3, 12) else "<listcomp>"  # PEP 709
        assert done.report == [line.replace("COMP", comprehension) for line in done.at(*expected)]


BEFORE = [
    ("handler-stream", "early = sys.stdout", "early.write('hello\\n')  #@a"),
    ("print-file", "early = sys.stdout", "print('hello', file=early)  #@a"),
    ("dunder", "early = sys.__stdout__", "print('hello', file=early)  #@a"),
    ("default-argument", "def say(text, out=sys.stdout):\n    print(text, file=out)  #@a", "say('hello')"),
    (
        "logging-handler",
        "import logging\nlogging.basicConfig(stream=sys.stdout, format='%(message)s')",
        "logging.warning('hello')  #@a",
    ),
    ("rich-console", "import rich.console\nearly = rich.console.Console(file=sys.stdout)", "early.print('hello')  #@a"),
]


@pytest.mark.parametrize(("before", "after"), [row[1:] for row in BEFORE], ids=[row[0] for row in BEFORE])
def test_who_held_stdout_before_the_guard_is_named_too(
    run: Callable[..., Result], before: str, after: str, unbuffered: bool
) -> None:
    """An object that took hold of sys.stdout before the guard stood is named by file and line as well."""
    done = run(f"{after}\nanswer()\n", prelude=f"import sys\n{before}\n{PRELUDE}", unbuffered=unbuffered)
    assert done.wire == FRAME
    function = "say" if "def say" in before else "<module>"
    assert done.report == [filled(f"server.py:{{a}} in {function}: hello", done.source)]


def test_text_pending_before_the_guard_never_reaches_the_client(run: Callable[..., Result], unbuffered: bool) -> None:
    """fd 1 moves first and pending text is flushed after, so that a banner printed before the import of the guard is
    kept off the wire when it was still buffered."""
    before = "import sys\nsys.stdout.write('pending banner\\n')\n"
    wait = "import time\nend = time.monotonic() + 20\n"
    wait += (
        "while not guard.strays and time.monotonic() < end: time.sleep(0.01)\nassert guard.strays, 'still pending'\n"
    )
    done = run(f"{'' if unbuffered else wait}answer()\n", prelude=before + PRELUDE, unbuffered=unbuffered)
    if unbuffered:  # written at once, before the guard could do anything: seen by the client, as documented
        assert done.wire == b"pending banner\n" + FRAME
    else:
        assert (done.wire, done.status) == (FRAME, 0), done.text
        assert done.report == ["[fd 1]: pending banner"]


def test_bound_methods_and_descriptors_taken_early_are_kept_off_the_wire(run: Callable[..., Result]) -> None:
    """What escapes the streams (a bound write, a buffer, a descriptor taken before the guard, os.write) is caught by
    the descriptor, tagged [fd 1] without a guess."""
    before = "import os, sys\nwrite, buffer, raw = sys.stdout.write, sys.stdout.buffer, sys.stdout.buffer.raw\n"
    after = """
raw.write(b"from raw\\n")
buffer.write(b"from buffer\\n"); buffer.flush()
write("from bound write\\n"); sys.stdout.flush()
os.write(1, b"from os.write\\n")
with open(1, "w", closefd=False) as again: again.write("from open(1)\\n")
with open("/dev/stdout", "w") as again: again.write("from /dev/stdout\\n")
answer()
"""
    done = run(after, prelude=before + PRELUDE)
    assert done.wire == FRAME
    said = sorted(done.report)
    assert said == sorted(
        f"[fd 1]: from {x}" for x in ("raw", "buffer", "bound write", "os.write", "open(1)", "/dev/stdout")
    )


def test_output_redirected_by_contextlib_is_no_stray(run: Callable[..., Result]) -> None:
    """contextlib.redirect_stdout to a buffer keeps working and reports nothing; redirected back to the guard's stream
    it is named at its own line."""
    done = run("""
import contextlib, io, sys
kept = io.StringIO()
with contextlib.redirect_stdout(kept):
    print("captured")
assert kept.getvalue() == "captured\\n"
with contextlib.redirect_stdout(sys.__stdout__):
    print("stray")  #@a
with contextlib.redirect_stdout(sys.stderr):
    print("meant for stderr")
print("after")  #@b
answer()
""")
    assert done.wire == FRAME
    assert done.report == [
        filled(f"server.py:{{{m}}} in <module>: {t}", done.source) for m, t in (("a", "stray"), ("b", "after"))
    ]
    assert "meant for stderr" in done.lines


def test_the_stand_in_is_a_genuine_text_stream(run: Callable[..., Result]) -> None:
    """The stand-in has every attribute of a TextIOWrapper, says fileno() 1, is no terminal, refuses what the real one
    refuses, and survives close()."""
    done = run("""
import io, sys
out = sys.stdout
assert isinstance(out, io.TextIOWrapper) and isinstance(out, io.TextIOBase)
missing = [n for n in dir(sys.stderr) if not n.startswith("_") and not hasattr(out, n)]
assert not missing, missing
assert (out.fileno(), out.isatty(), out.encoding, out.errors, out.mode) == (1, False, "utf-8", "backslashreplace", "w")
assert out.writable() and not out.readable() and not out.seekable() and out.name == "<stdout>"
assert sys.__stdout__ is out and out.buffer.fileno() == 1 and out.buffer.raw.fileno() == 1
for wrong, stream in (("text", out.buffer), (b"bytes", out)):
    try:
        stream.write(wrong)
    except TypeError:
        pass
    else:
        raise SystemExit("no TypeError")
out.buffer.close()
out.close()
assert not out.buffer.closed
assert out.write("") == 0
with out: pass
answer()
""")  # fmt: skip
    assert done.wire == FRAME, done.text
    assert done.status == 0


def test_a_collected_or_closed_stream_takes_nothing_with_it(run: Callable[..., Result]) -> None:
    """A wrapper made over sys.stdout.buffer that is closed or collected leaves printing and the wire in order."""
    done = run("""
import gc, io, sys
for _ in range(3):
    io.TextIOWrapper(sys.stdout.buffer)
    gc.collect()
with io.TextIOWrapper(guard.wire) as text: pass
sys.stdout.close()
print("still here", file=sys.__stdout__)  #@a
print("and here")  #@b
answer()
""")
    assert done.wire == FRAME
    assert done.status == 0
    assert done.report == [
        filled("server.py:{a} in <module>: still here", done.source), filled("server.py:{b} in <module>: and here", done.source),
    ]  # fmt: skip


def test_noise_never_raises_whatever_the_locale(run: Callable[..., Result]) -> None:
    """Text that no UTF-8 can hold (a surrogate from a file name) is printed without an error and reported as ASCII,
    under a legacy locale as well."""
    source = "print('caf\\u00e9 \\udcff \\U0001f600')  #@a\nanswer()\n"
    for env in (
        {},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "cp1252:strict"},
    ):
        done = run(source, env=env)
        assert done.wire == FRAME
        assert done.report == [filled("server.py:{a} in <module>: caf\u00e9 \\udcff \U0001f600", done.source)]
