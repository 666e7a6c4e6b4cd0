"""The gate's own time: floods are handled in one pass, and no wait is longer than what it waits for can need."""

from __future__ import annotations

import sys
import time

import pytest

from stdout_guard.testing import proc
from stdout_guard.testing.process import SURE, ServerProcess
from stdout_guard.testing.records import Limits
from stdout_guard.testing.safe import Redactor
from stdout_guard.testing.scanner import Scanner
from stdout_guard.testing.strays import Passed, matching


def processor_time(work) -> float:
    """Seconds of this thread: the same on a busy machine and on an idle one."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def assert_linear(work, small: int) -> None:
    """Eight times as much takes much less than 64 times as long (and a little is allowed to what takes no time)."""
    least = min(processor_time(lambda: work(small)) for _ in range(3))
    assert processor_time(lambda: work(8 * small)) < 24 * least + 0.05


@pytest.fixture
def script(tmp_path, servers):
    """A server that does ``before`` its loop, in its tool, and ``after``."""

    def make(before: str = "", tool: str = "pass", after: str = "") -> list[str]:
        path = tmp_path / "server.py"
        path.write_text(
            f"import sys, threading, time\nsys.path.insert(1, {str(servers)!r})\nimport mcpbase\n{before}\n"
            f"def tool(name, arguments):\n    {tool}\n    return '42'\nmcpbase.serve(tool)\n{after}\n"
        )
        return [sys.executable, str(path)]

    return make


def test_repeated_noise_is_counted_and_named_and_hides_no_other_fault(check, script):
    """Five thousand lines of one text, then one of another kind: a few are shown, all are counted, both are named."""
    tool = "[print('the same noise') for _ in range(5000)]; print('{\"level\": 1}')"
    (outcome,) = check(script(tool=tool)).outcomes
    same = [problem for problem in outcome.problems if problem.raw == b"the same noise\n"]
    assert 0 < len(same) < 10 and all("server.py:6 in" in problem.culprits[0] for problem in same)
    (other,) = [problem for problem in outcome.problems if problem.raw == b'{"level": 1}\n']
    assert (other.check, "server.py:6 in" in other.culprits[0]) == ("shape", True)
    number = outcome.run.stdout.count(b"the same noise\n")
    assert number >= 5000
    assert f"not-json: the bytes of line {same[0].line} came {number} times" in outcome.notes
    assert any("more findings on this stdout are not shown one by one" in note for note in outcome.notes)


def test_an_unasked_error_repeated_a_thousand_times_is_not_carried_a_thousand_times(check, script):
    """Each such line is a finding; the report holds a few and their number."""
    line = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "what?"}}'
    result = check(script(before=f"for _ in range(3000): print({line!r})\nsys.stdout.flush()"), find_culprits=False)
    assert 0 < len(result.outcomes[0].problems) < 60


def test_naming_the_writers_is_linear_in_their_records():
    """Each record is prepared once, however many problems ask."""

    def work(count: int) -> None:
        matching(b"line 7\n", [{"text": f"line {n}", "source": "python", "file": "a.py"} for n in range(count)])

    assert_linear(work, 2000)


def test_what_passed_to_the_wire_is_read_in_one_pass():
    """A record for each frame: reading them all does not copy the rest for each of them."""
    assert_linear(lambda count: Passed([b"8\ta.py\t1\tf\t\n{}      " * count]), 5000)


def test_a_long_line_is_named_though_its_record_was_cut():
    """The guard keeps head and tail of a long line, and says how much is missing: that is enough to know it again."""
    record = {"text": f"{'head ' * 20} ...[99800 of 100000 characters cut]... {' tail' * 20}"}
    assert (
        matching(b"head " * 10000 + b" tail" * 10000 + b"\n", [record]) == [record]
        or matching(b"head " * 10000 + b" tail" * 10000 + b"\n", [record])[0]["text"] == record["text"]
    )
    assert matching(b"head " * 10000 + b" other" * 10000 + b"\n", [record]) == []


def test_a_line_that_grows_for_long_is_searched_once():
    """A message of many pieces costs as much as its bytes, not the pieces times the bytes."""

    def work(count: int) -> None:
        scanner = Scanner(content_length=False)
        for _ in range(count):
            scanner.feed(b"x" * 4096, 0.0)

    assert_linear(work, 200)


@pytest.mark.parametrize("piece", ["a-", "a.", "token ", "http://", "bearer ", "x"])
def test_hiding_secrets_is_linear(piece):
    """No text makes the patterns try again from each of its characters."""
    assert_linear(lambda count: Redactor().text(piece * count), 4000)


def test_what_is_shown_of_a_huge_line_is_cut_before_it_is_searched():
    """Ten megabytes cost no more than what is shown of them; the secret at the end is hidden all the same."""
    raw = b"y" * 10_000_000 + b" password=hunter2secret\n"
    shown = Redactor().show(raw)
    assert len(shown) < 1000 and "hunter2secret" not in shown and "password=[redacted]" in shown
    assert processor_time(lambda: Redactor().show(raw)) < 1.0


def test_a_server_that_only_its_input_can_wake_is_not_waited_for(check, script):
    """It sits in a read of its stdin, all of it taken: no answer can come any more, and no patient try is needed."""
    began = time.monotonic()
    limits = {"quiet": 30.0, "start": 90.0}
    result = check([sys.executable, "-c", "import sys; sys.stdin.read()"], limits=limits)
    assert result.status == "untested" and "had nothing to do" in result.outcomes[0].untested
    assert time.monotonic() - began < 30.0 + SURE


@pytest.mark.parametrize(
    ("code", "stuck"),
    [
        ("sys.stdin.read()", True),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start(); sys.stdin.read()", True),
        ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); sys.stdin.read()", False),
        ("threading.Thread(target=lambda: threading.Event().wait(60), daemon=True).start(); sys.stdin.read()", False),
        ("import select; select.select([0], [], [])", False),
        ("import os; os.read(os.pipe()[0], 1)", False),
    ],
)
def test_stuck_is_said_only_of_what_no_clock_and_no_other_can_wake(code, stuck):
    """A time limit, an event loop or another pipe may still bring an answer."""
    with ServerProcess([sys.executable, "-c", f"import sys, threading, time\n{code}"], limits=Limits()) as process:
        process.wait_for(lambda: None, 60, 0.5)
        assert process.was_idle
        assert proc.stuck(process.pid, process._input) is stuck


def test_a_server_that_spins_at_the_end_of_its_input_gets_its_grace_in_processor_time():
    """It neither ends nor waits: SIGTERM comes when its grace is burnt, not when the clock of a busy machine says."""
    code = "import sys, time\nprint('{}', flush=True)\nsys.stdin.read()\nwhile True: pass"
    with ServerProcess([sys.executable, "-c", code], limits=Limits(grace=0.5, start=200.0)) as process:
        assert process.wait_for(lambda: process.stdout.bytes() or None, 60)
        began = time.monotonic()
        ending = process.finish()
    assert ending.how == "SIGTERM" and time.monotonic() - began < 60


def test_a_slow_start_is_not_counted_as_grace():
    """Input that ends while the server still imports: its start may cost what a start may cost."""
    code = "import time\nwhile time.process_time() < 1.0: pass"
    with ServerProcess([sys.executable, "-c", code], limits=Limits(grace=0.3)) as process:
        assert process.finish().how == "by itself"


def test_a_server_that_asks_without_end_is_not_awaited_without_end(check, script):
    """One deadline for an answer, however often the server asks something meanwhile."""
    before = (
        "def ask():\n    while True:\n        mcpbase.send({'jsonrpc': '2.0', 'id': 'p', 'method': 'ping'})\n"
        "        time.sleep(0.05)\nthreading.Thread(target=ask, daemon=True).start()"
    )
    began = time.monotonic()
    result = check(
        script(before=before, tool="threading.Event().wait()"),
        limits={"answer": 1.0, "quiet": 1.0, "grace": 0.2, "start": 4.0},
        find_culprits=False,
    )
    assert result.status == "broken" and time.monotonic() - began < 60


def test_what_one_run_awaited_in_vain_the_culprits_run_does_not_await_as_long(check, script):
    """The second run knows what the first one learnt: which requests are ignored, that it does not end by itself."""
    command = script(before="print('noise', flush=True)", after="threading.Event().wait()")
    (outcome,) = check(command, limits={"grace": 3.0}).outcomes
    later = outcome.run.learnt(outcome.run.server)
    assert outcome.problems[0].culprits == [f"written by {command[1]}:4 in <module>"] or "server.py:4" in str(
        outcome.problems[0].culprits
    )
    assert later.limits.grace < 3.0 and later.start_cost is not None
