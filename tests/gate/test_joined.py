"""Lines that are one fault are one finding, whatever they hold; what is a fault of its own stays."""

from __future__ import annotations

import json
import time

import pytest

from stdout_guard.testing import wirecheck
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.run import Run, Server
from stdout_guard.testing.scanner import Scanner, canonical
from stdout_guard.testing.strays import Passed, Strays, unprintable

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [], "text": "a{b}"}}
LINE = json.dumps(ANSWER).encode() + b"\n"
INDENTED = json.dumps(ANSWER, indent=2).encode() + b"\n"


def found(stdout: bytes) -> list[tuple[str, bytes | None]]:
    """Codes and bytes of what is found in a server's output."""
    run = Run(Server("server", ("x",)), CONDITIONS["plain"], ("x",), "/", {}, stdout=stdout, sent=REQUEST * 3)
    return [(problem.code, problem.raw) for problem in wirecheck.problems(run)[0]]


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (LINE, []),
        (INDENTED, [("spread-message", INDENTED)]),
        (INDENTED + LINE + INDENTED, [("spread-message", INDENTED)] * 2),
        (b"hi\n" + INDENTED + b"bye\n", [("not-json", b"hi\n"), ("spread-message", INDENTED), ("not-json", b"bye\n")]),
        (INDENTED.replace(b"\n", b"\r\n"), [("spread-message", INDENTED.replace(b"\n", b"\r\n"))]),
        (INDENTED[:-1], [("spread-message", INDENTED[:-1])]),
        (INDENTED[:-1] + b" end\n", [("spread-message", INDENTED[:-1] + b" end\n")]),
        (b"\xef\xbb\xbf" + LINE, [("byte-order-mark", b"\xef\xbb\xbf" + LINE)]),
        (LINE[:30] + b"\n" + LINE[30:], [("torn-message", LINE[:30] + b"\n" + LINE[30:])]),
        (LINE[:20] + b"noise\n" + LINE[20:], [("torn-message", LINE[:20] + b"noise\n" + LINE[20:])]),
        (LINE[:20] + b"a\nb\n" + LINE[20:], [("torn-message", LINE[:20] + b"a\nb\n" + LINE[20:])]),
        (LINE[:-1] + LINE, [("glued-messages", LINE[:-1] + LINE)]),
        (b"\0" + LINE, [("nul-bytes", b"\0" + LINE)]),
        (b'{"a":\n1}\n', [("embedded-newline", b'{"a":\n'), ("not-json", b"1}\n")]),  # one value, and no message
        (b"Traceback (most recent call last):\n  x\nE: y\nz\n",
         [("not-json", b"Traceback (most recent call last):\n  x\nE: y\n"), ("not-json", b"z\n")]),
    ],
)  # fmt: skip
def test_lines_of_one_fault_are_one_finding(stdout, expected):
    """From the first byte of it to the end of its last line; the lines around it are judged for themselves."""
    assert found(stdout) == expected


def test_a_torn_line_without_its_rest_stays_what_it_is():
    """Half a message and a complete other one: nothing is invented."""
    assert found(LINE[:30] + b"\n" + LINE) == [("not-json", LINE[:30] + b"\n")]


@pytest.mark.parametrize(
    "stdout", [b"{\n" * 3000, b'{"jsonrpc"\n' * 3000, b'{"jsonrpc": "2.0", ' * 40000 + b"\n", b"[" * 500000]
)
def test_what_looks_like_a_beginning_again_and_again_costs_little(stdout):
    """No search is quadratic in what a server may print."""
    began = time.thread_time()
    assert found(stdout)
    assert time.thread_time() - began < 5.0


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (INDENTED, [1]),
        (b"noise\n" + INDENTED + b"more {\n" + LINE, [1, 1]),
        (json.dumps(ANSWER).encode().replace(b"a{b}", b"a\nb") + b"\n", [1]),
        (b"{\n" + LINE, [1]),
        (b"\0" + LINE, [1]),
        (b"\xef\xbb\xbf" + INDENTED, [1]),
        (json.dumps(ANSWER).encode("utf-16") + b"\n\0", [1]),
    ],
)
def test_an_answer_is_found_however_it_is_spread(written, ids):
    """The scanner of the gate's client, fed as a whole and byte by byte."""
    whole = Scanner(content_length=False).feed(written, 0.0)
    scanner = Scanner(content_length=False)
    pieces = [message for byte in written for message in scanner.feed(bytes([byte]), 0.0)]
    for messages in (whole, pieces):
        assert [message.content["id"] for message in messages if "id" in message.content] == ids


def test_a_brace_that_is_never_closed_hides_no_answer_for_long():
    """A line that opens what nobody closes: the next message that stands alone is read, and memory is bounded."""
    scanner = Scanner(content_length=False)
    assert scanner.feed(b"{\n" + b"x" * 100 + b"\n", 0.0) == []
    assert [message.content for message in scanner.feed(LINE, 0.0)] == [ANSWER]
    for _ in range(300):
        scanner.feed(b"{" + b"x" * 10000 + b"\n", 0.0)
    assert sum(map(len, scanner._open)) < 1 << 21


def test_messages_are_the_same_whatever_their_spelling():
    """Order and spacing of members say nothing; bytes that are no JSON are like nothing at all."""
    assert canonical(b'{"b": 1,\n"a": 2}') == canonical({"a": 2, "b": 1}) != ""
    assert canonical(b"hello") == canonical(b"") == ""


def _record(data: bytes, *where: str) -> bytes:
    return "\t".join((str(len(data)), *where)).encode() + b"\n" + data


def test_the_writer_of_a_frame_is_found_by_its_bytes():
    """Across several writes, an empty line by what is before it; what was not written has no writer."""
    here, there = ("server.py", "3", "send", ""), ("lib.py", "9", "emit", "server.py:7")
    passed = Passed(
        [_record(b"Content-Length: 2\r\n\r\n", *here) + _record(b'{"a":', *there) + _record(b"1}\n\n", *here)]
    )
    assert passed.writer_of(b'{"a":1}\n')["file"] == "lib.py"
    assert passed.writer_of(b"Content-Length: 2\r\n")["line"] == "3"
    assert passed.writer_of(b"\r\n")["file"] == passed.writer_of(b"\n")["file"] == "server.py"
    assert passed.writer_of(b"1\n") is None and passed.writer_of(b'"a"\n') is None  # a part of a line is no line
    assert passed.writer_of(b"hello\n") is None and Passed([]).writer_of(b"\n") is None
    assert Passed([_record(b"x\n")]).writer_of(b"x\n") is None  # the place was not known


def test_strays_without_a_letter_are_matched_by_their_bytes():
    """A byte order mark, NUL bytes that several calls wrote, a byte that is no UTF-8; blanks match nothing."""
    raw = b'\xef\xbb\xbf\0\0{"id":1}\n'

    def texts(*given: str) -> list[str]:
        return [
            str(one["text"]) for one in unprintable(raw, Strays([{"source": "fd1", "text": text} for text in given]))
        ]

    assert texts("\ufeff") == ["\ufeff"] and texts("\\ufeff") == ["\\ufeff"]
    assert texts("\0\0\0\0\0\0") == ["\0\0\0\0\0\0"]
    assert texts("\x07") == texts(" ") == []


def test_pieces_that_were_recorded_as_one_are_told_apart():
    """`working...` written three times without a newline is one record of the guard, and one piece of each line."""
    strays = Strays([{"source": "fd1", "text": "working...working...working..."}])
    assert strays.matching(b'working...{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    assert not strays.matching(b"walking...\n")


def test_numbers_that_differ_from_run_to_run_hide_no_writer():
    """Times, process ids and addresses are another each time; the words are not, and numbers alone prove nothing."""
    strays = Strays(
        [{"source": "fd1", "text": "12:30:01 [4242] loaded at 0x7f00c0ffee"}, {"source": "fd1", "text": "17"}]
    )
    assert strays.alike(b"12:30:02 [4711] loaded at 0x7f11deadbe\n")
    assert not strays.alike(b"12:30:02 [4711] closed at 0x7f11deadbe\n")
    assert not strays.alike(b"18\n")
