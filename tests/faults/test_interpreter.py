"""Faults 44, 45 and 50: interpreter options, pytest's captures, the off switch, and node as the client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import DEADLINE, UNDER_TEST, Child, environment, frames

ANYWHERE = "import os, sys\nsys.path.insert(0, sys.argv[1])\n"  # -I and -E ignore PYTHONPATH
NOISY = """
import stdout_guard
guard = stdout_guard.install()
import subprocess, warnings, logging
print("python")
os.write(1, b"below\\n")
subprocess.run(["/bin/echo", "child"])
logging.basicConfig(stream=sys.stdout)
logging.warning("logged")
guard.take_stdin()
guard.wire.write(b'{"jsonrpc":"2.0","id":1,"result":0}\\n')
from stdout_guard.writer import FrameWriter
FrameWriter(guard.wire).send({"jsonrpc": "2.0", "id": 2, "result": 0})
assert not guard.verify()
"""
OPTIONS = [
    ("-W", "error"),
    ("-X", "dev"),
    ("-I",),
    ("-S",),
    ("-E",),
    ("-s",),
    ("-P",),
    ("-B",),
    ("-bb",),
    ("-O",),
    ("-OO",),
    ("-u",),
    ("-X", "utf8=0"),
    ("-X", "tracemalloc"),
    ("-X", "faulthandler"),
    ("-X", "importtime"),
    ("-I", "-W", "error", "-X", "dev", "-bb"),
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_interpreter_options(launch: Callable[..., Child], options: tuple[str, ...]) -> None:
    """Fault 44: the guard stands and warns of nothing under every option of the interpreter; an unclosed file or a
    deprecated call of ours would end the run under -W error and -X dev.

    Seen to fail with a file of ours left to be collected.
    """
    child = launch(NOISY, prelude=ANYWHERE, options=options, arguments=[UNDER_TEST])
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    for text in ("python", "below", "child", "logged"):
        assert text in child.text
    assert "Warning" not in child.text and "Traceback" not in child.text


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONWARNINGS": "error"},
        {"PYTHONDEVMODE": "1"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONMALLOC": "debug"},
        {"PYTHONASYNCIODEBUG": "1"},
        {"PYTHONSAFEPATH": "1"},
    ],
    ids=lambda env: next(iter(env)),
)
def test_interpreter_variables(launch: Callable[..., Child], env: dict[str, str], wire: str) -> None:
    """Fault 44: the same by environment; a frame and a stray text beyond the locale's alphabet arrive as UTF-8.

    Seen to fail with the wire's text stream in the locale's encoding.
    """
    child = launch(
        NOISY
        + 'guard.text_wire.write(\'{"jsonrpc":"2.0","id":3,"result":"\\u4e2d\\u6587 \\U0001f600"}\\n\')\n'
        + "print('\\u4e2d\\u6587 \\udcff')\n",
        prelude=ANYWHERE,
        env=env,
        wire=wire,
        arguments=[UNDER_TEST],
    )
    assert child.finish() == 0
    assert child.ids() == [1, 2, 3]
    assert child.frames()[2]["result"] == "\u4e2d\u6587 \U0001f600"
    assert "\u4e2d\u6587 " in child.text
    assert "Warning" not in child.text and "Traceback" not in child.text


SERVER = """
import stdout_guard
guard = stdout_guard.install()
print("the server module is imported")
def tool():
    print("the tool prints")
    return guard.role
"""
TESTS = """
import os, subprocess, sys, server
def test_tool(capsys):
    assert server.tool() == "watch"
    assert "the tool prints" in capsys.readouterr().out
def test_descriptors(capfd):
    os.write(1, b"by descriptor\\n")
    subprocess.run(["/bin/echo", "by a child"])
    server.tool()
    assert "by descriptor" in capfd.readouterr().out
def test_plain():
    server.tool()
def test_fails():
    print("shown with the failure")
    assert server.tool() == "no"
"""


CAPTURES = [["--capture=fd"], ["--capture=sys"], ["--capture=no"], ["--capture=tee-sys"], ["-n", "1"]]


@pytest.mark.parametrize("options", CAPTURES, ids=" ".join)
def test_imported_by_a_test(tmp_path: Path, options: list[str]) -> None:
    """Fault 44: a guarded server module imported by a pytest test, under every --capture and xdist, takes no
    descriptor: pytest's own output, captures and status are what they are without it.

    Seen to fail with the look for pytest taken out.
    """
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=tmp_path,
        env=environment(tmp_path) | {"COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 1, (out, err)
    assert "1 failed, 3 passed" in out
    assert "INTERNALERROR" not in out + err
    if options != ["--capture=no"]:
        assert "shown with the failure" in out
    assert "Traceback" not in err


PLAIN = """
import os, sys
{install}
print("text first")
{send}(b'{{"jsonrpc":"2.0"}}\\n')
print("text after", end="")
{send}(b'x\\n')
sys.stdout.write("tail")
os.write(2, b"err")
import threading
modules = sorted(n for n in sys.modules if n.startswith(("wrapt", "fcntl", "subprocess", "asyncio")))
sys.stderr.write(repr((threading.active_count(), modules, sys.stdout is sys.__stdout__)))
sys.stderr.write(repr((len(os.listdir("/proc/self/fd")), sys.meta_path)))
sys.exit(4)
"""


def test_the_off_switch(launch: Callable[..., Child], wire: str, unbuffered: bool) -> None:
    """Fault 45: STDOUT_GUARD=off is byte for byte what a plain script does: same stdout, same stderr, same status, no
    thread, no descriptor, no import hook, no wrapt.

    Seen to fail with the finder of imports set up before the switch is read.
    """
    plain = launch(
        PLAIN.format(
            install="def send(data):\n    sys.stdout.flush()\n    sys.stdout.buffer.write(data)\n"
            "    sys.stdout.buffer.flush()",
            send="send",
        ),
        prelude="",
        wire=wire,
        unbuffered=unbuffered,
    )
    off = launch(
        PLAIN.format(install="from stdout_guard.auto import guard", send="guard.wire.write") + "",
        prelude="",
        wire=wire,
        unbuffered=unbuffered,
        mode="off",
    )
    assert plain.finish() == off.finish() == 4
    assert bytes(plain.wire.data) == bytes(off.wire.data) != b""
    strip = lambda text: __import__("re").sub(r" at 0x\w+", "", text)  # noqa: E731
    assert strip(plain.text) == strip(off.text)


def test_off_loads_nothing(launch: Callable[..., Child]) -> None:
    """Decision 12: off imports no wrapt and no more of ours than the switch itself.

    Seen to fail with the guard's modules imported before the switch is read.
    """
    child = launch(
        "print(' '.join(sorted(n for n in sys.modules if n.startswith(('stdout_guard', 'wrapt')))))\n",
        mode="off",
    )
    assert child.finish() == 0
    loaded = bytes(child.wire.data).decode().split()
    assert not [name for name in loaded if name.startswith("wrapt")]
    assert len(loaded) <= 2, loaded


CLIENT = """
const { spawn } = require("child_process");
const [python, script, kind] = process.argv.slice(2);
const server = spawn(python, [script], { stdio: [kind, kind, kind] });
const out = [], err = [];
server.stdout.on("data", (d) => out.push(d));
server.stderr.on("data", (d) => err.push(d));
server.on("close", (code) => {
  process.stdout.write(Buffer.concat(out));
  process.stderr.write(Buffer.concat(err));
  process.exitCode = code;
});
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("kind", ["pipe", "overlapped"])
def test_dev_stdout_under_node(launch: Callable[..., Child], tmp_path: Path, kind: str) -> None:
    """Fault 50 and hazard 39: node gives its children sockets, on which /dev/stdout cannot be opened; under the guard
    fd 1 is a pipe, so that it can, and what is written there is noise.

    Seen to fail with a socket pair as the channel.
    """
    script, client = tmp_path / "server.py", tmp_path / "client.js"
    script.write_text(
        "import os, sys, stdout_guard\nguard = stdout_guard.install()\n"
        "open('/dev/stdout', 'w').write('python to /dev/stdout\\n')\n"
        "assert os.system('echo shell to /dev/stdout > /dev/stdout') == 0\n"
        'guard.wire.write(b\'{"jsonrpc":"2.0","id":1,"result":0}\\n\')\n'
    )
    client.write_text(CLIENT)
    done = subprocess.run(
        ["node", str(client), sys.executable, str(script), kind],
        env=environment(tmp_path),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done
    assert [frame["id"] for frame in frames(done.stdout)] == [1]
    assert b"python to /dev/stdout" in done.stderr and b"shell to /dev/stdout" in done.stderr
