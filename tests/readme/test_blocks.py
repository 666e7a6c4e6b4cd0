"""Every code block and command of the README, run: a block without a test here is a failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import environments
import pytest
from readme.blocks import BLOCKS, ROOT, all_blocks, words
from real import drive

from stdout_guard.cli import build_parser
from stdout_guard.transcript import judge

SERVER = """\
import json, sys

def main():
    print("hello")
    for line in guard.take_stdin():
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": {}}
            guard.wire.write(json.dumps(answer).encode() + b"\\n")

def serve():
    main()
"""
ASK = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
HANDSHAKE: list[dict[str, object]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
]
DIRTY = "import sys\nprint('loading optional extension', flush=True)\n"
# a server without fault, of the gate's own tests
BASE = {"mcpbase.py": (ROOT / "tests" / "gate" / "servers" / "mcpbase.py").read_text("utf-8")}
CLEAN = "import mcpbase\n\nmcpbase.serve()\n"
UNDER_WAY = "import stdout_guard\nguard = stdout_guard.current()\n"

Done = subprocess.CompletedProcess[str]


def run(*command: str | Path, cwd: Path, stdin: bytes = b"", python: Path | None = None, **env: str) -> Done:
    """Run a command as a reader would type it: `stdout-guard` and `pytest` are this environment's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STDOUT_GUARD", "PYTHON", "COV"))}
    kept |= {"PATH": f"{cwd / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1", **env}
    kept["PYTHONPATH"] = str(cwd) if python is not None else f"{ROOT}:{cwd}"
    line = [*([str(python)] if python is not None else []), *map(str, command)]
    done = subprocess.run(line, input=stdin, capture_output=True, cwd=cwd, env=kept, timeout=100)
    text = subprocess.CompletedProcess(line, done.returncode, done.stdout.decode(), done.stderr.decode())
    print(line, text.returncode, text.stdout, text.stderr, sep="\n")
    return text


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if name.startswith("bin/"):
            path.chmod(path.stat().st_mode | stat.S_IXUSR)


def clean(done: Done, answers: int) -> None:
    """Every byte of stdout is protocol, and there are as many messages as expected."""
    assert judge(done.stdout.encode()).ok, done.stdout
    assert len(done.stdout.splitlines()) == answers


def first_lines(block: str, folder: Path) -> None:
    write(folder, {"server.py": f"{block}\nmain()\n", "my_server.py": UNDER_WAY + SERVER})
    done = run(sys.executable, "server.py", cwd=folder, stdin=ASK)
    clean(done, 1)
    assert "stdout-guard: my_server.py:6 in main: hello" in done.stderr


def report(block: str, folder: Path) -> None:
    """The very lines, from a server that is laid out so; the child's pid is its own."""
    dep = ".venv/lib/python3.12/site-packages"
    write(folder, {
        "bin/git": "#!/bin/sh\necho Already up to date.\n",
        f"{dep}/dep/x.py": "\n" * 7 + "def load():\n    print('hello')\n", f"{dep}/dep/__init__.py": "",
        "tools.py": "import subprocess\n" + "\n" * 14 + "def pull():\n    subprocess.run(['git', 'pull'])\n" + "\n" * 23
        + "def list_tables():\n    print('listing tables')\n",
        "server.py": f"import stdout_guard.auto\nimport sys\nsys.path.append({dep!r})\n" + "\n" * 5
        + "import tools\nimport dep.x\ntools.list_tables()\ndep.x.load()\ntools.pull()\n",
    })  # fmt: skip
    done = run(sys.executable, "server.py", cwd=folder)
    said = re.sub(r"child \d+", "child 4242", done.stderr)
    for line in block.splitlines():
        assert line in said.splitlines(), line


def demo(block: str, folder: Path) -> None:
    command = BLOCKS["demo"].commands[0]
    assert re.fullmatch(r"python3 -m venv \.venv && \.venv/bin/pip install -q \. && \.venv/bin/python (\S+)", command)
    assert run(sys.executable, command.split()[-1], cwd=ROOT).returncode == 0


def suite(block: str, folder: Path) -> None:
    """`.ci/run` takes this command from here and runs it; here: pip knows the extra, pytest the option."""
    command = BLOCKS["suite"].commands[0]
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m ")
    assert run(sys.executable, "-m", *command.split()[-3:], "--version", cwd=ROOT).returncode == 0


def mcp_server(block: str, folder: Path) -> None:
    """With the newest SDK as it stands, with the older one by the comment in it."""
    older = block.replace("from mcp.server import MCPServer", "from mcp.server.fastmcp import FastMCP")
    for environment, source in {"newest": block, "mcp1": older.replace("MCPServer(", "FastMCP(")}.items():
        write(folder, {"server.py": source})
        done = drive.exchange([environments.python(environment), "server.py"], HANDSHAKE, cwd=folder)
        assert judge(done.stdout).ok and len(done.stdout.splitlines()) == 2, str(done)
        assert "in add: adding 1 and 2" in done.report, str(done)


def own_server(block: str, folder: Path) -> None:
    write(folder, {"server.py": block})
    done = run(sys.executable, "server.py", cwd=folder, stdin=ASK)
    clean(done, 1)
    assert "in <module>: got ping" in done.stderr


def own_sdk(block: str, folder: Path) -> None:
    send = "import json, sys\ndef send(message):\n    print(json.dumps(message))\n"
    use = "from my_sdk.transport import send\nprint('stray')\nsend({'jsonrpc': '2.0', 'id': 1, 'result': {}})\n"
    write(folder, {"server.py": block, "my_sdk/__init__.py": "", "my_sdk/transport.py": send, "my_server.py": use})
    done = run(sys.executable, "server.py", cwd=folder)
    clean(done, 1)
    assert "my_server.py:2 in <module>: stray" in done.stderr
    write(folder, {"server.py": block.replace('writers=["my_sdk.transport"]', "")})
    assert "STDOUT_GUARD_WRITERS=my_sdk.transport" in run(sys.executable, "server.py", cwd=folder).stderr


def in_main(block: str, folder: Path) -> None:
    write(folder, {"server.py": f"{block}\nmain()\n", "my_server.py": UNDER_WAY + SERVER})
    clean(run(sys.executable, "server.py", cwd=folder, stdin=ASK), 1)


def run_verb(block: str, folder: Path) -> None:
    program = f"#!{sys.executable}\nfrom my_server import main\nmain()\n"
    served = f"{UNDER_WAY}{SERVER}\nif __name__ == '__main__':\n    main()\n"
    write(folder, {"bin/my-server": program, "my_server.py": served, "server.py": served})
    for command in BLOCKS["run_verb"].commands:
        done = run(*_ours(command), cwd=folder, stdin=ASK)
        clean(done, 1)
        assert ": hello\n" in done.stderr


def pytest_example(block: str, folder: Path) -> None:
    write(folder, {"test_it.py": block, "server.py": CLEAN, **BASE})
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert "2 passed" in done.stdout
    write(folder, {"test_it.py": block.replace("sum([1, 2])", "print('oh')"), "server.py": DIRTY + CLEAN, **BASE})
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert ("1 failed" in done.stdout and "1 error" in done.stdout) or "2 failed" in done.stdout


def pytest_strict(block: str, folder: Path) -> None:
    write(folder, {"test_it.py": "def test_it():\n    print('oh')\n"})
    (command,) = BLOCKS["pytest_strict"].commands
    done = run(sys.executable, "-m", *command.split(), "-p", "no:cacheprovider", cwd=folder)
    assert done.returncode == 1 and "test_it.py:2" in done.stdout


def judging(block: str, folder: Path) -> None:
    write(folder, {"it.py": block})
    assert run(sys.executable, "it.py", cwd=folder).returncode == 0
    write(folder, {"it.py": block.replace("stdout = b'", "stdout = b'loading optional extension\\n")})
    said = block.partition("raises: ")[2].partition(", and the cause")[0]
    assert said in run(sys.executable, "it.py", cwd=folder).stderr


def check_output(block: str, folder: Path) -> None:
    """Each line shown is a line of the real report, or the beginning of one."""
    write(folder, {"server.py": DIRTY + CLEAN, **BASE, "bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n'})
    done = run(*_ours(BLOCKS["check_output"].commands[0]), cwd=folder)
    assert done.returncode == 1
    said = done.stdout.splitlines()
    for line in block.splitlines()[1:]:
        assert any(real.startswith(line) for real in said), line


def _yaml(block: str, folder: Path) -> dict[str, dict[str, object]]:
    write(folder, {"it.yml": block})
    code = "import json, yaml; print(json.dumps(yaml.safe_load(open('it.yml'))))"
    done = run("-c", code, cwd=folder, python=environments.python("newest"))
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def github(block: str, folder: Path) -> None:
    steps = _yaml(block, folder)["jobs"]["stdout"]["steps"]  # type: ignore[index]
    _script([step["run"] for step in steps if "run" in step], folder)


def gitlab(block: str, folder: Path) -> None:
    job = _yaml(block, folder)["stdout"]
    assert job["artifacts"]["reports"]["junit"] == "stdout.xml"  # type: ignore[index]
    _script(job["script"], folder)


def _script(lines: object, folder: Path) -> None:
    """The job's lines, one by one: what pip is told to install exists, and the gate makes its report."""
    assert isinstance(lines, list)
    write(folder, {"bin/my-server": f"#!{sys.executable}\n{CLEAN}", **BASE})
    install, check = lines
    assert install == "pip install . ./stdout-guard"
    done = run(*_ours(check.replace("check", "check --condition plain")), cwd=folder)
    assert done.returncode == 0 and (folder / "stdout.xml").read_text("utf-8").startswith("<?xml")


def check_more(block: str, folder: Path) -> None:
    """Each command line is one that the parser takes; the quick ones are run."""
    write(folder, {
        "bin/my-server": f"#!{sys.executable}\n{CLEAN}", **BASE,
        "captured-stdin.bin": ASK.decode(), "captured-stdout.bin": '{"jsonrpc":"2.0","id":1,"result":{}}\n',
    })  # fmt: skip
    for command in BLOCKS["check_more"].commands:
        arguments = _ours(command)[3:]
        build_parser(arguments[0]).parse_args(arguments)
        if "--package" not in arguments and "--corpus" not in arguments:
            assert run(*_ours(command), cwd=folder).returncode == 0


def json_lines(block: str, folder: Path) -> None:
    """The keys of each line, and everything in them that does not change from run to run."""
    write(folder, {"server.py": "import stdout_guard.auto\nprint('hello')\n"})
    done = run(sys.executable, "server.py", cwd=folder, STDOUT_GUARD_FORMAT="json")
    for shown, real in zip(block.splitlines(), done.stderr.splitlines(), strict=True):
        expected, found = json.loads(shown), json.loads(real)
        assert list(expected) == list(found)
        for changing in ("time", "pid"):
            expected.pop(changing, None), found.pop(changing, None)
        assert expected == found


def corpus_add(block: str, folder: Path) -> None:
    from stdout_guard.testing.corpus import HOME

    shutil.copytree(HOME, folder / "corpus")
    write(folder, {"frame.bin": '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}\n'})
    done = run(*_ours(BLOCKS["corpus_add"].commands[0]), "--dir", folder / "corpus", cwd=folder)
    assert done.returncode == 0


def _ours(command: str) -> list[str]:
    """A command line of ours as one that runs the package under test."""
    first, *rest = words(command)
    assert first == "stdout-guard", command
    return [sys.executable, "-m", "stdout_guard", *rest]


TESTS: dict[str, Callable[[str, Path], None]] = {
    test.__name__: test
    for test in (
        first_lines, report, demo, suite, mcp_server, own_server, own_sdk, in_main, run_verb, pytest_example,
        pytest_strict, judging, check_output, github, gitlab, check_more, json_lines, corpus_add,
    )
}  # fmt: skip


@pytest.mark.timeout(900)  # the first to need an environment builds it
@pytest.mark.parametrize("name", [name for name in BLOCKS if name])
def test_a_block(name: str, tmp_path: Path) -> None:
    """The block does what the text around it says."""
    TESTS[name](BLOCKS[name].text, tmp_path)


def test_every_block_has_a_test() -> None:
    """A new block needs a name above it (``<!-- test: NAME -->``) and a function of that name here."""
    unnamed = [block for block in all_blocks() if not block.name]
    assert [block.language for block in unnamed] == ["text"], [(block.line, block.text) for block in unnamed]
    assert len({block.name for block in all_blocks()}) == len(all_blocks()), "two blocks have one name"
    assert {block.name for block in all_blocks() if block.name} == TESTS.keys()
