"""install, uninstall, install: everything is given back exactly, and nothing leaks."""

from __future__ import annotations

from collections.abc import Callable

from guard.harness import FRAME, Result
from guard.test_settings import SNAPSHOT


def test_uninstall_gives_everything_back(run: Callable[..., Result], unbuffered: bool) -> None:
    """After uninstall() descriptors, streams, threads and the environment are what they were; print reaches stdout;
    a pending unfinished line was shown."""
    done = run(f"""
import stdout_guard
stdout_guard.install(); stdout_guard.uninstall()  # what is registered once for the process
{SNAPSHOT}
before = snapshot()
guard = stdout_guard.install()
print("stray", end="")  #@a
guard.take_stdin()
os.write(1, b"raw stray\\n")
stdout_guard.uninstall()
after = snapshot()
assert before == after, (before, after)
assert after[-1] == [], "children would still be told of our pipes"
assert stdout_guard.current() is None and guard.role == "ended"
stdout_guard.uninstall()
print("real", flush=True)
os.system("echo child")
""", prelude="", unbuffered=unbuffered)  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire == b"real\nchild\n"
    assert sorted(done.report) == sorted(done.at("server.py:{a} in <module>: stray", "[fd 1]: raw stray"))


def test_fifty_cycles_leak_nothing(run: Callable[..., Result]) -> None:
    """50 cycles of install and uninstall leave no descriptor, thread, finder, hook or wrapper behind."""
    done = run(f"""
import stdout_guard, subprocess
stdout_guard.install(); stdout_guard.uninstall()
{SNAPSHOT}
before, popen = snapshot(), subprocess.Popen.__init__
for n in range(50):
    stdout_guard.install()
    print("stray", n)
    subprocess.run(["true"])
    stdout_guard.uninstall()
assert snapshot() == before, (before, snapshot())
assert subprocess.Popen.__init__ is popen
print("real")
""", prelude="")  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire == b"real\n"
    assert [line.partition(": ")[2] for line in done.report] == [f"stray {n}" for n in range(50)]


def test_uninstall_does_not_wait_for_a_child_that_still_writes(run: Callable[..., Result]) -> None:
    """uninstall() and exit return at once though a child holds the channel; what the child writes later still goes to
    stderr, and the child gets no SIGPIPE."""
    done = run("""
import os, subprocess, sys, time
hold, release = os.pipe()
child = subprocess.Popen(["sh", "-c", f"cat <&{hold}; echo late; echo status $? >&2"], pass_fds=[hold])
os.close(hold)
begin = time.monotonic()
import stdout_guard
stdout_guard.uninstall()
assert time.monotonic() - begin < 2, "uninstall waited"
sys.stdout.write("real\\n"); sys.stdout.flush()
os.close(release)
child.wait()
""")
    assert done.status == 0, done.text
    assert done.wire == b"real\n"
    assert "late" in done.lines and "status 0" in done.lines


def test_install_after_uninstall_stands_anew(run: Callable[..., Result]) -> None:
    """A second guard after uninstall() may have other settings; the first one's objects refuse or pass through."""
    done = run(f"""
import stdout_guard, sys
first = stdout_guard.install()
held, wire = sys.stdout, first.wire
print("one")  #@a
stdout_guard.uninstall()
held.write("through the first one's stream\\n"); held.flush()
second = stdout_guard.install(log_format="json")
assert second is not first and stdout_guard.current() is second
print("two")
assert (first.counts.strays, second.counts.strays) == (1, 1)
second.wire.write({FRAME!r})
""", prelude="")  # fmt: skip
    assert done.status == 0, done.text
    assert done.wire == b"through the first one's stream\n" + FRAME
    assert done.report == done.at("server.py:{a} in <module>: one")
    assert '"text": "two"' in done.text


def test_a_second_copy_of_the_package_is_noticed(run: Callable[..., Result]) -> None:
    """Purged from sys.modules and imported again (a reload, a vendored copy), install() returns the guard that stands
    instead of taking the diverted fd 1 for the wire."""
    done = run("""
import os, sys
fds = os.listdir("/proc/self/fd")
for name in [n for n in sys.modules if n.partition(".")[0] == "stdout_guard"]: del sys.modules[name]
import stdout_guard
again = stdout_guard.install()
assert again is guard and os.listdir("/proc/self/fd") == fds
print("hello")  #@a
again.wire.write(b"again\\n")
answer()
""")
    assert done.status == 0, done.text
    assert done.wire == b"again\n" + FRAME
    assert done.report == done.at("server.py:{a} in <module>: hello")


def test_flags_of_the_standard_descriptors_are_never_changed(run: Callable[..., Result]) -> None:
    """0, 1 and 2 stay blocking and inheritable, and no other descriptor of ours is inheritable."""
    done = run("""
import os, sys
assert [os.get_blocking(n) for n in (0, 1, 2)] == [True] * 3
assert [os.get_inheritable(n) for n in (0, 1, 2)] == [True] * 3
print("x"); guard.take_stdin(); guard.wire.write(b"")
ours = [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2]
open_ = [n for n in ours if os.path.exists(f"/proc/self/fd/{n}")]
assert not any(os.get_inheritable(n) for n in open_), open_
assert os.get_blocking(guard.wire.fileno())
answer()
""")
    assert done.status == 0, done.text
    assert done.wire == FRAME
