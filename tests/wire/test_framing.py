"""Frames and framing faults, and that neither depends on how the bytes were cut."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import FRAMINGS, MAX_HEADER_LINE, Frame, FramingFault, encode, frame_reader


def read(data, framing="ndjson", cuts=(), **options):
    """Every event of a stream, fed in the pieces that ``cuts`` makes."""
    reader = frame_reader(framing, **options)
    edges = [0, *sorted(cuts), len(data)]
    events = [event for start, end in pairwise(edges) for event in reader.feed(data[start:end])]
    return events + reader.close()


def codes(events):
    return [event.code if isinstance(event, FramingFault) else "frame" for event in events]


def test_only_a_newline_delimits():
    """VT, FF, FS, NEL, U+2028 and a bare CR are bytes of the line like any other."""
    line = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg".encode()
    assert read(line + b"\n") == [Frame(b"", line, b"\n", 1, 0)]


def test_lines_and_offsets():
    """Line numbers count LF from 1, offsets count bytes, and raw is what stood on the wire."""
    first, fault, second = read(b'{"a":1}\r\n\n{}\n')
    assert (first.body, first.raw, first.line, first.offset, first.crlf) == (b'{"a":1}', b'{"a":1}\r\n', 1, 0, True)
    assert (fault.code, fault.line, fault.offset, fault.raw) == ("blank-line", 2, 9, b"\n")
    assert (second.body, second.line, second.offset, second.crlf) == (b"{}", 3, 10, False)


def test_crlf_and_blank_options():
    """CR LF and blank lines are each a choice: noted or refused, refused or skipped."""
    assert codes(read(b"{}\r\n\r\n")) == ["frame", "blank-line"]
    assert codes(read(b"{}\r\n", crlf="reject")) == ["crlf"]
    assert codes(read(b"{}\n\n\r\n{}\n", blank="allow")) == ["frame", "frame"]


@pytest.mark.parametrize("tail", [b"{}", b"\r", b" "])
def test_no_final_newline(tail):
    """What follows the last newline is never a frame, however complete it looks."""
    events = read(b"{}\n" + tail)
    assert codes(events) == ["frame", "no-final-newline"]
    assert events[1].raw == tail


def test_over_long_line_is_reported_at_once_and_left():
    """The fault comes as soon as the limit is passed, not at the newline; the next line is read again."""
    reader = frame_reader("ndjson", max_frame=10)
    assert reader.feed(b"x" * 10) == []
    (fault,) = reader.feed(b"x")
    assert (fault.code, fault.stage, fault.fatal, fault.raw) == ("frame-too-long", "limits", True, b"x" * 11)
    assert reader.feed(b"x" * 100) == []
    assert reader.feed(b"x\n{}\n") == [Frame(b"", b"{}", b"\n", 2, 113)]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"Content-Length: 2\r\n\r\n", "frame"),
        (b"content-LENGTH:\t 2 \r\n\r\n", "frame"),
        (b"Content-Length: 002\r\n\r\n", "frame"),
        (b"Content-Type: application/vscode-jsonrpc\r\nContent-Length: 2\r\n\r\n", "frame"),
        (b'Content-Length: 2\r\nContent-Type: a/b; Charset="UTF8"\r\n\r\n', "frame"),
        (b"Content-Length: 2\r\nContent-Type: a/b; charset=latin-1\r\n\r\n", "charset"),
        (b"Content-Length: 2\r\nContent-Type: a/b; charset=utf-8; charset=utf-16\r\n\r\n", "charset"),
        (b"Content-Length: 2\r\nContent-Type: a/b; charset*=utf-16''x\r\n\r\n", "charset"),
        (b"Content-Length: 2\n\n", "header-line-end"),
        (b"Content-Length: 2\r\n\n", "header-line-end"),
        (b"Content-Length : 2\r\n\r\n", "not-a-header"),
        (b" Content-Length: 2\r\n\r\n", "not-a-header"),
        (b"Content-Length:\r\n 2\r\n\r\n", "bad-length"),
        (b"Content-Length: 2\r\nX-Y: 1\r\n\r\n", "unknown-header"),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n", "repeated-header"),
        (b"Content-Length: +2\r\n\r\n", "bad-length"),
        (b"Content-Length: 2,2\r\n\r\n", "bad-length"),
        (b"Content-Length: 2.0\r\n\r\n", "bad-length"),
        (b"Content-Length: 0x2\r\n\r\n", "bad-length"),
        (b"Content-Length: \xd9\xa2\r\n\r\n", "header-not-ascii"),
        (b"Content-Length: " + b"9" * 900 + b"\r\n\r\n", "frame-too-long"),
        (b"Content-Type: a/b\r\n\r\n", "no-length"),
        (b"\r\nContent-Length: 2\r\n\r\n", "stray-newline"),
        (b"debug\r\nContent-Length: 2\r\n\r\n", "not-a-header"),
        (b"WARNING: x\r\nContent-Length: 2\r\n\r\n", "unknown-header"),
        (b"x" * (MAX_HEADER_LINE + 1), "header-too-long"),
        (b"Content-Le", "truncated-header"),
    ],
)
def test_header(header, code):
    """HTTP field syntax, only the two fields there are, digits only, CR LF only."""
    events = read(header + (b"{}" if code == "frame" else b""), "content-length")
    assert codes(events)[0] == code


def test_dap_has_no_content_type():
    """The Debug Adapter Protocol knows Content-Length alone."""
    data = b"Content-Length: 2\r\nContent-Type: a/b\r\n\r\n{}"
    assert codes(read(data, "content-length", content_type=False)) == ["unknown-header"]


def test_after_a_header_fault_nothing_is_read():
    """Once the framing is lost every later byte is left alone: no resynchronising."""
    good = b"Content-Length: 2\r\n\r\n{}"
    assert codes(read(good + b"\n" + good, "content-length")) == ["frame", "header-line-end"]


def test_huge_announcement_is_refused_before_any_body():
    """A length beyond the limit is a fault at the header, nothing is allocated for it."""
    (fault,) = read(b"Content-Length: 999999999999\r\n\r\n{}", "content-length")
    assert (fault.code, fault.stage) == ("frame-too-long", "limits")


NOISE = st.lists(
    st.sampled_from(
        [
            b"\n",
            b"\r\n",
            b"\r",
            b"\r\n\r\n",
            b"{}",
            b"x" * 30,
            b"\xff",
            b"\x00",
            b"Content-Length: 2\r\n\r\n{}",
            b"Content-Length: 3",
        ]
    ),
    max_size=12,
).map(b"".join)


@given(data=NOISE, cuts=st.lists(st.integers(0, 200), max_size=8), framing=st.sampled_from(FRAMINGS))
def test_cuts_change_nothing(data, cuts, framing):
    """Events are the same for every way of cutting the stream, byte by byte included."""
    whole = read(data, framing, max_frame=20)
    cuts = [cut for cut in cuts if cut <= len(data)]
    assert read(data, framing, cuts, max_frame=20) == whole
    assert read(data, framing, range(len(data)), max_frame=20) == whole


@given(bodies=st.lists(st.binary(min_size=1).filter(lambda body: not {10, 13} & set(body))))
@pytest.mark.parametrize("framing", FRAMINGS)
def test_encode_then_read(framing, bodies):
    """What is encoded is read back, frame for frame, and raw joins to the stream."""
    data = b"".join(encode(framing, body) for body in bodies)
    events = read(data, framing)
    assert [event.body for event in events] == bodies
    assert b"".join(event.raw for event in events) == data


@pytest.mark.parametrize("body", [b"{\n}", b"{\r}", b"{}\n"])
def test_encode_refuses_a_torn_frame(body):
    """A line break inside an ndjson frame is our own mistake, and said so."""
    with pytest.raises(LocalProtocolError, match="raw line break"):
        encode("ndjson", body)


def test_unknown_framing():
    """A framing that does not exist is a usage error that names those that do."""
    for call in (lambda: frame_reader("sse"), lambda: encode("sse", b"{}")):
        with pytest.raises(ValueError, match="ndjson, content-length"):
            call()
