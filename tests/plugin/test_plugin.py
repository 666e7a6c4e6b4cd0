"""The pytest plugin, in pytest runs of its own: what it takes, what it fails, what it leaves alone."""

from __future__ import annotations

import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

SERVERS = Path(__file__).parent.parent / "gate" / "servers"
REGISTERED = any(entry.value == "stdout_guard.pytest_plugin" for entry in entry_points(group="pytest11"))
LOAD = () if REGISTERED else ("-p", "stdout_guard.pytest_plugin")
QUICK = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:timeout")
CAPTURES = ("fd", "no", pytest.param("sys", marks=pytest.mark.slow), pytest.param("tee-sys", marks=pytest.mark.slow))


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest on a test file of this source in a process of its own."""
    for name in ("STDOUT_GUARD", "STDOUT_GUARD_COMMAND", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(source: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        (pytester.path / "test_it.py").write_text(textwrap.dedent(source))
        pytester.makeini(f"[pytest]\n{ini}\n")
        return pytester.runpytest_subprocess(*LOAD, *QUICK, *arguments, timeout=60)

    return run


WRITERS = """
import os, subprocess, sys

def test_print():
    print("from print")

def test_swallowed():
    try:
        print("from swallowed")
    except Exception:
        pass

def test_buffer():
    try:
        sys.stdout.buffer.write(b"from buffer\\n")
    except Exception:
        pass

def test_child():
    subprocess.run(["/bin/echo", "from child"], check=True)

def test_native():
    os.write(1, b"from native\\n")

def test_shell():
    os.system("echo from shell")

def test_forked():
    pid = os.fork()
    if pid == 0:
        try:
            print("from forked")
        except Exception:
            pass
        os._exit(0)
    os.waitpid(pid, 0)

def test_stderr():
    print("fine", file=sys.stderr)

def test_silent():
    pass
"""
LINES = [
    "*test_it.py:5 in test_print: 'from print'*",
    "*test_it.py:9 in test_swallowed: 'from swallowed'*",
    "*test_it.py:15 in test_buffer: 'from buffer'*",
    "*[[]child * echo, started at test_it.py:20[]]: 'from child'*",
    "*[[]fd 1[]]: 'from native'*",
    "*[[]fd 1[]]: 'from shell'*",
    "*test_it.py:32 in test_forked: 'from forked'*",
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_strict_fails_the_test_that_wrote_with_its_line(run, capture):
    """Print, swallowed, buffer, child, native code, shell and a forked worker; whatever pytest captures."""
    result = run(WRITERS, "--stdout-guard=strict", f"--capture={capture}")
    result.assert_outcomes(failed=7, passed=2)
    for line in LINES:
        result.stdout.fnmatch_lines([line])


def test_strict_works_in_xdist_workers(run):
    """The same outcomes from two workers."""
    result = run(WRITERS, "--stdout-guard=strict", "-n2", "-p", "xdist")
    result.assert_outcomes(failed=7, passed=2)
    result.stdout.fnmatch_lines(["*test_it.py:9 in test_swallowed: 'from swallowed'*"])


@pytest.mark.parametrize("capture", CAPTURES)
def test_redirect_tells_and_does_not_fail(run, capture):
    """Everything is reported with its line, and the captured output is what it was."""
    failing = WRITERS + "\ndef test_shown():\n    print('shown')\n    assert False\n"
    result = run(failing, "--stdout-guard=redirect", f"--capture={capture}")
    result.assert_outcomes(failed=1, passed=9)
    line = failing.splitlines().index("    print('shown')") + 1
    result.stdout.fnmatch_lines(["*Captured stray writes to stdout call*", f"test_it.py:{line} in test_shown: 'shown'"])
    if capture != "no":
        result.stdout.fnmatch_lines(["*Captured stdout call*", "shown"])


def test_nothing_is_taken_until_it_is_asked_for(run):
    """Inert: no module of the watch is loaded, sys.stdout is pytest's own, no header line."""
    source = """
        import sys
        def test_inert():
            print("as ever")
            assert "stdout_guard.testing.inprocess" not in sys.modules
            assert "stdout_guard._guard" not in sys.modules
            assert "pytest" in type(sys.stdout).__module__
    """
    result = run(source)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*stdout-guard:*")


def test_the_plugin_can_be_switched_off(run):
    """-p no:stdout_guard: tests that do not use it run as ever."""
    result = run("def test_one():\n    print('x')\n", "-p", "no:stdout_guard")
    result.assert_outcomes(passed=1)


def test_a_reason_lets_a_test_write(run):
    """allow_stray_writes with a reason passes, and still shows who wrote; without a reason it is an error."""
    source = """
        import pytest
        @pytest.mark.allow_stray_writes("the banner is part of the demo")
        def test_allowed():
            print("banner")
        @pytest.mark.allow_stray_writes
        def test_unreasoned():
            pass
    """
    result = run(source, "--stdout-guard=strict", "-rA")
    result.stdout.fnmatch_lines(["*test_it.py:5 in test_allowed: 'banner'*"])
    result.stdout.fnmatch_lines(["*allow_stray_writes needs a reason*"])
    assert result.parseoutcomes().get("passed", 0) == 1


@pytest.mark.parametrize("capture", CAPTURES)
def test_stray_writes_is_read_inside_the_test(run, capture):
    """Like recwarn: records so far, with source, line and text; it does not fail the test."""
    source = """
        import os, subprocess, sys
        def test_seen(stray_writes):
            assert len(stray_writes) == 0
            print("one")
            sys.stdout.write("two ")
            sys.stdout.write("parts\\n")
            assert [s.text for s in stray_writes] == ["one", "two parts"]
            assert (stray_writes[0].source, stray_writes[0].line) == ("python", 5)
            stray_writes.clear()
            os.system("echo three")
            subprocess.run(["/bin/echo", "four"])
            assert {(s.source, s.text) for s in stray_writes.list} == {("fd1", "three"), ("child", "four")}
    """
    for mode in ("strict", "off"):
        run(source, f"--capture={capture}", f"--stdout-guard={mode}").assert_outcomes(passed=1)


def test_fixtures_and_finalizers_are_watched_too(run):
    """What a fixture prints fails its set-up, what a finalizer prints its teardown."""
    source = """
        import pytest
        @pytest.fixture
        def noisy():
            yield
            print("in the finalizer")
        @pytest.fixture
        def early():
            print("in the set-up")
        def test_late(noisy):
            pass
        def test_early(early):
            pass
    """
    result = run(source, "--stdout-guard=strict")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*test_it.py:6 in noisy: 'in the finalizer'*"])
    result.stdout.fnmatch_lines(["*test_it.py:9 in early: 'in the set-up'*"])


def test_a_test_that_captures_for_itself_is_left_alone(run):
    """capsys and capfd tests look at their own output: nothing of it is a stray, nothing is taken from them."""
    source = """
        import os
        def test_capsys(capsys):
            print("x")
            assert capsys.readouterr().out == "x\\n"
        def test_capfd(capfd):
            os.system("echo y")
            assert capfd.readouterr().out == "y\\n"
    """
    run(source, "--stdout-guard=strict").assert_outcomes(passed=2)


def test_a_captured_child_keeps_its_pipe(run):
    """Output that the code reads back is its own affair, not stdout's."""
    source = """
        import subprocess
        def test_pipe():
            assert subprocess.run(["/bin/echo", "hi"], stdout=subprocess.PIPE).stdout == b"hi\\n"
            assert subprocess.check_output(["/bin/echo", "hi"]) == b"hi\\n"
    """
    run(source, "--stdout-guard=strict").assert_outcomes(passed=1)


def test_handlers_that_took_stdout_earlier_are_heard(run):
    """A logging handler made at import holds the stream of that moment; the logging call is named."""
    source = """
        import logging, sys
        log = logging.getLogger("x")
        def test_log():
            handler = logging.StreamHandler(sys.stdout)
            log.addHandler(handler)
            log.warning("careful")
    """
    result = run(source, "--stdout-guard=strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_it.py:7 in test_log: 'careful'*"])


@pytest.mark.parametrize(
    ("option", "environment", "ini", "expected", "source"),
    [
        ("redirect", "strict", "strict", "redirect", "option --stdout-guard"),
        (None, "redirect", "strict", "redirect", "environment variable STDOUT_GUARD"),
        (None, None, "strict", "strict", "ini stdout_guard"),
    ],
)
def test_the_nearest_setting_wins_and_is_named_in_the_header(
    run, monkeypatch, option, environment, ini, expected, source
):
    """Option before environment before ini."""
    arguments = [f"--stdout-guard={option}"] if option else []
    if environment:
        monkeypatch.setenv("STDOUT_GUARD", environment)
    result = run("def test_one():\n    print('x')\n", *arguments, ini=f"stdout_guard = {ini}")
    result.stdout.fnmatch_lines([f"stdout-guard: mode '{expected}' from {source}"])
    result.assert_outcomes(**({"failed": 1} if expected == "strict" else {"passed": 1}))


def test_a_wrong_mode_names_the_variable_and_the_choices(run, monkeypatch):
    """Nothing runs under a setting that does not exist."""
    monkeypatch.setenv("STDOUT_GUARD", "stric")
    result = run("def test_one():\n    pass\n")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*environment variable STDOUT_GUARD: 'stric' is not one of strict, redirect, off*"])


# ---- a real server


def command(name: str) -> str:
    """A server of the gate's tests, as a shell would write it."""
    return f"{sys.executable} {SERVERS / name}.py"


TALK = """
import pytest
{marker}
def test_talk(stdio_server):
    assert stdio_server.request("tools/list")["result"]["tools"][0]["name"] == "get_answer"
    assert stdio_server.call("get_answer")["content"][0]["text"] == "42"
"""


def test_a_real_server_is_started_spoken_to_and_judged(run):
    """The handshake has taken place; after the test the server is read to its end: clean passes."""
    marker = f"@pytest.mark.stdio_server(command={command('clean').split()!r})"
    run(TALK.format(marker=marker)).assert_outcomes(passed=1)


@pytest.mark.parametrize("server", ["print_in_tool", "noise_at_exit"])
def test_a_dirty_server_fails_the_test_with_bytes_and_line(run, server):
    """A test that passed is failed by what the server wrote, also after its last answer; the culprit is named."""
    result = run(TALK.format(marker=""), f"--stdout-guard-command={command(server)}")
    result.assert_outcomes(passed=1, errors=1)
    text = "listing tables" if server == "print_in_tool" else "Goodbye, 3 documents saved"
    result.stdout.fnmatch_lines(
        [f"*non-protocol stdout on line *: b'{text}\\n' (*", f"*written by *{server}.py:7 in *"]
    )


def test_the_marker_wins_over_option_environment_and_ini(run, monkeypatch):
    """The nearest command is started; the header names where the configured one comes from."""
    monkeypatch.setenv("STDOUT_GUARD_COMMAND", "/does/not/exist")
    marker = f"@pytest.mark.stdio_server({command('clean')!r}, env={{'A': 'b'}})"
    result = run(TALK.format(marker=marker), ini="stdout_guard_command = /nor/this")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["stdout-guard: command '/does/not/exist' from environment variable STDOUT_GUARD_COMMAND"]
    )


def test_a_server_that_dies_at_start_is_an_error_with_its_stderr(run):
    """No answer is an error that shows the command and both streams."""
    result = run(TALK.format(marker=""), f"--stdout-guard-command={command('dies_at_start')}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no answer to handshake (the server has ended)*", "*ModuleNotFoundError*"])


def test_no_command_at_all_says_how_to_give_one(run):
    """A usage error with the four ways."""
    result = run(TALK.format(marker=""))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no command; give @pytest.mark.stdio_server(command=...), --stdout-guard-command*"])


def test_the_gate_can_be_run_from_a_test(run):
    """The same conditions as `stdout-guard check`, on the same server."""
    source = f"""
        import pytest
        @pytest.mark.stdio_server({command("usage_on_stdout")!r})
        def test_gate(stdio_server):
            result = stdio_server.gate("plain", "bad-argument")
            assert [o.status for o in result.outcomes] == ["clean", "broken"]
    """
    run(source).assert_outcomes(passed=1)


def test_the_tripwire_fails_a_test_whose_code_reaches_out(run):
    """A file opened to write, a process, a socket: told in the failure, also when swallowed; fixtures may."""
    source = """
        import os, socket, subprocess, tempfile
        def test_quiet(tripwire, tmp_path):
            assert tripwire.events == []
            len(os.listdir(tmp_path))
        def test_file(tripwire, tmp_path):
            (tmp_path / "x").write_text("x")
        def test_swallowed(tripwire):
            try:
                socket.create_connection(("127.0.0.1", 1), timeout=1)
            except OSError:
                pass
        def test_looked_at(tripwire):
            tempfile.gettempdir()
            os.system("true")
            assert [name for name, _ in tripwire.events if name == "os.system"] == ["os.system"]
            tripwire.events.clear()
    """
    for mode in ("off", "strict"):
        result = run(source, f"--stdout-guard={mode}")
        result.assert_outcomes(passed=2, failed=2)
        result.stdout.fnmatch_lines(
            ["*leave no trace outside the process, but there was:*", "*open: *", "*socket.connect: *"]
        )


def test_a_failure_shows_the_line_of_the_test_and_no_machinery(run):
    """The error says how to allow it; no frame of the plugin, of the watch or of the server's client is shown."""
    source = f"""
        import pytest
        def test_print():
            print("hello")
        @pytest.mark.stdio_server(command={command("dies_at_start")!r})
        def test_dead(stdio_server):
            pass
        @pytest.mark.stdio_server(command={command("clean")!r})
        def test_wrong(stdio_server):
            stdio_server.call("no_such_tool")
    """
    result = run(source, "--stdout-guard=strict")
    result.stdout.fnmatch_lines(['>*print("hello")', "*StrayWriteError: *allow_stray_writes('the reason')*"])
    result.stdout.fnmatch_lines(
        ['>*stdio_server.call("no_such_tool")', "*NoAnswer: the call of 'no_such_tool' failed*"]
    )
    for name in ("inprocess.py", "_fd.py", "fixture.py", "pytest_plugin.py"):
        result.stdout.no_fnmatch_line(f"*{name}:*")
