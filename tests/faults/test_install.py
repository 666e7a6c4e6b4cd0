"""Faults 23, 47 and 48: install twice, late, over and over, and with nothing to be had from the system."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faults.harness import Child

BARE = "import os, sys\n"
STATE = """
import time
import stdout_guard
from stdout_guard.errors import StdoutGuardError
def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try: status = os.stat("/proc/self/fd/" + name)
        except OSError: continue
        found[int(name)] = (status.st_dev, status.st_ino, os.get_inheritable(int(name)))
    return found
def tasks(): return len(os.listdir("/proc/self/task"))
def state(): return descriptors(), sys.stdout, sys.__stdout__, vars(sys.stdout).get("write"), dict(os.environ)
def same(before, threads):
    now, limit = state(), time.monotonic() + 30
    assert now == before, [pair for pair in zip(before, now) if pair[0] != pair[1]]
    while tasks() > threads: assert time.monotonic() < limit, "a thread is left"
def frame(i): return b'{"jsonrpc":"2.0","id":%d,"result":0}\\n' % i
"""


def test_installed_twice(launch: Callable[..., Child], wire: str) -> None:
    """Fault 23: a second install is the same guard; one with other settings or a word that does not exist is a
    GuardStateError and changes nothing.

    Seen to fail with a second claim of fd 1, and with the clash let through.
    """
    child = launch(
        """
assert stdout_guard.install() is guard is stdout_guard.current()
from stdout_guard.auto import guard as third
assert third is guard
for settings in ({"mode": "strict"}, {"channel": "dup"}, {"log": "x.log"}, {"mode": "loud"}, {"channel": "pty"}):
    try: stdout_guard.install(**settings)
    except stdout_guard.GuardStateError: continue
    raise AssertionError(settings)
assert stdout_guard.current() is guard and not os.path.exists("x.log")
print("named")
send(1)
""",
        wire=wire,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "in <module>: named" in child.text


@pytest.mark.parametrize("name", ["STDOUT_GUARD", "STDOUT_GUARD_CHANNEL", "STDOUT_GUARD_FORMAT", "STDOUT_GUARD_LOG"])
def test_a_setting_that_does_not_exist(launch: Callable[..., Child], name: str) -> None:
    """A wrong word in the environment is an error that names it, with nothing taken.

    Seen to fail with an unknown word taken for the default.
    """
    child = launch(
        f"before = state()\nos.environ[{name!r}] = '/no/such/folder/x' if 'LOG' in {name!r} else 'nonsense'\n"
        + """
try: stdout_guard.install()
except stdout_guard.GuardStateError as error: os.write(2, str(error).encode())
else: raise AssertionError("installed")
assert state()[:4] == before[:4]
os.write(1, frame(1))
""",
        prelude=BARE + STATE,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert name in child.text and ("nonsense" in child.text or "/no/such/folder/x" in child.text)


def test_after_the_sdk_took_stdout(launch: Callable[..., Child], wire: str) -> None:
    """Fault 23 and hazard 13: when an SDK has pointed fd 1 at stderr already, the guard refuses by name instead of
    taking stderr for the wire.

    Seen to fail with the look for a late install taken out.
    """
    child = launch(
        """
import types
names = [types.ModuleType(n) for n in ("mcp", "mcp.server", "mcp.server.stdio")]
sys.modules |= {m.__name__: m for m in names}
names[2]._claims = {1: "claimed"}
private = os.dup(1)
os.dup2(2, 1)
before = state()
try: stdout_guard.install()
except stdout_guard.GuardStateError as error: os.write(2, str(error).encode())
assert state() == before
os.write(private, frame(1))
""",
        prelude=BARE + STATE,
        wire=wire,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "already" in child.text and "first" in child.text


@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_uninstall_in_any_order(launch: Callable[..., Child], wire: str, channel: str) -> None:
    """Fault 23: uninstall after others replaced sys.stdout, hooked it, or took stdin; twice; without an install; then
    stdout is what it was, and what was held over still works.

    Seen to fail with fd 1 left diverted, and with sys.stdout left ours.
    """
    child = launch(
        """
import io, logging
stdout_guard.uninstall()
before, threads = state(), tasks()
guard = stdout_guard.install()
handler = logging.StreamHandler(sys.stdout)
print("named")
held = sys.stdout
sys.stdout = io.StringIO()
guard.take_stdin()
stdout_guard.uninstall()
stdout_guard.uninstall()
same(before, threads)
assert stdout_guard.current() is None
print(frame(1).decode(), end="")
held.write(frame(2).decode())
held.flush()
handler.emit(logging.makeLogRecord({"msg": frame(3).decode().strip()}))
sys.stdout.flush()
again = stdout_guard.install()
assert again is not guard
print("named again")
again.wire.write(frame(4))
try: guard.wire.write(frame(5))
except (stdout_guard.GuardStateError, OSError): pass
""",
        prelude=BARE + STATE,
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert sorted(child.ids()) == [1, 2, 3, 4]
    assert "in <module>: named\n" in child.text and "in <module>: named again\n" in child.text


def test_uninstall_is_quick(launch: Callable[..., Child]) -> None:
    """Hazard 2: uninstall waits neither for a silent pump nor for a living child that holds the channel.

    Seen to fail with the pump read in a blocking way.
    """
    child = launch(
        """
import subprocess
took = []
for _ in range(5):
    guard = stdout_guard.install()
    process = subprocess.Popen(["head", "-c3", os.environ["HOLD"]])
    start = time.monotonic()
    stdout_guard.uninstall()
    took.append(time.monotonic() - start)
assert min(took) < 0.5, took
os.write(1, frame(1))
""",
        prelude=BARE + STATE,
    )
    assert child.wait_exit() == 0
    child.release()
    child.finish()
    assert child.ids() == [1]


@pytest.mark.parametrize("channel", ["thread", "dup"])
@pytest.mark.parametrize("log", ["log", "stderr"])
def test_fifty_cycles(launch: Callable[..., Child], wire: str, channel: str, log: str) -> None:
    """Fault 47: 50 times install, noise of each kind, a frame, uninstall: no descriptor, thread, child or environment
    variable is left over.

    Seen to fail with the wake-up pipe left open.
    """
    child = launch(
        """
import subprocess
before, threads = state(), tasks()
for number in range(50):
    guard = stdout_guard.install()
    print("python", number)
    os.write(1, b"below %d\\n" % number)
    if number % 10 == 0: subprocess.run(["/bin/echo", "child", str(number)])
    if number % 7 == 0: guard.take_stdin()
    guard.wire.write(frame(number))
    stdout_guard.uninstall()
    same(before, threads)
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: os.write(1, frame(50))
""",
        prelude=BARE + STATE,
        wire=wire,
        channel=channel,
        env={"STDOUT_GUARD_LOG": "report.log"} if log == "log" else None,
    )
    assert child.finish() == 0
    assert child.ids() == list(range(51))
    told = (child.folder / "report.log").read_text() if log == "log" else child.text
    for number in range(50):
        assert told.count(f"in <module>: python {number}\n") == 1
        assert told.count(f"below {number}\n") == 1
    assert [told.count(f"child {number}\n") for number in range(0, 50, 10)] == [1] * 5


INJECTIONS = {
    "os.dup": "OSError(errno.EMFILE, 'injected')",
    "os.dup2": "OSError(errno.EBUSY, 'injected')",
    "os.pipe": "OSError(errno.EMFILE, 'injected')",
    "os.open": "OSError(errno.ENFILE, 'injected')",
    "os.set_blocking": "OSError(errno.ENOMEM, 'injected')",
    "fcntl.fcntl": "OSError(errno.EMFILE, 'injected')",
    "_thread.start_new_thread": 'RuntimeError("can\'t start new thread")',
    "_thread.allocate_lock": 'RuntimeError("can\'t allocate lock")',
    "os.register_at_fork": "MemoryError()",
}


@pytest.mark.parametrize("function", INJECTIONS)
@pytest.mark.parametrize("channel", ["thread", "dup"])
@pytest.mark.parametrize("stderr", ["pipe", "socket", "file"])
def test_nothing_to_be_had(launch: Callable[..., Child], wire: str, function: str, channel: str, stderr: str) -> None:
    """Fault 48: the n-th call of each system function fails in install, for every n: the guard either stands whole
    (frames out, noise off the wire) or raises and leaves descriptors, streams, threads and environment as they were.

    Seen to fail with the undo of a half install taken out.
    """
    module, _, name = function.partition(".")
    child = launch(
        f"""
import errno, {module}
real = {function}
def failing(*args, **kwargs):
    global left
    left -= 1
    if left == 0: raise {INJECTIONS[function]}
    return real(*args, **kwargs)
"""
        + f"""
stdout_guard.install().wire.write(frame(0))  # what is imported once and hooked once is behind us
stdout_guard.uninstall()
before, threads = state(), tasks()
for turn in range(1, 100):
    left = turn
    {module}.{name} = failing
    try: guard = stdout_guard.install()
    except (OSError, RuntimeError, MemoryError, StdoutGuardError) as error:
        {module}.{name} = real
        os.write(2, f"turn {{turn}} refused: {{error!r}}\\n".encode())
        same(before, threads)
        os.write(1, frame(turn))
        continue
    {module}.{name} = real
    os.write(1, b"below\\n")
    print("python")
    guard.wire.write(frame(turn))
    assert not guard.verify(), guard.verify()
    stdout_guard.uninstall()
    same(before, threads)
    if left > 0: break
else: raise AssertionError("never got through")
os.write(2, f"turns {{turn}}\\n".encode())
""",
        prelude=BARE + STATE,
        wire=wire,
        channel=channel,
        stderr=stderr if stderr != "file" else "pipe",
        shell='exec "$@" 2>err' if stderr == "file" else "",
    )
    assert child.finish() == 0, (child.folder / "err").read_text() if stderr == "file" else ""
    assert child.ids() == list(range(len(child.ids())))
    text = (child.folder / "err").read_text() if stderr == "file" else child.text
    assert "turns " in text


@pytest.mark.parametrize("channel", ["thread", "dup"])
@pytest.mark.parametrize("stdin", ["", "guard.take_stdin()"])
def test_a_descriptor_limit(launch: Callable[..., Child], wire: str, channel: str, stdin: str) -> None:
    """Fault 48, without injection: with room for n descriptors more, n from 0 to 14, install stands or raises whole.

    Seen to fail with the undo of a half install taken out.
    """
    child = launch(
        f"""
import resource
stdout_guard.install().wire.write(frame(0))
stdout_guard.uninstall()
before, threads = state(), tasks()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for room in range(15):
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 + room, hard))
    try: guard = stdout_guard.install()
    except (OSError, StdoutGuardError) as error:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.write(1, frame(room + 1))
    else:
        try: {stdin or "pass"}
        except OSError: pass
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.write(1, b"below\\n")
        print("python")
        guard.wire.write(frame(room + 1))
        stdout_guard.uninstall()
    same(before, threads)
assert "guard" in globals()
""",
        prelude=BARE + STATE,
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids() == list(range(16))


def test_children_when_nothing_is_to_be_had(launch: Callable[..., Child], wire: str) -> None:
    """Fault 48: no pipe for a child of its own: it shares fd 1's, is heard, and starts all the same.

    Seen to fail with the error let through to the caller of Popen.
    """
    child = launch(
        """
import errno, subprocess
real = os.pipe
def failing(): raise OSError(errno.EMFILE, "injected")
os.pipe = failing
assert subprocess.run(["/bin/echo", "heard"], close_fds=False).returncode == 0 if hasattr(os, "posix_spawn") else True
os.pipe = real
send(1)
""",
        wire=wire,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "heard" in child.text


def test_more_children_than_pipes(launch: Callable[..., Child], wire: str) -> None:
    """Decision 5: 80 children that live at once: 64 have pipes of their own, the rest share, all are heard, and the
    descriptors come back when they end.

    Seen to fail with the limit taken out under a low descriptor limit.
    """
    child = launch(
        """
import subprocess
before = len(os.listdir("/proc/self/fd"))
shell = ["/bin/sh", "-c", "head -c3 $HOLD >/dev/null; echo child $0 ended"]
children = [subprocess.Popen([*shell, str(number)]) for number in range(80)]
assert len(os.listdir("/proc/self/fd")) <= before + 64 + 1
send(1)
for process in children: assert process.wait() == 0
send(2)
""",
        wire=wire,
    )
    child.wait_frame(1)
    child.release()
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    assert [child.text.count(f"child {number} ended") for number in range(80)] == [1] * 80


@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_children_cost_no_memory(launch: Callable[..., Child], channel: str) -> None:
    """Long-lived servers start many children: 600 of them leave nothing behind, in memory neither.

    Seen to fail with the environment's marker set anew for each child: setenv() of glibc never frees a value.
    """
    child = launch(
        """
import subprocess
def memory(): return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])
def start(times):
    for _ in range(times): subprocess.run(["/bin/true"])
start(300)
before = memory()
start(600)
send(memory() - before)
""",
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids()[0] < 300  # KiB
