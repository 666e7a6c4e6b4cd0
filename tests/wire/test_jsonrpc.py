"""Strict JSON, its options, the message shapes, and the check of what we send."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import stdout_guard
from stdout_guard.errors import LocalProtocolError
from stdout_guard.jsonrpc import (
    STRICT,
    Decoded,
    Decoder,
    Envelope,
    Fault,
    Message,
    Strictness,
    check_outgoing,
    classify,
    classify_dap,
    decode,
    dump_outgoing,
)


def fault_of(body, framing="ndjson", **options):
    """(stage, code) of a refusal, or the value."""
    found = decode(body, STRICT._replace(**options), framing)
    return (found.stage, found.code) if isinstance(found, Fault) else found.value


def padded(body):
    """The same value inside a frame large enough for the ways that only large frames take."""
    return b'{"pad":"' + b"p" * 1500 + b'","many":[' + b"{}," * 200 + b'0],"v":' + body + b"}"


JSON_FAULTS = [
    (b'{"a":1,"a":2}', "json", "duplicate-key"),
    (b'{"a":1,"\\u0061":2}', "json", "duplicate-key"),
    (b'[{"x":[{"a":1,"a":1}]}]', "json", "duplicate-key"),
    (b'{"a":1,"a" :2}', "json", "duplicate-key"),
    (b'{"b":"\\":","a":1,"a":2}', "json", "duplicate-key"),
    (b'{"b":":","a":1,"a":2}', "json", "duplicate-key"),
    (b"NaN", "json", "not-a-number"),
    (b"[-Infinity]", "json", "not-a-number"),
    (b"[1e400]", "json", "number-overflow"),
    (b"[-1E+0400]", "json", "number-overflow"),
    (b"[2" + b"0" * 308 + b".5]", "json", "number-overflow"),
    (b"[" + b"9" * 309 + b"]", "limits", "too-many-digits"),
    (b"[-" + b"9" * 5000 + b"]", "limits", "too-many-digits"),
    (b'["\\ud800"]', "json", "lone-surrogate"),
    (b'{"\\uDFFF":1}', "json", "lone-surrogate"),
    (b'["\\ude00\\ud83d"]', "json", "lone-surrogate"),
    (b'["\xff"]', "encoding", "not-utf-8"),
    (b'["\xc0\xaf"]', "encoding", "not-utf-8"),
    (b'["\xed\xa0\x80"]', "encoding", "not-utf-8"),
    (b"['a']", "json", "not-json"),
    (b'["a\tb"]', "json", "not-json"),
    (b"[1\r]", "json", "bare-cr"),
    (b"[01]", "json", "not-json"),
    (b"[1]x", "json", "not-json"),
    (b"\x0b[1]", "json", "not-json"),
    (b"[" * 129 + b"]" * 129, "limits", "too-deep"),
    (b'{"a":' * 200 + b"1" + b"}" * 200, "limits", "too-deep"),
]


@pytest.mark.parametrize("pad", [bytes, padded], ids=["small", "large"])
@pytest.mark.parametrize(("body", "stage", "code"), JSON_FAULTS, ids=lambda value: repr(value)[:40])
def test_json_fault(body, stage, code, pad):
    """Each fault is found in a small frame and in a large one, which is looked at in another way."""
    assert fault_of(pad(body)) == (stage, code)


WHOLE_FAULTS = [
    (b"\xef\xbb\xbf{}", "encoding", "byte-order-mark"),
    ('{"a":1}'.encode("utf-16-le"), "encoding", "not-utf-8"),
    ('{"a":1}'.encode("utf-16-be"), "encoding", "not-utf-8"),
    ('{"a":1}'.encode("utf-32-le"), "encoding", "not-utf-8"),
    ('{"a":1}'.encode("utf-32-be"), "encoding", "not-utf-8"),
    (b"\0\0\0", "json", "not-json"),
    (b'\0{"a":1}', "json", "not-json"),
    (b"", "json", "not-json"),
    (b" \t ", "json", "not-json"),
    (b"[" * 100_000, "json", "not-json"),
    (b'[{"":' * 50_000, "json", "not-json"),
    (b"{", "framing", "embedded-newline"),
    (b'{"jsonrpc":"2.0",', "framing", "embedded-newline"),
    (b'{"a":"unfinished', "json", "not-json"),
    (b"Content-Length: 36", "framing", "content-length-framing"),
]


@pytest.mark.parametrize(("body", "stage", "code"), WHOLE_FAULTS, ids=lambda value: repr(value)[:40])
def test_line_fault(body, stage, code):
    """What is wrong with a whole line: encoding and torn lines are told apart from text that is no JSON."""
    assert fault_of(body) == (stage, code)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a":1}\t', {"a": 1}),
        (b"[1e308,1e-400,-0]", [1e308, 0.0, 0]),
        (b'["\\ud83d\\ude80"]', ["\U0001f680"]),
        (b'["\\\\ud800"]', ["\\ud800"]),
        ('["\u2028\ufffd"]'.encode(), ["\u2028\ufffd"]),
        (b'{"a":{"x":1},"b":{"x":2}}', {"a": {"x": 1}, "b": {"x": 2}}),
        (b"[" * 128 + b"]" * 128, json.loads("[" * 128 + "]" * 128)),
        (b'["' + b"[{" * 500 + b'"]', ["[{" * 500]),
    ],
)
def test_legal_json(body, value):
    """Strict is not narrow: what RFC 8259 and I-JSON allow is a value."""
    assert fault_of(body) == value


@pytest.mark.parametrize(
    ("option", "body", "strict"),
    [
        ({"bare_cr": "allow"}, b"[1,\r2]", ("json", "bare-cr")),
        ({"surrogates": "allow"}, b'["\\ud800"]', ("json", "lone-surrogate")),
        ({"overflow": "allow"}, b"[1e400]", ("json", "number-overflow")),
        ({"max_digits": 400}, b"[" + b"9" * 309 + b"]", ("limits", "too-many-digits")),
        ({"max_depth": 200}, b"[" * 150 + b"]" * 150, ("limits", "too-deep")),
        ({"dup_keys": "envelope"}, b'{"p":{"a":1,"a":2}}', ("json", "duplicate-key")),
    ],
)
def test_option_relaxes(option, body, strict):
    """Each strictness has an option that gives exactly it up."""
    assert fault_of(body) == strict
    assert not isinstance(fault_of(body, **option), tuple)


def test_option_tightens():
    """Raw line separators and CR inside content-length bodies follow their own rules."""
    body = '["\u2028"]'.encode()
    assert fault_of(body, line_seps="reject") == ("json", "line-separator")
    assert [note.code for note in decode(body).notes] == ["line-separator"]
    assert fault_of(b"[1,\r\n2]", "content-length") == [1, 2]


def test_envelope_duplicates_stay_refused():
    """dup_keys=envelope still refuses a member of the message, or of a batch member, given twice."""
    for body in (b'{"id":1,"id":2}', b'[{"id":1,"id":2}]'):
        assert fault_of(body, dup_keys="envelope") == ("json", "duplicate-key")
    found = decode(b'{"p":{"a":1,"a":2}}', Strictness(dup_keys="envelope"))
    assert isinstance(found, Decoded)
    assert [note.code for note in found.notes] == ["duplicate-key"]


@pytest.mark.parametrize("digits", ["9007199254740992", "-9007199254740992", "9" * 308])
def test_big_integers_are_noted(digits):
    """Beyond 2^53-1 an integer is legal and noted, once a frame."""
    found = decode(f"[{digits},{digits}]".encode())
    assert isinstance(found, Decoded)
    assert [note.code for note in found.notes] == ["big-integer"]
    assert decode(b"[9007199254740991]").notes == ()


def test_a_decoder_forgets_between_frames():
    """Notes and doubled members of a refused frame do not show up at the next one."""
    decoder = Decoder()
    assert isinstance(decoder.decode(b"[9007199254740992, nope]"), Fault)
    assert decoder.decode(b"[1]") == Decoded([1])


def values(depth=3):
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )


@given(values(), st.booleans(), st.booleans(), st.booleans())
def test_whatever_json_writes_is_read_back(value, ascii_only, compact, large):
    """Any value that json can write strictly is decoded to what json.loads makes of it, in small and large frames."""
    body = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    body = body.encode("utf-8", "surrogatepass")
    if large:
        body = padded(body)
    found = decode(body)
    if isinstance(found, Fault):
        assert found.code in ("lone-surrogate", "not-utf-8", "too-many-digits"), found
    else:
        assert found.value == json.loads(body)


@given(st.binary() | st.text().map(str.encode))
def test_decode_never_raises(body):
    """No bytes make the decoder raise; what it accepts is one JSON value."""
    for framing in ("ndjson", "content-length"):
        assert isinstance(decode(body, framing=framing), Decoded | Fault)


KEYS = st.sampled_from(['"a"', '"b"', '"\\u0061"', '":"', '"\\""', '"\\\\"', '"a:"'])
MEMBERS = st.tuples(KEYS, st.sampled_from(["", " ", "\t"]), st.sampled_from(["", " "]))
OBJECTS = st.recursive(
    KEYS | st.just("1"),
    lambda inner: st.lists(st.tuples(MEMBERS, inner), max_size=4).map(
        lambda pairs: (
            "{" + ",".join("".join([key, before, ":", after, value]) for (key, before, after), value in pairs) + "}"
        )
    ),
)


@given(OBJECTS)
def test_counting_keys_and_pairs_agree(text):
    """The way of large frames finds a doubled member exactly when the way of small ones does."""
    small, large = decode(text.encode()), decode(padded(text.encode()))
    assert isinstance(small, Decoded) is isinstance(large, Decoded), (small, large)
    assert isinstance(small, Decoded) or small.code == "duplicate-key"


# ---------------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 0, "method": "m"}, "request"),
        ({"jsonrpc": "2.0", "id": "", "method": "m", "params": []}, "request"),
        ({"jsonrpc": "2.0", "method": "m", "params": {}}, "notification"),
        ({"jsonrpc": "2.0", "id": -1, "result": None}, "response"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "", "data": None}}, "error"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "m"}}, "error"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "m"}}, "error"),
    ],
)
def test_shape(value, kind):
    """The four kinds of JSON-RPC message."""
    found = classify(value)
    assert isinstance(found, Message)
    assert (found.kind, found.value) == (kind, value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "not-an-object"),
        ([], "not-an-object"),
        ({}, "version"),
        ({"jsonrpc": 2.0, "id": 1, "result": 1}, "version"),
        ({"jsonrpc": "2.0"}, "no-shape"),
        ({"jsonrpc": "2.0", "id": 1}, "no-shape"),
        ({"jsonrpc": "2.0", "id": 1, "method": ""}, "method"),
        ({"jsonrpc": "2.0", "id": 1, "method": None}, "method"),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, "id"),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, "id"),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "m"}, "id"),
        ({"jsonrpc": "2.0", "method": "m", "params": None}, "params"),
        ({"jsonrpc": "2.0", "method": "m", "params": "x"}, "params"),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "result": 1}, "hybrid"),
        ({"jsonrpc": "2.0", "method": "m", "error": {}}, "hybrid"),
        ({"jsonrpc": "2.0", "id": 1, "result": None, "error": {}}, "result-and-error"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "params": {}}, "extra-member"),
        ({"jsonrpc": "2.0", "id": 1, "Method": "m", "method": "m"}, "extra-member"),
        ({"jsonrpc": "2.0", "result": {}}, "id"),
        ({"jsonrpc": "2.0", "id": 1, "error": "x"}, "error-object"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": ""}}, "error-code"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": ""}}, "error-code"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": None}}, "error-message"),
        ({"jsonrpc": "2.0", "error": {"code": -32700, "message": ""}}, "id"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": ""}}, "null-id"),
        ({"jsonrpc": "2.0", "id": False, "error": {"code": -32700, "message": ""}}, "id"),
    ],
)
def test_shape_fault(value, code):
    """What is no message, and the reason; a truth value is never an integer here."""
    found = classify(value)
    assert isinstance(found, Fault)
    assert (found.stage, found.code) == ("jsonrpc", code)


def test_envelope_variants():
    """MCP from 2025-11-25 may omit an error's id, LSP may null it whatever the code."""
    omitted = {"jsonrpc": "2.0", "error": {"code": -32700, "message": ""}}
    nulled = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": ""}}
    assert isinstance(classify(omitted, envelope=Envelope(error_id_optional=True)), Message)
    assert isinstance(classify(nulled, envelope=Envelope(error_id_null="any")), Message)


def test_extra_members_can_be_allowed():
    """extra=allow lets unknown members pass, a call that is also an answer never."""
    value = {"jsonrpc": "2.0", "id": 1, "result": {}, "debug": 1}
    loose = Strictness(extra="allow")
    assert isinstance(classify(value, loose), Message)
    assert isinstance(classify(value | {"method": "m"}, loose), Fault)


def test_big_id_is_noted():
    """An id that JavaScript cannot echo is legal and noted."""
    found = classify({"jsonrpc": "2.0", "id": 2**53, "result": {}})
    assert [note.code for note in found.notes] == ["big-id"]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"seq": 1, "type": "event", "event": "x"}, None),
        ({"seq": 1, "type": "request", "command": "x"}, None),
        ({"seq": 2, "type": "response", "request_seq": 1, "success": True, "command": "x"}, None),
        ({"seq": 2, "type": "response", "request_seq": 1, "success": 1, "command": "x"}, "dap-member"),
        ({"seq": 1, "type": "event"}, "dap-member"),
        ({"seq": True, "type": "event", "event": "x"}, "dap-seq"),
        ({"seq": 1, "type": "message"}, "dap-type"),
        ({"seq": 1, "type": []}, "dap-type"),
        ([], "not-an-object"),
    ],
)
def test_dap_shape(value, code):
    """A DAP message has seq, type, and what its type requires."""
    found = classify_dap(value)
    assert (found.code if found else None) == code


# ---------------------------------------------------------------------------------------------------------- outgoing

OK = {"jsonrpc": "2.0", "id": 1, "result": {"t": "\u2028 é \U0001f680"}}


def test_outgoing_body_is_safe_for_every_reader():
    """What we dump is compact, one line for every kind of reader, and passes our own check."""
    body = dump_outgoing(OK)
    assert json.loads(body) == OK
    assert len(body.decode().splitlines()) == 1
    check_outgoing(body)
    check_outgoing(dump_outgoing([OK, OK]))
    check_outgoing(b'{"jsonrpc":"2.0",\n"id":1,"result":null}', "content-length")
    check_outgoing(dump_outgoing({"seq": 1, "type": "event", "event": "x"}, "dap"), "content-length", "dap")


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"{}",
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0","id":1,\n"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"a":1}',
        b"\xff",
        b"",
    ],
)
def test_outgoing_bytes_refused(body):
    """Bytes that are not exactly one message body never reach the wire."""
    with pytest.raises(LocalProtocolError, match="refused to send"):
        check_outgoing(body)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800", 1e309, object()])
def test_outgoing_value_refused(value):
    """What JSON cannot say is an error of ours, not half a frame."""
    with pytest.raises(LocalProtocolError, match="refused to send"):
        dump_outgoing({"jsonrpc": "2.0", "id": 1, "result": {"x": value}})


def test_outgoing_cycle_refused():
    """A value that contains itself is refused."""
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    with pytest.raises(LocalProtocolError, match="refused to send"):
        dump_outgoing({"jsonrpc": "2.0", "id": 1, "result": cycle})


def test_outgoing_check_from_many_threads():
    """Frames are checked from several threads at once: none is refused for what another sends, no double gets by."""
    good = dump_outgoing({"jsonrpc": "2.0", "id": 1, "result": {"rows": [{"a": n, "b": n} for n in range(200)]}})
    bad = good.replace(b'"b":199}', b'"b":199,"a":0}')
    assert bad != good

    def check(body):
        try:
            check_outgoing(body)
        except LocalProtocolError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(check, [good, bad] * 300)) == [True, False] * 300


def test_light_to_import():
    """framing and jsonrpc bring neither dataclasses, inspect, asyncio nor wrapt: they are loaded in every server."""
    code = (
        "import sys; before = set(sys.modules); import stdout_guard.framing, stdout_guard.jsonrpc;"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(stdout_guard.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert not {"dataclasses", "inspect", "asyncio", "wrapt", "typing_extensions"} & set(done.stdout.split()), (
        done.stdout
    )
