"""Settings: every variable and argument, what wins, and that a wrong one leaves everything as it was."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from guard.harness import FRAME, UNDER_TEST, Result

# Tells what the guard could have touched, as one line.
SNAPSHOT = """
import os, sys, time
def snapshot():
    limit = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < limit:
        time.sleep(0.001)  # a thread that has ended takes a moment to be gone
    names = ["/proc/self/fd/" + n for n in os.listdir("/proc/self/fd")]
    fds = sorted((n, os.readlink(n)) for n in names if os.path.lexists(n))
    flags = [os.get_blocking(n) for n in (0, 1, 2)], [os.get_inheritable(n) for n in (0, 1, 2)]
    tasks = len(os.listdir("/proc/self/task"))
    hooks = [id(x) for x in (os.execv, os.execve, sys.breakpointhook, sys.unraisablehook, sys.excepthook)]
    streams = id(sys.stdout), id(sys.__stdout__), sorted(vars(sys.stdout)), id(sys.stdin), id(sys.stderr)
    marker = sorted(k for k in os.environ if "STDOUT_GUARD_CHANNEL" in k)
    return fds, flags, tasks, hooks, streams, [id(f) for f in sys.meta_path], marker
"""

WRONG = [
    ("STDOUT_GUARD", "Strict", None, "environment variable STDOUT_GUARD: 'Strict' is not one of off, redirect, strict"),
    ("STDOUT_GUARD", "1", None, "environment variable STDOUT_GUARD: '1' is not one of off, redirect, strict"),
    ("STDOUT_GUARD", " off", None, "environment variable STDOUT_GUARD: ' off' is not one of off, redirect, strict"),
    (
        "STDOUT_GUARD_FORMAT",
        "xml",
        None,
        "environment variable STDOUT_GUARD_FORMAT: 'xml' is not one of text, json, raw",
    ),
    ("STDOUT_GUARD_CHANNEL", "pty", None, "environment variable STDOUT_GUARD_CHANNEL: 'pty' is not one of thread, dup"),
    ("STDOUT_GUARD_REDACT", "maybe", None, "environment variable STDOUT_GUARD_REDACT: 'maybe' is not one of 1, 0"),
    ("STDOUT_GUARD_ASYNC", "maybe", None, "environment variable STDOUT_GUARD_ASYNC: 'maybe' is not one of 1, 0"),
    ("STDOUT_GUARD_WRITERS", "a b", None, "'a b' cannot be a protocol writer"),
    ("STDOUT_GUARD_WRITERS", "__main__", None, "'__main__' cannot be a protocol writer"),
    ("STDOUT_GUARD_LOG", "/nonexistent/folder/log", None, "STDOUT_GUARD_LOG"),
    ("", "", "mode='lax'", "argument mode: 'lax' is not one of off, redirect, strict"),
    ("", "", "log_format='xml'", "argument log_format: 'xml' is not one of text, json, raw"),
    ("", "", "channel='pty'", "argument channel: 'pty' is not one of thread, dup"),
    ("", "", "redact='yes'", "argument redact: 'yes' is neither true, false nor a callable"),
    ("", "", "async_wire='yes'", "argument async_wire: 'yes' is neither True nor False"),
    ("", "", "writers='mine'", "argument writers: 'mine' is a str; give a list of module names"),
    ("", "", "writers=['a-b']", "'a-b' cannot be a protocol writer"),
    ("", "", "log='/nonexistent/folder/log'", "'/nonexistent/folder/log'"),
]


@pytest.mark.parametrize(
    ("variable", "value", "argument", "message"), WRONG, ids=[f"{w[0]}{w[1]}{w[2]}" for w in WRONG]
)
def test_a_wrong_value_names_itself_and_leaves_everything_untouched(
    run: Callable[..., Result], variable: str, value: str, argument: str | None, message: str
) -> None:
    """A wrong value is a GuardStateError that names the variable or argument, the value and the choices; descriptors,
    streams, hooks, threads and finders are what they were, and a right call afterwards stands."""
    done = run(f"""
import stdout_guard, stdout_guard.errors
{SNAPSHOT}
before = snapshot()
try:
    stdout_guard.install({argument or ""})
except stdout_guard.GuardStateError as error:
    sys.stderr.write(f"{{error}}\\n")
else:
    raise SystemExit("no error")
after = snapshot()
assert before == after, (before, after)
assert stdout_guard.current() is None
print("still the real stdout", flush=True)
os.environ.pop({variable!r}, None)
guard = stdout_guard.install()
guard.wire.write({FRAME!r})
""", prelude="", env={variable: value} if variable else {})  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire == b"still the real stdout\n" + FRAME
    assert message in done.text


def test_a_wrong_value_stops_the_import(run: Callable[..., Result]) -> None:
    """import stdout_guard.auto with a wrong variable ends the program with the error's text."""
    done = run("print('not reached')\n", env={"STDOUT_GUARD": "yes"})
    assert (done.status, done.wire) == (1, b"")
    assert done.lines[-1] == (
        "stdout_guard.errors.GuardStateError: environment variable STDOUT_GUARD: 'yes' is not one of off, redirect, "
        "strict; the guard was not installed"
    )


def test_a_wrong_variable_is_an_error_whatever_the_other_half_says(run: Callable[..., Result]) -> None:
    """A wrong argument is an error though the variable is right, and a wrong variable though the argument is right."""
    for call, env in (("mode='lax'", {"STDOUT_GUARD": "strict"}), ("mode='strict'", {"STDOUT_GUARD": "lax"})):
        done = run(f"from stdout_guard import install\ninstall({call})\n", prelude="", env=env)
        assert done.status == 1
        assert "'lax' is not one of off, redirect, strict" in done.lines[-1]


EMPTY = dict.fromkeys(
    (f"STDOUT_GUARD{x}" for x in ("", "_LOG", "_FORMAT", "_WRITERS", "_CHANNEL", "_REDACT", "_ASYNC")), ""
)


def test_empty_means_unset(run: Callable[..., Result]) -> None:
    """Every variable set to the empty string is as if it were not set: redirect, text, stderr, thread."""
    done = run(
        "import os\nassert (guard.mode, len(os.listdir('/proc/self/task'))) == ('redirect', 2)\n"
        "print('password=hunter2')  #@a\nanswer()\n",
        env=EMPTY,
    )
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: password=hunter2")


PRECEDENCE = [
    ({}, "", "redirect"),
    ({}, "mode='strict'", "strict"),
    ({}, "mode='off'", "off"),
    ({}, "'strict'", "strict"),
    ({"STDOUT_GUARD": "redirect"}, "mode='strict'", "redirect"),
    ({"STDOUT_GUARD": "strict"}, "mode='redirect'", "strict"),
    ({"STDOUT_GUARD": "strict"}, "mode='off'", "strict"),
    ({"STDOUT_GUARD": "off"}, "mode='strict'", "off"),
    ({"STDOUT_GUARD": ""}, "mode='strict'", "strict"),
    ({"STDOUT_GUARD": "strict"}, "", "strict"),
]


@pytest.mark.parametrize(("env", "argument", "mode"), PRECEDENCE, ids=[f"{e}{a}" for e, a, _ in PRECEDENCE])
def test_the_variable_wins_over_the_argument(
    run: Callable[..., Result], env: Mapping[str, str], argument: str, mode: str
) -> None:
    """STDOUT_GUARD wins over the argument; unset or empty, the argument counts; without both, redirect."""
    done = run(
        f"import stdout_guard\nguard = stdout_guard.install({argument})\nguard.wire.write(guard.mode.encode())\n",
        prelude="",
        env=env,
    )
    assert (done.wire.decode(), done.status) == (mode, 0)


def test_each_other_variable_wins_over_its_argument(run: Callable[..., Result], tmp_path: Path) -> None:
    """LOG, FORMAT, CHANNEL and REDACT win over their arguments as well; WRITERS adds to its argument."""
    done = run(
        "import os, stdout_guard\n"
        "guard = stdout_guard.install(log='argument.log', log_format='raw', channel='thread', redact=False, writers=['one'])\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "assert not os.path.exists('argument.log')\n"
        "assert set(guard.settings.writers) == {'one', 'two', 'pkg.three'}\n"
        "print('password=hunter2')\n"
        f"guard.wire.write({FRAME!r})\n",
        prelude="",
        env={
            "STDOUT_GUARD_LOG": str(tmp_path / "variable.log"),
            "STDOUT_GUARD_FORMAT": "json",
            "STDOUT_GUARD_CHANNEL": "dup",
            "STDOUT_GUARD_REDACT": "1",
            "STDOUT_GUARD_WRITERS": " two , pkg.three,,",
        },
    )
    assert done.wire == FRAME, done.text
    assert done.text == ""
    logged = (tmp_path / "variable.log").read_text()
    assert logged.startswith('{"tool": "stdout-guard"')
    assert "hunter2" not in logged


@pytest.mark.parametrize("options", [("-I",), ("-E",), ("-s", "-P"), ("-S",), ("-O",), ("-X", "utf8=0")], ids=" ".join)
def test_interpreter_options_do_not_switch_it_off(run: Callable[..., Result], options: tuple[str, ...]) -> None:
    """-I and -E keep the guard's own variables working: they are the operator's, not Python's."""
    where = f"import sys; sys.path.insert(0, {UNDER_TEST!r})\n"
    source = f"{where}from stdout_guard.auto import guard\nprint('hello')  #@a\nguard.wire.write({FRAME!r})\n"
    done = run(source, prelude="", options=options)
    assert (done.wire, done.report) == (FRAME, done.at("server.py:{a} in <module>: hello")), done.text
    off = run(source, prelude="", options=options, env={"STDOUT_GUARD": "off"})
    assert (off.wire, off.text) == (b"hello\n" + FRAME, "")
    strict = run(source, prelude="", options=options, env={"STDOUT_GUARD": "strict"})
    assert strict.status != 0 and "StrayWriteError" in strict.text


def test_installing_again_is_harmless(run: Callable[..., Result]) -> None:
    """install() returns the guard that stands; the same settings, or none, said again change nothing."""
    done = run("""
import importlib, os, sys, stdout_guard
guard = stdout_guard.install("strict", writers=["one", "two"], log_format="text")
fds, stream = os.listdir("/proc/self/fd"), sys.stdout
assert stdout_guard.install() is guard
assert stdout_guard.install("strict") is guard
assert stdout_guard.install("strict", writers=("two",)) is guard
assert stdout_guard.install(log_format="text", channel="thread", redact=False) is guard
import stdout_guard.auto
assert stdout_guard.auto.guard is guard is stdout_guard.current()
assert os.listdir("/proc/self/fd") == fds and sys.stdout is stream and len(os.listdir("/proc/self/task")) == 2
guard.wire.write(b"ok")
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"ok", 0), done.text


CLASH = [
    ("'redirect'", "mode='redirect' (it stands with 'strict')"),
    ("log_format='json'", "log_format='json' (it stands with 'text')"),
    ("channel='dup'", "channel='dup' (it stands with 'thread')"),
    ("log='x.log'", "log='x.log' (it stands with '')"),
    ("redact=True", "redact=True (it stands with False)"),
    ("async_wire=True", "async_wire=True (it stands with False)"),
    ("writers=['three']", "writers=('three',) (it stands with ('one',))"),
    ("'redirect', channel='dup'", "channel='dup' (it stands with 'thread')"),
]


@pytest.mark.parametrize(("call", "message"), CLASH, ids=[row[0] for row in CLASH])
def test_installing_again_with_other_settings_is_an_error(run: Callable[..., Result], call: str, message: str) -> None:
    """A second install() with other settings is a GuardStateError that says which, and what stands; it changes
    nothing."""
    done = run(f"""
import os, stdout_guard
guard = stdout_guard.install("strict", writers=["one"])
fds = os.listdir("/proc/self/fd")
try:
    stdout_guard.install({call})
except stdout_guard.GuardStateError as error:
    guard.wire.write(str(error).encode())
assert os.listdir("/proc/self/fd") == fds and guard.mode == "strict" and stdout_guard.current() is guard
assert not os.path.exists("x.log")
""", prelude="")  # fmt: skip
    assert done.status == 0, done.text
    assert message in done.wire.decode()
    assert "the guard already stands in this process" in done.wire.decode()


def test_a_clash_that_the_variable_settles_is_none(run: Callable[..., Result]) -> None:
    """Where the variable decides, two install() calls with different arguments agree."""
    done = run(
        "import stdout_guard\nguard = stdout_guard.install('strict')\n"
        "assert stdout_guard.install('redirect') is guard and guard.mode == 'redirect'\nguard.wire.write(b'ok')\n",
        prelude="",
        env={"STDOUT_GUARD": "redirect"},
    )
    assert (done.wire, done.status) == (b"ok", 0), done.text


def test_importing_the_package_does_nothing(run: Callable[..., Result]) -> None:
    """import stdout_guard touches nothing; an unknown name of it is an AttributeError; every public name exists."""
    done = run(f"""
{SNAPSHOT}
before = snapshot()
import stdout_guard
assert snapshot() == before and stdout_guard.current() is None
for name in stdout_guard.__all__: getattr(stdout_guard, name)
from stdout_guard import Guard, StrayWrite, StrayWriteError, GuardStateError, LateInstallWarning
try: stdout_guard.nothing
except AttributeError as error: assert "nothing" in str(error)
else: raise SystemExit("no error")
stdout_guard.uninstall()
assert snapshot() == before
print("clean")
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"clean\n", 0), done.text
