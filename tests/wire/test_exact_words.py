"""What exactly is said of each kind of fault: code, stage and words are what people search for and scripts compare."""

import pytest

from stdout_guard.errors import LocalProtocolError
from stdout_guard.framing import FramingFault, encode, frame_reader
from stdout_guard.jsonrpc import (
    STRICT,
    Envelope,
    Fault,
    Message,
    Note,
    check_outgoing,
    classify,
    classify_batch,
    classify_dap,
    dump_outgoing,
)

V = {"jsonrpc": "2.0"}
ERROR = {"code": -32600, "message": "m"}
LOOSE = STRICT._replace(extra="allow")
ANY_NULL = Envelope(error_id_null="any")
NO_ID = Envelope(error_id_optional=True)
EXTRA = "the message has a member 'x': some clients drop such a message"
BIG = (Note("big-id", "an id beyond 2^53-1 cannot be echoed by JavaScript peers"),)
NULL = (Note("null-error-id", "an error with id null: some clients drop it"),)

SHAPES = [
    (7, "not-an-object", "a JSON integer is not a message"),
    (7.5, "not-an-object", "a JSON fraction is not a message"),
    ("x", "not-an-object", "a JSON string is not a message"),
    (True, "not-an-object", "a JSON boolean is not a message"),
    ([], "not-an-object", "a JSON array is not a message"),
    (None, "not-an-object", "a JSON null is not a message"),
    ({}, "version", 'the member jsonrpc must be exactly "2.0"'),
    ({"jsonrpc": 2.0, "method": "m"}, "version", 'the member jsonrpc must be exactly "2.0"'),
    ({**V, "id": 1}, "no-shape", "none of method, result and error is there"),
    ({**V, "method": 5}, "method", "method must be a string that is not empty"),
    ({**V, "method": ""}, "method", "method must be a string that is not empty"),
    ({**V, "method": "m", "params": None}, "params", "params must be an object or an array, or be left out"),
    ({**V, "method": "m", "params": "p"}, "params", "params must be an object or an array, or be left out"),
    ({**V, "method": "m", "id": None}, "id", "a request's id must be a string or an integer, not null"),
    ({**V, "method": "m", "id": True}, "id", "a request's id must be a string or an integer, not boolean"),
    ({**V, "method": "m", "id": 1.0}, "id", "a request's id must be a string or an integer, not fraction"),
    ({**V, "method": "m", "id": {}}, "id", "a request's id must be a string or an integer, not object"),
    ({**V, "method": "m", "x": 1}, "extra-member", EXTRA),
    ({**V, "method": "m", "id": 1, "x": 1}, "extra-member", EXTRA),
    ({**V, "method": "m", "id": 1, "params": {}, "x" * 70: 1}, "extra-member", EXTRA.replace("'x'", repr("x" * 64))),
    ({**V, "method": "m", "id": 1, "result": {}}, "hybrid", "both a call and an answer"),
    ({**V, "method": "m", "id": 1, "error": ERROR}, "hybrid", "both a call and an answer"),
    ({**V, "id": 1, "result": {}, "error": ERROR}, "result-and-error", "both result and error are there"),
    ({**V, "id": 1, "result": {}, "x": 1}, "extra-member", EXTRA),
    ({**V, "result": {}}, "id", "a result must carry the string or integer id of its request"),
    ({**V, "id": None, "result": {}}, "id", "a result must carry the string or integer id of its request"),
    ({**V, "id": True, "result": {}}, "id", "a result must carry the string or integer id of its request"),
    ({**V, "id": 1, "error": ERROR, "x": 1}, "extra-member", EXTRA),
    ({**V, "id": 1, "error": "e"}, "error-object", "error must be an object"),
    ({**V, "id": 1, "error": {"message": "m"}}, "error-code", "error.code must be an integer"),
    ({**V, "id": 1, "error": {"code": True, "message": "m"}}, "error-code", "error.code must be an integer"),
    ({**V, "id": 1, "error": {"code": 1}}, "error-message", "error.message must be a string"),
    (
        {**V, "id": 1, "error": {**ERROR, "x": 1}},
        "extra-member",
        "error holds a member that is not code, message or data",
    ),
    ({**V, "error": ERROR}, "id", "an error must carry an id (null when the request's could not be read)"),
    (
        {**V, "id": None, "error": {"code": -32601, "message": "m"}},
        "null-id",
        "an error has a null id only when the request's id could not be read",
    ),
    ({**V, "id": False, "error": ERROR}, "id", "an error's id must be its request's, not boolean"),
    ({**V, "id": 1.5, "error": ERROR}, "id", "an error's id must be its request's, not fraction"),
]


@pytest.mark.parametrize(("value", "code", "why"), SHAPES, ids=range(len(SHAPES)))
def test_no_message(value, code, why):
    """The first reason why a value is no message, always of stage jsonrpc; the same one inside an array."""
    assert classify(value) == Fault(code, "jsonrpc", why)
    if isinstance(value, dict):
        assert classify_batch([{**V, "method": "m"}, value], STRICT, Envelope()) == Fault(code, "jsonrpc", why)


def test_arrays():
    """An array of messages is its messages; anything else in it comes before what is wrong with a message."""
    good = [{**V, "method": "m"}, {**V, "id": 1, "result": {}}]
    assert classify_batch(good, STRICT, Envelope()) == [classify(one) for one in good]
    why = "an array that holds other things than messages"
    assert classify_batch([{}, 5], STRICT, Envelope()) == Fault("not-an-object", "jsonrpc", why)
    lone = {**V, "error": ERROR}
    assert classify_batch([lone], STRICT, NO_ID) == [classify(lone, STRICT, NO_ID)]
    odd = {**V, "method": "m", "x": 1}
    assert classify_batch([odd], LOOSE, Envelope()) == [classify(odd, LOOSE)]


MESSAGES = [
    ({**V, "method": "m"}, "notification", False, None, "m", None, ()),
    ({**V, "method": "m", "params": []}, "notification", False, None, "m", [], ()),
    ({**V, "method": "m", "id": 1}, "request", True, 1, "m", None, ()),
    ({**V, "method": "m", "id": "", "params": {"a": 1}}, "request", True, "", "m", {"a": 1}, ()),
    ({**V, "method": "m", "id": 2**53 - 1}, "request", True, 2**53 - 1, "m", None, ()),
    ({**V, "method": "m", "id": 2**53}, "request", True, 2**53, "m", None, BIG),
    ({**V, "method": "m", "id": -(2**53)}, "request", True, -(2**53), "m", None, BIG),
    ({**V, "method": "m", "id": 1 - 2**53}, "request", True, 1 - 2**53, "m", None, ()),
    ({**V, "id": 1, "result": None}, "response", True, 1, "", None, ()),
    ({**V, "id": 2**60, "result": {}}, "response", True, 2**60, "", None, BIG),
    ({**V, "id": "a", "result": {}}, "response", True, "a", "", None, ()),
    ({**V, "id": 1, "error": ERROR}, "error", True, 1, "", None, ()),
    ({**V, "id": "a", "error": {**ERROR, "data": 1}}, "error", True, "a", "", None, ()),
    ({**V, "id": 2**60, "error": ERROR}, "error", True, 2**60, "", None, BIG),
    ({**V, "id": None, "error": ERROR}, "error", True, None, "", None, NULL),
    ({**V, "id": None, "error": {"code": -32700, "message": ""}}, "error", True, None, "", None, NULL),
]


@pytest.mark.parametrize("row", MESSAGES, ids=range(len(MESSAGES)))
def test_message(row):
    """Kind, id, method, params and notes of each shape; ``value`` is the object itself."""
    value, kind, *rest = row
    found = classify(value)
    assert found == Message(kind, value, *rest)
    assert found.has_id is rest[0] and found.value is value


def test_what_the_options_let_pass():
    """Members nobody knows, errors with a null id or none: only where the caller says so; a hybrid never."""
    for odd in ({"method": "m", "id": 1}, {"method": "m"}, {"id": 1, "result": {}}, {"id": 1, "error": ERROR}):
        assert isinstance(classify({**V, **odd, "x": 1}, LOOSE), Message)
    assert isinstance(classify({**V, "id": 1, "error": {**ERROR, "x": 1}}, LOOSE), Message)
    assert classify({**V, "method": "m", "id": 1, "result": {}}, LOOSE).code == "hybrid"
    assert classify({**V, "id": 1, "result": {}, "error": ERROR}, LOOSE).code == "result-and-error"
    null = {**V, "id": None, "error": {"code": 1, "message": "m"}}
    assert classify(null, STRICT, ANY_NULL) == Message("error", null, True, None, "", None, NULL)
    none = {**V, "error": {"code": 1, "message": "m"}}
    assert classify(none, STRICT, NO_ID) == Message("error", none, False, None, "", None, ())


DAP = [
    (5, "not-an-object", "a JSON integer is not a message"),
    ({"type": "event", "event": "e"}, "dap-seq", "seq must be an integer"),
    ({"seq": True, "type": "event", "event": "e"}, "dap-seq", "seq must be an integer"),
    ({"seq": 1}, "dap-type", "type must be one of request, event, response"),
    ({"seq": 1, "type": ["event"]}, "dap-type", "type must be one of request, event, response"),
    ({"seq": 1, "type": "other"}, "dap-type", "type must be one of request, event, response"),
    ({"seq": 1, "type": "request"}, "dap-member", "a request must have command (str)"),
    ({"seq": 1, "type": "event", "event": 1}, "dap-member", "a event must have event (str)"),
    (
        {"seq": 1, "type": "response", "request_seq": 1, "success": 1, "command": "c"},
        "dap-member",
        "a response must have success (bool)",
    ),
    (
        {"seq": 1, "type": "response", "success": True, "command": "c"},
        "dap-member",
        "a response must have request_seq (int)",
    ),
    (
        {"seq": 1, "type": "response", "request_seq": 1, "success": True},
        "dap-member",
        "a response must have command (str)",
    ),
]


@pytest.mark.parametrize(("value", "code", "why"), DAP, ids=range(len(DAP)))
def test_no_dap_message(value, code, why):
    """The Debug Adapter Protocol's own shapes."""
    assert classify_dap(value) == Fault(code, "jsonrpc", why)


def test_dap_messages():
    """One of each kind."""
    assert classify_dap({"seq": 1, "type": "request", "command": "c"}) is None
    assert classify_dap({"seq": 1, "type": "event", "event": "e"}) is None
    assert classify_dap({"seq": 1, "type": "response", "request_seq": 1, "success": True, "command": "c"}) is None


# -------------------------------------------------------------------------------------------------------------- framing

GOOD = b"Content-Length: 2\r\n\r\n{}"
NO_HEADER = "neither 'Name: value' nor the empty line after it"
LENGTHS = [
    (b"Content-Length: 2\n\n{}", "header-line-end", "the header line ends in LF alone: CR LF is required", 18),
    (b"listening\n", "header-line-end", "not a header: a line of other output", 10),
    (b"listening\r\n", "not-a-header", NO_HEADER, 11),
    (b"Content-Length : 2\r\n\r\n{}", "not-a-header", NO_HEADER, 20),
    (b"Content-Length: 2\xe9\r\n\r\n{}", "header-not-ascii", "the header part is ASCII", 20),
    (b"X-Trace: 1\r\n\r\n", "unknown-header", "no such header field: x-trace", 12),
    (
        b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
        "repeated-header",
        "content-length is given twice",
        38,
    ),
    (b"Content-Length: +2\r\n\r\n{}", "bad-length", "Content-Length is not a plain decimal number", 20),
    (b"Content-Length:\r\n\r\n{}", "bad-length", "Content-Length is not a plain decimal number", 17),
    (b"Content-Type: a/b\r\n\r\n", "no-length", "a header without Content-Length", 21),
    (b"\r\n", "stray-newline", "an empty line between frames", 2),
    (b"\n" + b"x" * 2000, "header-line-end", "not a header: a line of other output", 1),
    (
        b"x" * 1025 + b"\r\n",
        "header-too-long",
        "a header line is longer than 1024 bytes: this is no header",
        1024,
    ),
]


@pytest.mark.parametrize(("data", "code", "why", "size"), LENGTHS, ids=range(len(LENGTHS)))
@pytest.mark.parametrize("before", [b"", GOOD, b"Content-Length: 5\r\n\r\n[\n1\n]"], ids=["first", "second", "lines"])
@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_no_header(data, code, why, size, before, cut):
    """Every fault of a header is fatal, and holds what was read of it, its line and its offset; nothing follows."""
    reader = frame_reader("content-length")
    whole = before + data
    events = [event for at in range(0, len(whole), cut) for event in reader.feed(whole[at : at + cut])]
    line = 1 + before.count(b"\n")
    assert events[-1] == FramingFault(code, "framing", why, data[:size], line, len(before), True)
    assert len(events) == (2 if before else 1)
    assert reader.feed(GOOD) == [] and reader.close() == []


@pytest.mark.parametrize(
    ("data", "stage", "code", "why"),
    [
        (b"Content-Length: 9\r\n", "limits", "frame-too-long", "announces a body longer than 8 bytes"),
        (b"Content-Length: " + b"9" * 16 + b"\r\n", "limits", "frame-too-long", "announces a body longer than 8 bytes"),
        (
            b"Content-Length: " + b"9" * 400 + b"\r\n",
            "limits",
            "frame-too-long",
            "announces a body longer than 8 bytes",
        ),
        (b"Content-Type: a/b; charset=utf-16\r\n", "encoding", "charset", "charset 'utf-16': only utf-8 is defined"),
    ],
)
def test_no_body(data, stage, code, why):
    """What is announced cannot be taken: a body that is too long, another encoding."""
    (fault,) = frame_reader("content-length", max_frame=8).feed(data)
    assert fault == FramingFault(code, stage, why, data, 1, 0, True)


def test_lengths_that_are_in_order():
    """The largest length, any number of leading zeros, the empty body; utf8 under its old name, quoted too."""
    reader = frame_reader("content-length", max_frame=8)
    frames = reader.feed(b"Content-Length: 8\r\n\r\n12345678Content-Length: %s\r\n\r\n{}" % (b"0" * 20 + b"2"))
    frames += reader.feed(b'Content-Length: 0\r\nContent-Type: a/b; Charset="UTF8"\r\n\r\n')
    frames += reader.feed(b"content-type:a/b;charset=utf-8 ; x=y\r\nCONTENT-LENGTH:\t2 \r\n\r\n[]")
    assert [frame.body for frame in frames] == [b"12345678", b"{}", b"", b"[]"]
    assert [frame.line for frame in frames] == [1, 3, 5, 8]
    assert [frame.offset for frame in frames] == [0, 29, 72, 128]
    assert frames[0].prefix == b"Content-Length: 8\r\n\r\n"
    assert reader.close() == []


@pytest.mark.parametrize(
    ("data", "code", "why"),
    [
        (b"Content-Len", "truncated-header", "the stream ended inside a header"),
        (b"Content-Length: 5\r\n", "truncated-header", "the stream ended inside a header"),
        (b"Content-Length: 5\r\n\r\n123", "truncated-body", "the stream ended after 3 of the 5 bytes announced"),
        (b"Content-Length: 5\r\n\r\n", "truncated-body", "the stream ended after 0 of the 5 bytes announced"),
    ],
)
def test_stream_that_ended_early(data, code, why):
    """The end of the stream makes a fault of what is held, once."""
    reader = frame_reader("content-length")
    assert len(reader.feed(GOOD + data)) == 1
    assert reader.close() == [FramingFault(code, "framing", why, data, 3, len(GOOD), True)]
    assert reader.close() == []


def test_content_type_is_refused_where_it_is_not_defined():
    """DAP knows Content-Length alone."""
    (fault,) = frame_reader("content-length", content_type=False).feed(b"Content-Type: a/b\r\n")
    assert (fault.code, fault.why) == ("unknown-header", "no such header field: content-type")
    (frame,) = frame_reader("content-length", content_type=False).feed(GOOD)
    assert frame.body == b"{}"


def fault_of(data, **settings):
    reader = frame_reader("ndjson", **settings)
    events = reader.feed(data)
    return [*events, *reader.close()][-1]


def test_lines_that_are_no_frame():
    """Over-long, blank, unfinished or with CR LF: what was there, where, and whether a next frame can be found."""
    why = "the line is longer than 3 bytes"
    assert fault_of(b"{}\nabcdefgh\n", max_frame=3) == FramingFault(
        "frame-too-long", "limits", why, b"abcd", 2, 3, True
    )
    assert fault_of(b"abcdefgh", max_frame=3) == FramingFault("frame-too-long", "limits", why, b"abcd", 1, 0, True)
    why = "an empty line is not a message"
    assert fault_of(b"{}\n\n") == FramingFault("blank-line", "framing", why, b"\n", 2, 3, False)
    assert fault_of(b"\r\n") == FramingFault("blank-line", "framing", why, b"\r\n", 1, 0, False)
    why = "the stream ended inside a line: the last frame has no newline"
    assert fault_of(b"{}\n{}") == FramingFault("no-final-newline", "framing", why, b"{}", 2, 3, True)
    why = "the line ends in CR LF"
    assert fault_of(b"{}\r\n", crlf="reject") == FramingFault("crlf", "framing", why, b"{}\r\n", 1, 0, False)
    assert fault_of(b"\n{}\n", blank="allow").body == b"{}"
    long = b"x" * 5000
    assert fault_of(long + b"\n", max_frame=4500).raw == long[:4096]


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 100])
def test_the_line_after_one_that_was_too_long(cut):
    """It has its own number and offset however the stream was cut, and what is kept of the long one is the same."""
    reader = frame_reader("ndjson", max_frame=4)
    data = b"1\n123456789\n1234\r\n1234\n"
    events = [event for at in range(0, len(data), cut) for event in reader.feed(data[at : at + cut])]
    told = [(event.raw, event.line, event.offset) for event in events]
    assert told == [(b"1\n", 1, 0), (b"12345", 2, 2), (b"1234\r", 3, 12), (b"1234\n", 4, 18)]


def test_unknown_framing():
    """The two names there are."""
    why = r"^unknown framing 'x': expected one of ndjson, content-length$"
    with pytest.raises(ValueError, match=why):
        frame_reader("x")
    with pytest.raises(ValueError, match=why):
        encode("x", b"{}")


# ------------------------------------------------------------------------------------------------------------- outgoing

TORN = "refused to send: a raw line break tears the frame; write it as \\n inside a string"


def said(call, *given):
    with pytest.raises(LocalProtocolError) as caught:
        call(*given)
    return str(caught.value)


def test_what_is_not_sent():
    """Our own garbage: what is wrong, the stage, the code, and where there are bytes, the first eighty of them."""
    assert said(check_outgoing, b"{\n}") == TORN
    assert said(check_outgoing, b"{\r}") == TORN
    assert said(check_outgoing, b'{"a":1}') == (
        'refused to send: the member jsonrpc must be exactly "2.0" (jsonrpc: version): b\'{"a":1}\''
    )
    long = b'"' + b"x" * 100 + b'"'
    assert said(check_outgoing, long).endswith(f"(jsonrpc: not-an-object): {long[:80]!r}")
    assert said(dump_outgoing, {**V, "id": 1}) == (
        "refused to send: none of method, result and error is there (jsonrpc: no-shape)"
    )
    assert said(dump_outgoing, []) == "refused to send: a JSON array is not a message (jsonrpc: not-an-object)"
    nan = said(dump_outgoing, {**V, "id": 1, "result": {"x": float("nan")}})
    assert nan.startswith("refused to send: not representable in JSON: ")
    named = said(dump_outgoing, {**V, "id": 1, "result": {1: 2}})
    assert named.startswith("refused to send: not representable in JSON: ")
    named = said(dump_outgoing, {**V, "method": "m", "params": {1: 2}})
    assert named.startswith("refused to send: not representable in JSON: ") and named != "None"
    torn = "frame holds a raw line break: write it as \\n inside a JSON string, or not at all"
    assert said(encode, "ndjson", b"{\r}") == torn


def test_answers_are_told_from_what_looks_like_them():
    """Three members, exact version, an id of the right type, not as a subclass of one: else the whole check."""
    for body in (
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.1","id":1,"result":{}}',
        b'{"JSONRPC":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","ID":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"RESULT":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"x":1}',
    ):
        assert said(check_outgoing, body).startswith("refused to send: ")
    check_outgoing(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    check_outgoing(b'{"jsonrpc":"2.0","id":"a","result":null}')


def test_protocols_and_batches():
    """DAP frames are DAP messages, JSON-RPC ones are not; every member of a batch is looked at; null ids may go."""
    event = {"seq": 1, "type": "event", "event": "e"}
    assert dump_outgoing(event, "dap") == b'{"seq":1,"type":"event","event":"e"}'
    check_outgoing(b'{"seq":1,"type":"event","event":"e"}', "content-length", "dap")
    assert "dap-seq" in said(check_outgoing, b'{"jsonrpc":"2.0","id":1,"result":{}}', "content-length", "dap")
    assert "dap-seq" in said(dump_outgoing, {**V, "id": 1, "result": {}}, "dap")
    assert "(jsonrpc: version)" in said(dump_outgoing, event)
    good = {**V, "id": 1, "result": {}}
    assert dump_outgoing([good]) == b'[{"jsonrpc":"2.0","id":1,"result":{}}]'
    assert "(jsonrpc: no-shape)" in said(dump_outgoing, [good, {**V, "id": 2}])
    for error in ({**V, "id": None, "error": {"code": 1, "message": "m"}}, {**V, "error": {"code": 1, "message": "m"}}):
        assert dump_outgoing(error).startswith(b'{"jsonrpc":"2.0",')
    check_outgoing(b'{\n"jsonrpc":"2.0","id":1,"result":{}}', "content-length")


def test_mappings_of_other_kinds_are_sent():
    """A read-only or chained mapping is an object as well."""
    from types import MappingProxyType

    assert dump_outgoing(MappingProxyType({**V, "method": "m"})) == b'{"jsonrpc":"2.0","method":"m"}'
