"""Workers, forks, nested servers and exec: who owns the wire, and who names what."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

MULTIPROCESSING = """
import multiprocessing as mp, sys
def work():
    print("from worker")  #@work
def child():
    import os
    os.write(1, b"raw from worker\\n")
if __name__ == "__main__":
    context = mp.get_context({method!r})
    for target in (work, child):
        p = context.Process(target=target)
        p.start()  #@start
        p.join()
        assert p.exitcode == 0, p.exitcode
    answer()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(run: Callable[..., Result], method: str, unbuffered: bool) -> None:
    """A multiprocessing worker names its own lines, whatever the start method; what it writes without Python is named
    by the line that started it where that is known; the client sees the owner's frames only."""
    done = run(MULTIPROCESSING.format(method=method), unbuffered=unbuffered)
    assert done.status == 0, done.text
    assert done.wire == FRAME
    assert done.at("server.py:{work} in work: from worker")[0] in done.report
    raw = [line for line in done.report if line.endswith(": raw from worker")]
    assert len(raw) == 1, done.report
    if method == "spawn":
        assert re.match(
            r"\[child \d+ \S+, started at \S+server\.py:\d+\]|\[child \d+ \S+, started at server\.py:\d+\]", raw[0]
        ), raw
        assert done.at("started at server.py:{start}")[0] in raw[0]
    assert len(done.report) == 2, done.report


def test_a_process_pool_in_a_server(run: Callable[..., Result]) -> None:
    """Workers of a ProcessPoolExecutor print and return: results are right, lines are named, the wire is clean."""
    done = run("""
from concurrent.futures import ProcessPoolExecutor
import multiprocessing as mp
def work(n):
    print("work", n)  #@work
    return n * n
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with ProcessPoolExecutor(2, mp_context=mp.get_context(method)) as pool:
            assert list(pool.map(work, range(5))) == [0, 1, 4, 9, 16]
    answer()
""")
    assert done.status == 0, done.text
    assert done.wire == FRAME
    assert sorted(done.report) == sorted(
        done.at(*(f"server.py:{{work}} in work: work {n}" for n in range(5) for _ in "ab"))
    )


def test_a_forked_child_names_its_lines_and_has_no_wire(run: Callable[..., Result], unbuffered: bool) -> None:
    """In a forked child print is named by its line and counted by the owner; its wire refuses with the remedy, and says
    so on write, not on access."""
    done = run("""
import os, sys
pid = os.fork()
if pid == 0:
    wire = guard.wire
    print("from fork")  #@a
    try:
        answer()
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\\n"); sys.stderr.flush()
    assert guard.role == "worker"
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0, status
answer()
""", unbuffered=unbuffered)  # fmt: skip
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: from fork")
    error = next(line for line in done.lines if line.startswith("GuardStateError: "))
    assert "was forked from the server" in error and "adopt_after_fork" in error
    assert done.summary == done.at("1 stray write kept off the wire: server.py:{a} (1)")[0]


def test_seventy_children_at_once(run: Callable[..., Result]) -> None:
    """Of 70 children that live at the same time the first 64 are named, the others share fd 1: nothing is lost, and no
    descriptor is left behind."""
    done = run("""
import os, subprocess, sys
before = len(os.listdir("/proc/self/fd"))
children = [subprocess.Popen(["sh", "-c", f"read x; echo child-{n}"], stdin=subprocess.PIPE) for n in range(70)]  #@a
for child in children: child.communicate(b"go\\n")
import time
end = time.monotonic() + 20
while len(guard.strays) < 70 and time.monotonic() < end: time.sleep(0.01)
while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < end: time.sleep(0.01)
sys.stderr.write(f"fds {before} {len(os.listdir('/proc/self/fd'))}\\n")
answer()
""")
    assert done.wire == FRAME
    found = re.search(r"fds (\d+) (\d+)", done.text)
    assert found and found[1] == found[2], found
    assert sorted(line.partition("]: ")[2] for line in done.report) == sorted(f"child-{n}" for n in range(70))
    named = [line for line in done.report if re.match(done.at(r"\[child \d+ sh, started at server.py:{a}\]")[0], line)]
    assert len(named) == 64, len(named)
    assert sum(line.startswith("[fd 1]: ") for line in done.report) == 6


def test_a_childs_lines_stay_whole_and_its_last_line_needs_no_newline(run: Callable[..., Result]) -> None:
    """Lines of two children that write in pieces at the same time are not mixed; a last line without its newline is
    shown when the child ends."""
    done = run("""
import subprocess, sys
code = "import os, sys\\nfor n in range(200):\\n    os.write(1, sys.argv[1].encode()); os.write(1, b' %d\\\\n' % n)\\nos.write(1, b'end')"
two = [subprocess.Popen([sys.executable, "-S", "-c", code, name]) for name in ("one", "two")]
for p in two: p.wait()
answer()
""")
    assert done.wire == FRAME
    texts = [line.partition("]: ")[2] for line in done.report]
    assert sorted(texts) == sorted([*(f"{name} {n}" for name in ("one", "two") for n in range(200)), "end", "end"])


def test_a_guarded_server_started_over_pipes_has_its_own_wire(run: Callable[..., Result]) -> None:
    """A guarded proxy that starts a guarded server over pipes: two wires, each clean; the inner one's stderr names its
    own strays."""
    done = run("""
import subprocess, sys
inner = '''
from stdout_guard.auto import guard
print("inner stray")
guard.wire.write(b"inner frame\\\\n")
assert guard.role == "owner"
'''
print("outer stray")  #@a
got = subprocess.run([sys.executable, "-c", inner], stdout=subprocess.PIPE)
assert got.returncode == 0 and got.stdout == b"inner frame\\n", got
answer()
""")
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: outer stray", "<string>:3 in <module>: inner stray")


def test_a_guarded_script_whose_stdout_is_the_parents_channel_is_a_worker(run: Callable[..., Result]) -> None:
    """A guarded child that inherits the parent's channel does not claim it: its lines are named by the parent, its wire
    refuses on write with the remedy."""
    done = run("""
import subprocess, sys
inner = '''
import sys
from stdout_guard.auto import guard
print("inner stray")
try: guard.wire.write(b"frame")
except Exception as error: sys.stderr.write(type(error).__name__ + ": " + str(error) + chr(10))
'''
assert subprocess.run([sys.executable, "-c", inner]).returncode == 0
answer()
""")
    assert done.wire == FRAME
    assert done.report == ["<string>:4 in <module>: inner stray"]
    assert any(line.startswith("GuardStateError: ") and "stdout=subprocess.PIPE" in line for line in done.lines)


def test_exec_of_the_owner_keeps_its_wire(run: Callable[..., Result]) -> None:
    """A server that replaces itself by os.exec (a reloader) gives fd 0 and fd 1 to the new image; a failed exec changes
    nothing."""
    done = run("""
import os, sys
if "again" in sys.argv:
    print("second stray")  #@b
    answer()
    line = guard.take_stdin().readline()
    guard.wire.write(b"echo " + line)
    raise SystemExit(0)
print("first stray")  #@a
guard.take_stdin()
try:
    os.execv("/nonexistent", ["x"])
except FileNotFoundError:
    pass
print("after failed exec")  #@c
os.system("echo unnamed")
answer()
os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
""", stdin=b"from the client\n")  # fmt: skip
    assert done.wire == FRAME + FRAME + b"echo from the client\n"
    assert [line for line in done.report if not line.startswith("[")] == done.at(
        "server.py:{a} in <module>: first stray",
        "server.py:{c} in <module>: after failed exec",
        "server.py:{b} in <module>: second stray",
    )
    assert "[fd 1]: unnamed" in done.report


def test_with_the_dup_channel_children_and_c_code_go_straight_to_stderr(run: Callable[..., Result]) -> None:
    """channel dup: no thread, no pipe; Python lines are named as ever, the rest arrives on stderr as it is."""
    done = run("""
import os, subprocess
assert len(os.listdir("/proc/self/task")) == 1
print("named")  #@a
subprocess.run(["echo", "from child"])
os.write(1, b"from os.write\\n")
answer()
""", env={"STDOUT_GUARD_CHANNEL": "dup"})  # fmt: skip
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: named")
    assert {"from child", "from os.write"} <= set(done.lines)
