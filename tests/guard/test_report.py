"""The report: three formats, whole lines, counts, a summary, and what is said of lines that nobody read."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from guard.harness import FRAME, Result


def test_the_raw_format_keeps_json_log_lines_whole(run: Callable[..., Result]) -> None:
    """raw: the text alone, without a prefix, so that a collector can parse the application's own JSON lines; its
    GitHub commands are defused; what the guard itself says keeps its prefix."""
    line = json.dumps({"level": "info", "message": "é" * 3000})
    done = run(
        f"import os, subprocess\nprint({line!r})\nos.write(1, b'raw\\n')\nprint('::error::x')\nprint('  ::error::y')\nanswer()\n",
        env={"STDOUT_GUARD_FORMAT": "raw"},
    )
    assert done.wire == FRAME
    assert json.loads(done.lines[0] if done.lines[0].startswith("{") else done.lines[1])["message"] == "é" * 3000
    assert sorted(done.lines)[0].startswith("\\x3a:error::y") or "\\x3a:error::x" in done.lines
    assert not any(text.lstrip().startswith("::") for text in done.lines)
    assert "raw" in done.lines
    assert done.lines[-1].startswith("stdout-guard: 4 stray writes kept off the wire: ")


def _records(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.lines]


def test_the_json_format(run: Callable[..., Result]) -> None:
    """json: every line of the report is one object with the call site's parts, the summary and notes included."""
    done = run("""
import os, subprocess
def tool():
    print("hello")  #@a
tool()
subprocess.run(["echo", "from child"])  #@b
os.write(1, b"raw\\n")
answer()
""", env={"STDOUT_GUARD_FORMAT": "json"})  # fmt: skip
    assert done.wire == FRAME
    records = _records(done)
    assert {record["tool"] for record in records} == {"stdout-guard"}
    assert all(isinstance(record["time"], float) for record in records)
    strays = {record["source"]: record for record in records if record["kind"] == "stray"}
    python, child, fd1 = strays["python"], strays["child"], strays["fd1"]
    assert (python["file"], python["line"], python["function"], python["text"]) == (
        "server.py",
        int(done.at("{a}")[0]),
        "tool",
        "hello",
    )
    assert (child["program"], child["caller"], child["text"]) == ("echo", done.at("server.py:{b}")[0], "from child")
    assert isinstance(child["pid"], int)
    assert fd1["text"] == "raw" and "file" not in fd1
    assert records[-1]["kind"] == "note" and "3 stray writes kept off the wire" in records[-1]["text"]


@pytest.mark.parametrize("form", ["text", "json", "raw"])
@pytest.mark.parametrize("size", [2999, 3001, 100_000, 3_000_000])
def test_an_over_long_line_is_cut_in_the_middle(run: Callable[..., Result], form: str, size: int) -> None:
    """A line too long for one whole write loses its middle: head and the last 200 characters are kept, the length is
    said, and the line of the report fits 4,096 bytes (65,536 and a little in raw)."""
    done = run(
        f"import os\nhead, tail = 'H' * 100, 'T' * 200\ntext = head + 'm' * {size - 300} + tail\n"
        "print(text)\nos.write(1, (text + '\\n').encode())\nanswer()\n",
        env={"STDOUT_GUARD_FORMAT": form},
    )  # fmt: skip
    assert done.wire == FRAME
    lines = [line for line in done.lines if "T" * 200 in line]
    assert len(lines) == 2, [line[:200] for line in done.lines]
    for line in lines:
        assert "H" * 100 in line
        limit = 66_000 if form == "raw" else 4096
        assert len(line) + 1 <= limit
        if size <= 3000 and form != "raw":
            assert "m" * (size - 300) in line
        elif len(line) < size:
            assert " cut]" in line


def test_wide_characters_are_cut_by_bytes(run: Callable[..., Result]) -> None:
    """The limit counts bytes: a long line of four-byte characters still fits one whole write."""
    done = run("print('\\U0001f600' * 5000)\nprint('\\x1b' * 5000)\nprint('\\u202e' * 5000)\nanswer()\n")
    assert done.wire == FRAME
    assert all(len(line.encode()) < 4096 for line in done.lines)
    assert len(done.report) == 3


def test_the_summary_counts_by_place(run: Callable[..., Result]) -> None:
    """One line at exit: how many in all, by place, most frequent first; nothing when nothing strayed."""
    done = run("""
import os, subprocess
for n in range(5): print(n)  #@a
print("x")  #@b
os.write(1, b"y\\n")
subprocess.run(["echo", "z"])
subprocess.run(["echo", "z"])
answer()
""")
    assert done.summary.startswith(done.at("9 stray writes kept off the wire: server.py:{a} (5), ")[0])
    for place in done.at("server.py:{b} (1)", "[fd 1] (1)", "[child echo] (2)"):
        assert place in done.summary
    silent = run("answer()\n")
    assert (silent.wire, silent.text) == (FRAME, "")


def test_many_places_are_counted_within_bounds(run: Callable[..., Result]) -> None:
    """Thousands of places and strays: the newest 1,000 records are kept, places beyond the bound are counted together,
    the total is exact and the summary is one short line."""
    done = run("""
source = "\\n".join(f"print({n})" for n in range(1500))
exec(compile(source, "made.py", "exec"))
strays, counts = guard.strays, guard.counts
assert len(strays) == 1000 and strays[-1].text == "1499" and strays[0].text == "500"
assert counts.strays == counts.python == 1500 and counts.child == counts.fd1 == 0
assert sum(n for _, n in counts.places) == 1500
assert len(counts.places) <= 501 and dict(counts.places)["elsewhere"] >= 999
assert (counts.dropped_lines, counts.dropped_bytes) == (0, 0)
try: counts.strays = 0
except AttributeError: pass
else: raise SystemExit("not frozen")
answer()
""")
    assert (done.wire, done.status) == (FRAME, 0), done.text[-2000:]
    assert done.summary.startswith("1500 stray writes kept off the wire: elsewhere (1000)")
    assert len(done.summary) < 1000
    assert len(done.report) == 1500


def test_records_are_plain_values(run: Callable[..., Result]) -> None:
    """Guard.strays holds records with the parts of the call site; they can be pickled and read well."""
    done = run("""
import pickle, sys
sys.path.append("site-packages")
import os; os.mkdir("site-packages"); open("site-packages/dep.py", "w").write("def load():\\n    print('x')\\n")
import dep
dep.load()  #@a
(stray,) = guard.strays
again = pickle.loads(pickle.dumps(stray))
for s in (stray, again):
    assert (s.source, s.file, s.line, s.function, s.text, s.note) == ("python", "site-packages/dep.py", 2, "load", "x", "")
    sys.stderr.write(f"{s.caller} | {s.place} | {s.where} | {s!r}\\n")
answer()
""")
    assert done.wire == FRAME
    where = done.at("site-packages/dep.py:2 in load (from server.py:{a})")[0]
    caller = done.at("server.py:{a}")[0]
    assert done.lines.count(f"{caller} | site-packages/dep.py:2 | {where} | <stray write: {where}: 'x'>") == 2, (
        done.text
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_never_reads_is_told_what_was_dropped(run: Callable[..., Result], form: str) -> None:
    """With stderr full and unread the server goes on; the count of dropped lines is in Guard.counts, and is said as
    soon as the reader is back."""
    done = run("""
import os, subprocess, sys
inner = '''
import sys
from stdout_guard.auto import guard
for n in range(3000): print("x" * 100, n)
guard.wire.write(b"%d %d" % (guard.counts.strays, guard.counts.dropped_lines) + bytes([10]))
sys.stdin.readline()
print("last")
'''
p = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
answer = p.stdout.readline()
first = b""
while len(first) < 40000: first += p.stderr.read(40000 - len(first))
_, err = p.communicate(b"go\\n")
strays, dropped = map(int, answer.split())
lines = (first + err).decode().splitlines()
assert strays == 3000 and dropped > 1000, answer
assert sum("x" * 100 in line for line in lines) == 3000 - dropped
assert any(f"{dropped} lines (" in line and "dropped: nobody read them" in line for line in lines), lines[-3:]
told = [n for n, line in enumerate(lines) if f"{dropped} lines (" in line]
last = [n for n, line in enumerate(lines) if "last" in line]
assert len(told) == 1 and told < last, (told, last)
if FORM == "json":
    import json
    assert {json.loads(line)["kind"] for line in lines} == {"stray", "note"}
""".replace("FORM", repr(form)), prelude="", env={"STDOUT_GUARD_FORMAT": form})  # fmt: skip
    assert done.status == 0, done.text


def test_interpreter_threads_do_not_matter_for_stderr_of_the_server(run: Callable[..., Result]) -> None:
    """The server's own stderr, tracebacks included, is neither prefixed nor counted."""
    done = run("import sys\nprint('mine', file=sys.stderr)\nanswer()\nraise ValueError('boom')\n")
    assert (done.wire, done.status) == (FRAME, 1)
    assert "stdout-guard" not in done.text
    assert done.lines[0] == "mine" and done.lines[-1] == "ValueError: boom"


def test_line_order_of_one_thread_is_kept(run: Callable[..., Result]) -> None:
    """print and stderr of one thread keep their order, since a Python write is reported before print returns."""
    done = run(
        "import sys\nfor n in range(50):\n    print(n)\n    sys.stderr.write(f'{n}\\n'); sys.stderr.flush()\nanswer()\n"
    )
    assert [line.rpartition(" ")[2] for line in done.lines[:-1]] == [str(n) for n in range(50) for _ in "ab"]
