"""Not every process is a server: help and version for a person, test runs, interactive sessions."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, PRELUDE, Result

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser(prog="served", description="A server.")
parser.add_argument("--version", action="version", version="served 1.0")
parser.add_argument("--port", type=int)
commands = parser.add_subparsers(); commands.add_parser("serve", help="to serve")
BEFORE
args = parser.parse_args()
print("stray")  #@a
answer()
"""
CLICK = """
import click
@click.group(invoke_without_command=True)
@click.version_option("1.0", prog_name="served")
@click.option("--port", type=int)
@click.pass_context
def main(context, port):
    "A server."
    if context.invoked_subcommand is None:
        print("stray")  #@a
        answer()
@main.command()
def serve(): "To serve."
BEFORE
main()
"""
TYPER = """
import typer
app = typer.Typer()
@app.command()
def main(port: int = 0):
    "A server."
    print("stray")  #@a
    answer()
@app.command()
def serve(): "To serve."
BEFORE
app()
"""
OPTPARSE = """
import optparse
parser = optparse.OptionParser(prog="served", version="served 1.0", description="A server.")
parser.add_option("--port")
BEFORE
parser.parse_args()
print("stray")  #@a
answer()
"""
FOR_PEOPLE = [
    (ARGPARSE, ["--help"], "usage: served"),
    (ARGPARSE, ["-h"], "usage: served"),
    (ARGPARSE, ["serve", "--help"], "usage: served serve"),
    (ARGPARSE, ["--version"], "served 1.0\n"),
    (CLICK, ["--help"], "Usage: server.py"),
    (CLICK, ["serve", "--help"], "Usage: server.py serve"),
    (CLICK, ["--version"], "served, version 1.0\n"),
    (TYPER, ["--help"], "Usage: server.py"),
    (TYPER, ["serve", "--help"], "Usage: server.py serve"),
    (OPTPARSE, ["--help"], "Usage: served"),
    (OPTPARSE, ["--version"], "served 1.0\n"),
]
IDS = ["argparse", "argparse-h", "argparse-sub", "argparse-version", "click", "click-sub", "click-version"]
IDS += ["typer", "typer-sub", "optparse", "optparse-version"]


@pytest.mark.parametrize("mode", ["redirect", "strict"])
@pytest.mark.parametrize(("source", "arguments", "begin"), FOR_PEOPLE, ids=IDS)
def test_help_and_version_reach_the_person(
    run: Callable[..., Result], source: str, arguments: list[str], begin: str, mode: str
) -> None:
    """Help and version output goes unprefixed to the real stdout, byte for byte as without the guard, is no stray, and
    the status is the program's, in strict mode too."""
    env = {"STDOUT_GUARD": mode, "COLUMNS": "80", "TERM": "dumb"}
    done = run(source.replace("BEFORE", ""), arguments=arguments, env=env)
    bare = run(source.replace("BEFORE", ""), arguments=arguments, env={**env, "STDOUT_GUARD": "off"})
    assert done.wire.decode().lstrip().startswith(begin), done.wire
    assert (done.wire, done.status, done.text) == (bare.wire, 0, "")


@pytest.mark.parametrize("source", [ARGPARSE, CLICK, TYPER, OPTPARSE], ids=["argparse", "click", "typer", "optparse"])
def test_after_the_first_frame_help_is_a_stray(run: Callable[..., Result], source: str) -> None:
    """Once a frame was sent the process is a server: help output is kept off the wire like everything else."""
    done = run(source.replace("BEFORE", "answer()"), arguments=["--help"], env={"TERM": "dumb"})
    assert done.wire == FRAME
    assert done.report, done.text
    assert any("sage" in line for line in done.report)


@pytest.mark.parametrize("source", [ARGPARSE, CLICK, TYPER, OPTPARSE], ids=["argparse", "click", "typer", "optparse"])
def test_a_run_without_help_is_a_server(run: Callable[..., Result], source: str) -> None:
    """Without --help the same program is a server whose prints are strays."""
    arguments = ["main"] if source is TYPER else []
    done = run(source.replace("BEFORE", ""), arguments=arguments)
    assert done.wire == FRAME, done.text
    assert any(line.endswith(": stray") for line in done.report)


def test_usage_errors_go_to_stderr(run: Callable[..., Result]) -> None:
    """A usage error leaves stdout empty and ends with the program's status 2."""
    for source in (ARGPARSE, CLICK, OPTPARSE):
        done = run(source.replace("BEFORE", ""), arguments=["--port"])
        assert (done.wire, done.status) == (b"", 2)
        assert "--port" in done.text


IN_ARGPARSE = [
    ("type-function", "parser.add_argument('--n', type=lambda s: print('x') or 1); parser.parse_args(['--n', '1'])"),
    (
        "action",
        "class A(argparse.Action):\n    def __call__(self, *a): print('x')\n"
        "parser.add_argument('--n', action=A, nargs=0); parser.parse_args(['--n'])",
    ),
    ("click-command", "import click\n@click.command()\ndef f(): click.echo('x')\nf(standalone_mode=False, args=[])"),
    ("click-callback", "import click\n@click.command()\n@click.option('--n', is_flag=True, callback=lambda *a: click.echo('x'))\ndef f(n): pass\nf(standalone_mode=False, args=['--n'])"),
    ("typer-rich", "import typer, rich\ndef f(): rich.print('x')\ntyper.run(f) if 0 else f()"),
]  # fmt: skip


@pytest.mark.parametrize("source", [row[1] for row in IN_ARGPARSE], ids=[row[0] for row in IN_ARGPARSE])
def test_what_an_application_prints_while_arguments_are_parsed_is_a_stray(
    run: Callable[..., Result], source: str
) -> None:
    """Only the parsers' own help and version output passes: what the application prints from a type, an action, a
    callback or a command is a stray, before the first frame too."""
    done = run(f"import argparse\nparser = argparse.ArgumentParser()\n{source}\nanswer()\n")
    assert done.wire == FRAME, done.text
    assert [line.rpartition(": ")[2] for line in done.report] == ["x"]


SESSION_NOTE = "stdout-guard: running under {}: stray writes are recorded, nothing is taken"


@pytest.mark.parametrize("capture", ["fd", "sys", "no", "tee-sys"])
@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_under_pytest_nothing_is_taken(run: Callable[..., Result], tmp_path: Path, capture: str, mode: str) -> None:
    """A test that imports a guarded server: no descriptor is taken, whatever --capture is, prints are captured as ever
    and recorded, and it is said once."""
    (tmp_path / "app.py").write_text("from stdout_guard.auto import guard\ndef tool(): print('from tool')\n")
    (tmp_path / "test_app.py").write_text("""
import os
fds = sorted(os.listdir("/proc/self/fd"))
import app
def test_tool(capsys):
    app.tool()
    assert capsys.readouterr().out == "from tool\\n"
def test_descriptor(capfd):
    os.system("echo from child")
    app.tool()
    assert capfd.readouterr().out == "from child\\nfrom tool\\n"
def test_wire(capsysbinary):
    app.guard.wire.write(b"frame\\n")
    assert capsysbinary.readouterr().out == b"frame\\n"
def test_state():
    assert app.guard.role == "watch"
    assert len(os.listdir("/proc/self/task")) == 1
def test_again():
    import stdout_guard
    assert stdout_guard.install() is app.guard
    stdout_guard.uninstall()
    assert stdout_guard.current() is None
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--capture={capture}", "test_app.py"]
    done = run("", command=command, env={"STDOUT_GUARD": mode} if mode == "strict" else {})
    out = done.wire.decode()
    assert done.status == 0, out + done.text
    assert "5 passed" in out


def test_under_pytest_the_guard_s_records_name_the_line(run: Callable[..., Result], tmp_path: Path) -> None:
    """In a test run the records carry the call site, for the test to look at."""
    (tmp_path / "test_app.py").write_text("""
import stdout_guard
def test_records(capsys):
    guard = stdout_guard.install()
    print("hello")
    (stray,) = guard.strays
    assert (stray.text, stray.line, stray.function) == ("hello", 5, "test_records")
    stdout_guard.uninstall()
""")
    done = run(
        "", command=[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", "test_app.py"]
    )
    assert done.status == 0, done.wire.decode()


def test_an_interactive_session_keeps_its_stdout(run: Callable[..., Result]) -> None:
    """Under python -i what is typed prints to the real stdout; that nothing is taken is said once."""
    done = run("print('from script')\n", options=["-i"], stdin=b"print('typed')\n1 + 1\n")
    assert b"from script\n" in done.wire and b"typed\n" in done.wire and b"2\n" in done.wire
    assert done.text.count(SESSION_NOTE.format("an interactive session")) == 1
    assert "kept off the wire" not in done.text


def test_in_a_notebook_kernel_nothing_is_taken(run: Callable[..., Result]) -> None:
    """Where ipykernel is loaded the process is a notebook: cells print as ever."""
    done = run(
        "print('cell')\nassert guard.role == 'watch'\n",
        prelude=f"import sys\nsys.modules['ipykernel'] = sys\n{PRELUDE}",
    )
    assert (done.wire, done.status) == (b"cell\n", 0)
    assert done.text.count(SESSION_NOTE.format("ipykernel")) == 1


def test_pytest_imported_by_a_server_does_not_switch_the_guard_off(run: Callable[..., Result], tmp_path: Path) -> None:
    """A server that imports pytest (for a tool that runs tests) after the guard stands is guarded all the same."""
    done = run("import pytest\nprint('hello')  #@a\nassert guard.role == 'owner'\nanswer()\n")
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: hello")
