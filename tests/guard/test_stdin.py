"""stdin: the client's frames reach the reader that took them, whole, and nobody else."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

LINES = "".join(f'{{"jsonrpc":"2.0","id":{n},"method":"m{"é" * 50}"}}\n' for n in range(500)).encode()


def test_take_stdin_gives_every_byte(run: Callable[..., Result]) -> None:
    """take_stdin() is a buffered binary reader of all that the client sends, to the end of file; asked again, it is the
    same one."""
    done = run("""
import io
reader = guard.take_stdin()
assert isinstance(reader, io.BufferedReader) and guard.take_stdin() is reader and reader.fileno() > 2
first = reader.readline()
rest = reader.read()
assert reader.read() == b""
guard.wire.write(first + rest)
reader.close(); assert not reader.closed
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status, done.text) == (LINES, 0, "")


READ_AHEAD = [
    ("text-line", "head = sys.stdin.readline().encode()"),
    ("text-characters", "head = sys.stdin.read(3).encode()"),
    ("text-iterated", "head = next(sys.stdin).encode()"),
    ("binary-line", "head = sys.stdin.buffer.readline()"),
    ("binary-peek", "sys.stdin.buffer.peek(1); head = b''"),
    ("binary-one", "head = sys.stdin.buffer.read(1)"),
    ("input", "head = input().encode() + b'\\n'"),
    ("os-read", "head = os.read(0, 10)"),
    ("nothing", "head = b''"),
    ("both", "head = sys.stdin.readline().encode(); sys.stdin.buffer.peek(1)"),
]


@pytest.mark.parametrize("size", [3, 500])
@pytest.mark.parametrize("read", [row[1] for row in READ_AHEAD], ids=[row[0] for row in READ_AHEAD])
def test_what_was_read_ahead_is_not_lost(run: Callable[..., Result], read: str, size: int) -> None:
    """Bytes that sys.stdin had read ahead before it was taken come first, in order, none lost or doubled."""
    sent = b"".join(LINES.splitlines(True)[:size])
    done = run(f"import os, sys\n{read}\nguard.wire.write(head + guard.take_stdin().read())\n", stdin=sent)
    assert done.status == 0, done.text
    assert done.wire == sent


def test_crlf_that_was_read_ahead_as_text(run: Callable[..., Result]) -> None:
    """A Content-Length client's CR LF survive when a line was read as text before."""
    frame = b"Content-Length: 2\r\n\r\n{}"
    done = run(
        "import sys\nsys.stdin.readline()\nguard.wire.write(guard.take_stdin().read())\n", stdin=b"hello\n" + frame * 3
    )
    assert done.status == 0, done.text
    assert done.wire == frame * 3


TAKEN = [
    ("child", "assert subprocess.run(['cat'], stdout=subprocess.PIPE).stdout == b''"),
    ("system", "assert os.system('read x') != 0"),
    ("popen", "p = subprocess.Popen(['cat'], stdout=subprocess.PIPE); assert p.communicate()[0] == b''"),
    ("fork", "if os.fork() == 0: os._exit(len(os.read(0, 10)))\nassert os.wait()[1] == 0"),
    ("sys-stdin", "assert sys.stdin.read() == '' and sys.__stdin__.read() == ''"),
    ("descriptor", "assert os.read(0, 10) == b''"),
    ("getpass", "import getpass, warnings; warnings.simplefilter('ignore')\ntry: getpass.fallback_getpass('')\nexcept EOFError: pass"),
    ("fileinput", "import fileinput; assert list(fileinput.input([])) == []"),
    (
        "asyncio-child",
        "import asyncio\nasync def m():\n    p = await asyncio.create_subprocess_exec('cat', stdout=-1)\n"
        "    return (await p.communicate())[0]\nassert asyncio.run(m()) == b''",
    ),
]  # fmt: skip


@pytest.mark.parametrize("source", [row[1] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_once_taken_everybody_else_meets_the_null_device(run: Callable[..., Result], source: str) -> None:
    """Children, forks and whoever else reads stdin get the end of file, never the client's frames."""
    done = run(
        f"import os, subprocess, sys\nreader = guard.take_stdin()\n{source}\nguard.wire.write(reader.read())\n",
        stdin=LINES,
    )
    assert done.status == 0, done.text
    assert done.wire == LINES


def test_stdin_is_not_taken_before_it_is_used(run: Callable[..., Result]) -> None:
    """Until take_stdin() is called, stdin is what it was for everybody."""
    done = run("""
import subprocess, sys
assert sys.stdin.readline() == "one\\n"
sys.stdin.buffer.read()
guard.wire.write(b"ok")
""", stdin=b"one\ntwo\n")  # fmt: skip
    assert (done.wire, done.status, done.text) == (b"ok", 0, "")


def test_input_meets_the_end_of_file_and_its_prompt_is_named(run: Callable[..., Result], unbuffered: bool) -> None:
    """input() after stdin was taken raises EOFError; its prompt is on stderr with its line; no frame is lost."""
    done = run("""
reader = guard.take_stdin()
def ask():
    try:
        input("Password: ")  #@a
    except EOFError:
        return
    raise SystemExit("input() returned")
ask()
guard.wire.write(reader.read())
""", stdin=LINES, unbuffered=unbuffered)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text
    assert done.report == done.at("server.py:{a} in ask: Password: ")


def test_the_prompt_of_input_is_a_stray_in_strict_mode(run: Callable[..., Result]) -> None:
    """The prompt of input() raises in strict mode, like any other write."""
    done = run(
        "try: input('Name: ')  #@a\nexcept Exception as e: answer()\n", env={"STDOUT_GUARD": "strict"}, stdin=b"x\n"
    )
    assert (done.wire, done.status) == (FRAME, 120)
    assert done.report[0] == done.at("server.py:{a} in <module>: Name: ")[0]


def test_breakpoint_is_passed_over_while_stdin_is_the_clients(run: Callable[..., Result]) -> None:
    """Where stdin was not taken, breakpoint() does not start a debugger that would read the frames: it is passed over
    with a message that names its line and a remote debugger."""
    done = run("""
import sys
def tool():
    breakpoint()  #@a
tool()
guard.wire.write(sys.stdin.buffer.read())
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text
    (said,) = done.report
    assert said.startswith(done.at("breakpoint() at server.py:{a} was passed over")[0])
    assert "PYTHONBREAKPOINT=" in said and "debugpy" in said


def test_breakpoint_after_stdin_was_taken_meets_the_end_of_file(run: Callable[..., Result]) -> None:
    """Where stdin was taken, the debugger meets the end of file; what it prints is kept off the wire and no frame is
    read."""
    done = run("""
reader = guard.take_stdin()
def tool():
    breakpoint()
try: tool()
except BaseException as error: name = type(error).__name__
else: name = "returned"
guard.wire.write(reader.read())
assert name in ("BdbQuit", "returned"), name
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text


def test_a_debugger_of_ones_choice_is_started(run: Callable[..., Result], tmp_path: object) -> None:
    """PYTHONBREAKPOINT is obeyed: a remote debugger is started, and 0 means nothing is said."""
    source = "import sys\ndef debugger(): sys.stderr.write('remote debugger\\n')\nsys.modules['dbg'] = sys.modules['__main__']\nbreakpoint()\nanswer()\n"
    done = run(source, env={"PYTHONBREAKPOINT": "dbg.debugger"})
    assert (done.wire, done.text) == (FRAME, "remote debugger\n")
    off = run(source, env={"PYTHONBREAKPOINT": "0"})
    assert (off.wire, off.text) == (FRAME, "")


def test_pdb_by_name_cannot_read_frames_once_taken(run: Callable[..., Result]) -> None:
    """pdb.set_trace() after stdin was taken reads nothing of the client's."""
    done = run("""
import pdb
reader = guard.take_stdin()
def tool():
    pdb.set_trace()
    return 1
try: tool()
except BaseException: pass
import sys; sys.settrace(None)
guard.wire.write(reader.read())
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text


def test_an_event_loop_reads_the_taken_stdin(run: Callable[..., Result]) -> None:
    """asyncio's connect_read_pipe over the taken descriptor gets every frame."""
    done = run("""
import asyncio, os
async def main():
    reader = asyncio.StreamReader()
    file = os.fdopen(os.dup(guard.take_stdin().fileno()), "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    guard.wire.write(await reader.read())
asyncio.run(main())
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text


def test_closed_and_replaced_stdin(run: Callable[..., Result]) -> None:
    """take_stdin() works though sys.stdin is None, closed or a stand-in."""
    for stand_in in ("None", "io.StringIO('fake')", "closed"):
        change = "sys.stdin.close()" if stand_in == "closed" else f"sys.stdin = {stand_in}"
        done = run(
            f"import io, os, sys\nkeep = os.dup(0)\n{change}\nos.dup2(keep, 0)\nguard.wire.write(guard.take_stdin().read())\n",
            stdin=LINES,
        )
        assert (done.wire, done.status) == (LINES, 0), done.text


def test_a_worker_does_not_take_stdin(run: Callable[..., Result]) -> None:
    """In a forked worker take_stdin() gives the worker's own sys.stdin, which is not the client's once that was
    taken."""
    done = run("""
import os, sys
reader = guard.take_stdin()
if os.fork() == 0:
    os._exit(0 if guard.take_stdin().read() == b"" else 1)
assert os.wait()[1] == 0
guard.wire.write(reader.read())
""", stdin=LINES)  # fmt: skip
    assert (done.wire, done.status) == (LINES, 0), done.text
