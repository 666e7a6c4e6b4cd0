"""``stdout-guard run``: a server that cannot be edited, under the guard, in the same process."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import os
import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guard.harness import FRAME, UNDER_TEST, Result
from guard.test_sites_libraries import write

Run = Callable[..., Result]
RUN = [sys.executable, "-m", "stdout_guard", "run"]
# A server that knows nothing of us; it asks for the wire as an SDK's adapter would.
WIRE = f"import stdout_guard\nwire = stdout_guard.current().wire\ndef answer(): wire.write({FRAME!r})\n"


@pytest.fixture
def under(run: Run) -> Run:
    """``under(source, *words)``: source in server.py, started as ``stdout-guard run WORDS`` (or ``server.py``)."""

    def start(source: str, *words: str, **options: Any) -> Result:
        options.setdefault("prelude", WIRE)
        return run(source, command=[*RUN, *(words or ("server.py",))], **options)

    return start


def test_a_script(under: Run, unbuffered: bool) -> None:
    """A script runs as the real __main__ with its own arguments, folder first on the path and name, its prints named
    by its lines; the client gets its frames."""
    done = under(
        """
import os, sys, pickle
assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
assert sys.argv == ["server.py", "--port", "1", "-m", "--", "x"], sys.argv
assert sys.path[0] == os.path.dirname(os.path.abspath(__file__)), sys.path
assert os.path.basename(__file__) == "server.py" and __spec__ is None and __package__ in (None, "")
class Thing: pass
pickle.loads(pickle.dumps(Thing()))
print("hello")  #@a
answer()
""",
        *["server.py", "--port", "1", "-m", "--", "x"],
        unbuffered=unbuffered,
    )
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: hello")


def test_a_module(under: Run, tmp_path: Path) -> None:
    """-m MODULE is python -m MODULE: the working directory first on the path, sys.argv[0] the module's file, relative
    imports, a package's __main__."""
    write(tmp_path, {
        "app/__init__.py": "", "app/tools.py": "def tool():\n    print('hello')\n",
        "app/__main__.py": WIRE + "import os, sys\nfrom . import tools\ntools.tool()\n"
        "assert sys.argv[1:] == ['--help', '-m', 'x'], sys.argv\nassert sys.argv[0] == __file__, sys.argv\n"
        "assert os.path.samefile(sys.path[0] or '.', '.'), sys.path\nassert __package__ == 'app' and __spec__.name == 'app.__main__'\nanswer()\n",
    })  # fmt: skip
    done = under("", "-m", "app", "--help", "-m", "x")
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == ["app/tools.py:2 in tool: hello"]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """A tiny package with console script ``served``, installed; the environment in which it is found."""
    body = WIRE + "import sys\ndef main():\n    print('hello', sys.argv[1:])\n    answer()\n    return 7\n"
    dep = "def load():\n    print('from dep')\n"
    write(tmp_path, {
        "project/pyproject.toml": "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'served'\nversion = '1'\n[project.scripts]\nserved = 'served.cli:main'\n"
        "[tool.setuptools]\npackages = ['served', 'dep']\n",
        "project/served/__init__.py": "", "project/served/cli.py": body, "project/dep/__init__.py": dep,
    })  # fmt: skip
    target = tmp_path / "lib" / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    made = subprocess.run([*pip, "--target", str(target), str(tmp_path / "project")], capture_output=True, timeout=120)
    assert made.returncode == 0, made.stderr.decode()
    return {"PYTHONPATH": f"{UNDER_TEST}:{target}", "PATH": f"{target / 'bin'}:{os.environ['PATH']}"}


def test_an_installed_command(under: Run, tmp_path: Path, installed: dict[str, str]) -> None:
    """COMMAND may be an installed console script: it runs in this process, its package is the application though it is
    in site-packages, its return value is the status."""
    done = under("", "served", "--port", "1", env=installed, prelude="")
    assert (done.wire, done.status) == (FRAME, 7), done.text
    assert done.report == ["lib/site-packages/served/cli.py:6 in main: hello ['--port', '1']"]
    by_path = under("", str(tmp_path / "lib/site-packages/bin/served"), env=installed, prelude="")
    assert (by_path.wire, by_path.status) == (FRAME, 7), by_path.text
    assert by_path.report == ["lib/site-packages/served/cli.py:6 in main: hello []"]


def test_a_folder_and_a_zip(under: Run, tmp_path: Path) -> None:
    """A folder with __main__.py and a zipapp run as by python FOLDER and python FILE."""
    write(
        tmp_path,
        {
            "src/tools.py": "def tool():\n    print('hello')\n",
            "src/__main__.py": f"{WIRE}import tools\ntools.tool()\nanswer()\n",
        },
    )
    zipapp.create_archive(tmp_path / "src", tmp_path / "app.pyz")
    for name in ("src", "app.pyz"):
        done = under("", name, prelude="")
        assert (done.wire, done.status) == (FRAME, 0), done.text
        assert done.report == [f"{name}/tools.py:2 in tool: hello"]


REFUSED = [
    ("missing", ["no-such-command"], "'no-such-command' is neither a file nor a command on PATH"),
    ("missing-script", ["missing.py"], "'missing.py' is neither a file nor a command on PATH"),
    ("binary", ["/bin/ls"], "/ls is a binary program: the guard works inside a Python process only"),
    ("on-path", ["ls"], "/ls is a binary program"),
    ("shell-script", ["./tool.sh"], "tool.sh is not a Python program"),
    ("text", ["./notes.txt"], "notes.txt is not a Python program"),
    ("other-python", ["./other"], "./other belongs to another interpreter (/opt/other/bin/python3.9)"),
    ("nothing", [], "nothing to run"),
    ("module-missing", ["-m"], "nothing to run"),
]


@pytest.mark.parametrize(("words", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_python_program_is_refused(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    """A command that is no Python program of this interpreter is a usage error (2) that says what it is and what to do;
    nothing is on stdout."""
    write(
        tmp_path,
        {"tool.sh": "#!/bin/sh\necho x\n", "notes.txt": "hello\n", "other": "#!/opt/other/bin/python3.9\nprint()\n"},
    )
    for name in ("tool.sh", "notes.txt", "other"):
        (tmp_path / name).chmod(0o755)
    done = run("", command=[*RUN, *words])
    assert (done.status, done.wire) == (2, b""), done.text
    assert done.lines[-1].startswith("stdout-guard run: ") and message in done.lines[-1], done.text


ENDINGS = [
    ("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('bye')", 1), ("1 / 0", 1), ("os._exit(5)", 5), ("", 0),
    ("os.kill(os.getpid(), signal.SIGTERM)", -15), ("os.kill(os.getpid(), signal.SIGKILL)", -9), ("raise KeyboardInterrupt", -2),
    ("os.kill(os.getpid(), signal.SIGINT); time.sleep(20)", -2), ("os.abort()", -6), ("raise SystemExit(256 + 4)", 4),
]  # fmt: skip


@pytest.mark.parametrize(("end", "status"), ENDINGS, ids=[row[0] for row in ENDINGS])
def test_status_and_signals_are_the_servers_own(run: Run, end: str, status: int) -> None:
    """The exit status, and the signal that ends the process, are those of the server run bare."""
    # a test run in the background of a shell has SIGINT ignored, and so have its children
    source = f"import os, signal, sys, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{end}\n"
    done = run(source, prelude="", command=[*RUN, "server.py"])
    bare = run(source, prelude="")
    assert (done.status, bare.status) == (status, status), done.text
    assert done.wire == b""


def test_modes(under: Run) -> None:
    """--mode strict ends with 120 when something strayed; STDOUT_GUARD wins over --mode; off is off; another mode is a
    usage error that names the choices."""
    source = "try: print('x')\nexcept Exception: pass\nanswer()\n"
    strict = under(source, "--mode", "strict", "server.py")
    assert (strict.wire, strict.status) == (FRAME, 120), strict.text
    clean = under("answer()\n", "--mode=strict", "server.py")
    assert (clean.wire, clean.status, clean.text) == (FRAME, 0, "")
    wins = under(source, "--mode", "strict", "server.py", env={"STDOUT_GUARD": "redirect"})
    assert (wins.wire, wins.status) == (FRAME, 0)
    off = under("print('plain')\n", "--mode", "off", "server.py", prelude="")
    assert (off.wire, off.text, off.status) == (b"plain\n", "", 0)
    off = under("print('plain')\n", "server.py", prelude="", env={"STDOUT_GUARD": "off"})
    assert (off.wire, off.text, off.status) == (b"plain\n", "", 0)
    wrong = under(source, "--mode", "lax", "server.py")
    assert (wrong.status, wrong.wire) == (2, b"")
    assert "lax" in wrong.text and "redirect" in wrong.text
    wrong = under(source, "server.py", env={"STDOUT_GUARD": "lax"})
    assert wrong.status != 0 and wrong.wire == b""
    assert "environment variable STDOUT_GUARD: 'lax' is not one of off, redirect, strict" in wrong.text


def test_exec_of_the_server_keeps_its_wire(under: Run) -> None:
    """A server that restarts itself by os.exec (a reloader) under run keeps wire and stdin."""
    done = under("""
import os, sys
if "again" not in sys.argv:
    print("first")  #@a
    answer()
    os.execv(sys.executable, [sys.executable, "-m", "stdout_guard", "run", "server.py", "again"])
print("second")  #@b
answer()
wire.write(sys.stdin.buffer.read())
""", stdin=b"from the client\n")  # fmt: skip
    assert (done.wire, done.status) == (FRAME + FRAME + b"from the client\n", 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: first", "server.py:{b} in <module>: second")


def test_exec_of_something_else_gets_the_wire(under: Run) -> None:
    """A wrapper script that execs the real server hands it the wire."""
    done = under("import os\nprint('wrapper')  #@a\nos.execvp('sh', ['sh', '-c', 'cat; echo frame'])\n", stdin=b"in\n")
    assert (done.wire, done.status) == (b"in\nframe\n", 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: wrapper")


@pytest.mark.parametrize("how", ["script", "module"])
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing_inside(under: Run, method: str, how: str) -> None:
    """Workers of a server under run find its __main__ again, return their results, and stay off the wire."""
    done = under(f"""
import multiprocessing as mp
def work(n):
    print("worker", n)
    return n * n
if __name__ == "__main__":
    pool = mp.get_context({method!r}).Pool(2)
    assert pool.map(work, [1, 2, 3]) == [1, 4, 9]
    pool.close(); pool.join()
    answer()
""", *(["server.py"] if how == "script" else ["-m", "server"]), prelude=LAZY_WIRE)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert sorted(line.rpartition(": ")[2] for line in done.report) == ["worker 1", "worker 2", "worker 3"], done.text


LAZY_WIRE = f"import stdout_guard\ndef answer(): stdout_guard.current().wire.write({FRAME!r})\n"


def test_a_server_that_guards_itself_is_guarded_once(under: Run) -> None:
    """import stdout_guard.auto inside a server under run gets the guard that stands."""
    done = under(
        "import sys, stdout_guard.auto as auto\nassert auto.guard is stdout_guard.current()\nprint('x')  #@a\nanswer()\n"
    )
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: x")


def test_help_of_the_server_is_the_servers(under: Run) -> None:
    """Everything after the script belongs to the server: --help and --mode are its own."""
    source = "import argparse\np = argparse.ArgumentParser(prog='served'); p.add_argument('--mode')\nprint(p.parse_args().mode)  #@a\nanswer()\n"
    done = under(source, "server.py", "--help")
    assert done.wire.startswith(b"usage: served") and done.status == 0, done.text
    done = under(source, "server.py", "--mode", "own")
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: own")


def test_an_error_of_the_server_reads_as_usual(under: Run) -> None:
    """An uncaught error ends in a traceback whose last lines are the server's."""
    done = under("def tool():\n    raise ValueError('boom')\ntool()\n")
    assert (done.status, done.wire) == (1, b"")
    assert done.lines[-1] == "ValueError: boom"
    assert "in tool" in done.text


def test_the_servers_stdin_is_whole(under: Run) -> None:
    """Nothing of stdin is read before the server reads it."""
    sent = b"".join(b"line %d\n" % n for n in range(1000))
    done = under("import sys\nwire.write(sys.stdin.buffer.read())\n", stdin=sent)
    assert (done.wire, done.status) == (sent, 0), done.text
