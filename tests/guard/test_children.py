"""Children: what they write is named by pid, program and the line that started them, and never reaches the client."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from guard.harness import FRAME, PRELUDE, Result

NAMED = [
    ("run", "import subprocess\nsubprocess.run(['echo', 'hello'])  #@a", "echo"),
    ("call", "import subprocess\nsubprocess.call(['echo', 'hello'])  #@a", "echo"),
    ("check-call", "import subprocess\nsubprocess.check_call(['echo', 'hello'])  #@a", "echo"),
    ("popen", "import subprocess\np = subprocess.Popen(['echo', 'hello'])  #@a\np.wait()", "echo"),
    ("from-import", "from subprocess import run\nrun(['echo', 'hello'])  #@a", "echo"),
    ("shell", "import subprocess\nsubprocess.run('echo hello', shell=True)  #@a", "echo"),
    ("grandchild", "import subprocess\nsubprocess.run(['sh', '-c', 'sh -c \"echo hello\"'])  #@a", "sh"),
    ("path-argument", "import pathlib, subprocess\nsubprocess.run(pathlib.Path('/bin/echo').resolve())  #@a", None),
    ("bytes-argument", "import subprocess\nsubprocess.run([b'/bin/echo', b'hello'])  #@a", "echo"),
    ("stdout-sys-stdout", "import subprocess, sys\nsubprocess.run(['echo', 'hello'], stdout=sys.stdout)  #@a", "echo"),
    ("stdout-dunder", "import subprocess, sys\nsubprocess.run(['echo', 'hello'], stdout=sys.__stdout__)  #@a", "echo"),
    ("stdout-one", "import subprocess\nsubprocess.run(['echo', 'hello'], stdout=1)  #@a", "echo"),
    ("stdout-none", "import subprocess\nsubprocess.run(['echo', 'hello'], stdout=None)  #@a", "echo"),
    ("stdout-positional", "import subprocess\nsubprocess.Popen(['echo', 'hello'], -1, None, None, None).wait()  #@a", "echo"),
    (
        "stderr-to-stdout",
        "import subprocess\nsubprocess.run(['sh', '-c', 'echo hello >&2'], stderr=subprocess.STDOUT)  #@a",
        "sh",
    ),
    ("subclass", "import subprocess\nclass P(subprocess.Popen): pass\nP(['echo', 'hello']).wait()  #@a", "echo"),
    (
        "asyncio-exec",
        "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec('echo', 'hello')  #@a\n"
        "    await p.wait()\nasyncio.run(main())",
        "echo",
    ),
    (
        "asyncio-shell",
        "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_shell('echo hello')  #@a\n"
        "    await p.wait()\nasyncio.run(main())",
        "echo",
    ),
    (
        "in-function",
        "import subprocess\ndef tool():\n    subprocess.run(['echo', 'hello'])  #@a\ntool()",
        "echo",
    ),
    (
        "imported-before-the-guard",
        "BEFORE import subprocess\nsubprocess.run(['echo', 'hello'])  #@a",
        "echo",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "program"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_a_child_is_named_by_the_line_that_started_it(
    run: Callable[..., Result], source: str, program: str | None
) -> None:
    """A child which would inherit our stdout is named with its pid, its program and the line that started it."""
    before, source = (
        ("import subprocess\n", source.removeprefix("BEFORE ")) if source.startswith("BEFORE") else ("", source)
    )
    done = run(f"{source}\nanswer()\n", prelude=f"{before}{PRELUDE}")
    assert done.wire == FRAME
    (said,) = done.report
    found = re.fullmatch(r"\[child (\d+) (\w+), started at (\S+)\]: (.*)", said)
    assert found, said
    assert found[3] == done.at("server.py:{a}")[0]
    if program is not None:
        assert (found[2], found[4]) == (program, "hello")


CAPTURED = [
    ("check-output", "assert subprocess.check_output(['echo', 'hello']) == b'hello\\n'"),
    ("capture-output", "assert subprocess.run(['echo', 'hello'], capture_output=True, text=True).stdout == 'hello\\n'"),
    ("pipe", "assert subprocess.Popen(['echo', 'hello'], stdout=subprocess.PIPE).communicate()[0] == b'hello\\n'"),
    ("devnull", "subprocess.run(['echo', 'hello'], stdout=subprocess.DEVNULL)"),
    ("file", "subprocess.run(['echo', 'hello'], stdout=open('out', 'wb')); assert open('out').read() == 'hello\\n'"),
    ("to-stderr", "subprocess.run(['echo', 'hello'], stdout=sys.stderr)"),
    ("getoutput", "assert subprocess.getoutput('echo hello') == 'hello'"),
    ("os-popen", "assert os.popen('echo hello').read() == 'hello\\n'"),
    ("p-stdout-stays-none", "p = subprocess.Popen(['true']); p.wait(); assert p.stdout is None and p.returncode == 0"),
    ("status", "assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3"),
    (
        "not-found",
        "try: subprocess.run(['/nonexistent/program'])\nexcept FileNotFoundError as e: assert e.filename == '/nonexistent/program'",
    ),
    ("wrong-arguments", "try: subprocess.Popen(['echo'], bufsize='x')\nexcept TypeError as e: assert 'bufsize' in str(e)"),
    ("timeout", "try: subprocess.run(['sleep', '30'], timeout=0.05)\nexcept subprocess.TimeoutExpired: pass"),
    ("pass-fds", "r, w = os.pipe(); subprocess.run(['sh', '-c', f'echo hi >&{w}'], pass_fds=[w]); assert os.read(r, 9) == b'hi\\n'"),
    ("stdin-pipe", "assert subprocess.run(['cat'], input=b'x', capture_output=True).stdout == b'x'"),
]  # fmt: skip


@pytest.mark.parametrize("source", [row[1] for row in CAPTURED], ids=[row[0] for row in CAPTURED])
def test_a_child_with_a_stdout_of_its_own_is_left_alone(run: Callable[..., Result], source: str) -> None:
    """A child whose output goes elsewhere on purpose, its status, its errors and Popen's attributes are untouched."""
    done = run(f"import os, subprocess, sys\n{source}\nanswer()\n")
    assert done.status == 0, done.text
    assert done.wire == FRAME
    assert done.report == []


UNNAMED = [
    ("os-system", "os.system('echo hello')"),
    ("posix-spawn", "os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'hello'], os.environ), 0)"),
    ("spawnlp", "os.spawnlp(os.P_WAIT, 'echo', 'echo', 'hello')"),
    ("libc-system", "import ctypes; ctypes.CDLL(None).system(b'echo hello')"),
    ("libc-puts", "import ctypes; l = ctypes.CDLL(None); l.puts(b'hello'); l.fflush(None)"),
    ("os-write", "os.write(1, b'hello\\n')"),
    ("dup", "os.write(os.dup(1), b'hello\\n')"),
    ("dup2", "os.dup2(1, 77); os.write(77, b'hello\\n')"),
    ("dev-stdout", "open('/dev/stdout', 'w').write('hello\\n')"),
    ("proc", "open('/proc/self/fd/1', 'w').write('hello\\n')"),
    ("fork-exec", "p = os.fork()\nif not p: os.execvp('echo', ['echo', 'hello'])\nos.waitpid(p, 0)"),
    ("faulthandler", "import faulthandler; faulthandler.dump_traceback(sys.stdout)"),
]


@pytest.mark.parametrize("source", [row[1] for row in UNNAMED], ids=[row[0] for row in UNNAMED])
def test_what_reaches_fd_1_otherwise_is_tagged_without_a_guess(run: Callable[..., Result], source: str) -> None:
    """C code, os.write, os.system and the like are kept off the wire and tagged [fd 1]; no line is guessed."""
    done = run(f"import os, sys\n{source}\nanswer()\n")
    assert done.status == 0, done.text
    assert done.wire == FRAME
    if "faulthandler" in source:
        assert done.report and all(line.startswith("[fd 1]: ") for line in done.report)
    else:
        assert done.report == ["[fd 1]: hello"]
