"""The verdict on a channel: what a finding says, what auto settles, what a session owes."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from stdout_guard.framing import encode
from stdout_guard.jsonrpc import Strictness, dump_outgoing
from stdout_guard.revisions import META
from stdout_guard.transcript import MAX_FINDINGS, Transcript, assert_protocol_stdout, explain, judge

GOOD = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def lines(*messages):
    """ndjson of messages; a string or bytes stands for itself."""
    return b"".join(
        message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"
        for message in messages
    )


def codes(report):
    return [finding.code for finding in report.findings]


# ------------------------------------------------------------------------------------------------ what a finding says


def test_the_message_of_the_failure():
    """The first line shows the exact bytes and their line number; then offset, cause and rule."""
    with pytest.raises(AssertionError) as caught:
        assert_protocol_stdout(b"loading optional extension\n" + GOOD)
    first, *rest = str(caught.value).splitlines()
    assert first == r"non-protocol stdout on line 1: b'loading optional extension\n'"
    assert "at byte 0" in rest[0]
    assert any("likely cause: a banner" in line for line in rest)
    assert any("rule:" in line for line in rest)


def test_clean_output_passes():
    """No bytes, and whole messages, raise nothing."""
    assert_protocol_stdout(b"")
    assert_protocol_stdout(GOOD * 3)


def test_undecodable_bytes_are_shown_as_hex():
    """What is not UTF-8 is shown as hex beside its repr."""
    text = explain(judge(b"caf\xe9\n"))
    assert r"b'caf\xe9\n'" in text
    assert "hex: 63 61 66 e9 0a" in text


def test_a_report_never_holds_raw_control_bytes():
    """Escape sequences and CI commands in the noise are shown escaped, in text and in JSON."""
    report = judge(b"\x1b[31m::error::x\n\x07\n")
    for text in (explain(report), json.dumps(report.as_dict())):
        assert not {"\x1b", "\x07"} & set(text)


def test_line_offset_and_raw():
    """A finding points at the exact bytes: line from 1, offset from 0, the newline included."""
    data = GOOD + b"noise\r\n" + GOOD + b"tail"
    noise, tail = judge(data).findings
    assert (noise.line, noise.offset, noise.raw) == (2, len(GOOD), b"noise\r\n")
    assert data[noise.offset :].startswith(noise.raw)
    assert (tail.code, tail.line, tail.offset, tail.raw) == ("no-final-newline", 4, len(data) - 4, b"tail")


def test_notes_do_not_fail():
    """CR LF, a raw U+2028 and an integer beyond 2^53 are told and pass."""
    data = '{"jsonrpc":"2.0","id":1,"result":{"a":"\u2028","b":9007199254740993}}\r\n'.encode()
    report = judge(data)
    assert report.ok
    assert [note.code for note in report.notes] == ["big-integer", "line-separator", "crlf"]


def test_a_length_of_characters():
    """A wrong Content-Length is named as such wherever it cuts, in the midst of a character too."""
    body = '{"jsonrpc":"2.0","id":1,"result":{"a":"é😀é"}}'.encode()
    for length in [*range(1, len(body)), *range(len(body) + 1, len(body) + 12)]:
        data = b"Content-Length: %d\r\n\r\n%b" % (length, body) + encode("content-length", body)
        assert codes(judge(data, framing="content-length")) == ["wrong-length"], length


@pytest.mark.parametrize(
    ("noise", "cause"),
    [
        (b"12:34:56.789 [main] INFO app - up\n", "a log record"),
        (b"2026/12/01 12:34:56 listening\n", "a log record"),
        (b"SLF4J: no providers\n", "a log record"),
        (b"(node:7) Warning: x\n", "Node.js"),
    ],
)
def test_causes_of_other_languages(noise, cause):
    """Go, Java and Node write lines of their own; the guess names them."""
    assert cause in judge(noise).findings[0].cause


def test_a_message_without_its_header():
    """On a Content-Length channel a bare message is recognised."""
    for data in (GOOD, encode("content-length", GOOD[:-1]) + GOOD[:-1] + b"Content-Length: 39\r\n\r\n"):
        assert "without its header" in judge(data, framing="content-length").findings[0].cause


def test_notes_can_be_promoted():
    """Each note has an option that makes it a finding."""
    data = '{"jsonrpc":"2.0","id":1,"result":{"a":"\u2028"}}\r\n'.encode()
    assert codes(judge(data, options=Strictness(crlf="reject"))) == ["crlf"]
    assert codes(judge(data, options=Strictness(line_seps="reject"))) == ["line-separator"]


def test_three_checks():
    """The three parts of the contract are separate verdicts."""
    assert judge(GOOD).checks == {"wire": True, "shape": True, "session": True}
    assert judge(b"x\n").checks == {"wire": False, "shape": True, "session": True}
    assert judge(b"{}\n").checks == {"wire": True, "shape": False, "session": True}
    assert judge(GOOD, sent=b"").checks == {"wire": True, "shape": True, "session": False}


def test_report_as_json():
    """The report is JSON with a version, and carries the raw bytes in full."""
    report = json.loads(json.dumps(judge(b"x\xff\n").as_dict()))
    assert report["schemaVersion"] == 1
    assert report["ok"] is False
    assert report["findings"][0]["raw_base64"] == "eP8K"


def test_findings_are_capped():
    """A flood of noise is counted, not kept."""
    report = judge(b"\n" * (MAX_FINDINGS + 5))
    assert (len(report.findings), report.omitted) == (MAX_FINDINGS, 5)
    assert "and " in explain(report)


@pytest.mark.parametrize("name", ["framing", "direction", "revision"])
def test_usage_errors(name):
    """A word that does not exist is the caller's fault and raises, with the words that do."""
    with pytest.raises(ValueError, match="expected"):
        judge(b"", **{name: "nonsense"})


CAUSES = [
    (b"Traceback (most recent call last):\n", "traceback"),
    (b'  File "x.py", line 3, in f\n', "traceback"),
    (b"ValueError: x\n", "traceback"),
    (b"/a/x.py:3: DeprecationWarning: y\n", "warning of the warnings module"),
    (b"2026-11-30 10:00:00,123 - app - INFO - up\n", "log record"),
    (b"INFO:app:up\n", "log record"),
    (b"[ERROR] x\n", "log record"),
    (b'{"level":"info","msg":"x"}\n', "JSON log record"),
    (b" 50%|#####     | 5/10 [00:01<00:01, 5.0it/s]\r\n", "progress bar"),
    (b"10%\r50%\r100%\r\n", "progress bar"),
    (b"\x1b[32mready\x1b[0m\n", "terminal control"),
    (b"\x1b]0;server\x07\n", "terminal control"),
    (b"<!DOCTYPE html>\n", "HTML"),
    (b"{'jsonrpc': '2.0'}\n", "Python repr"),
    (b"None\n", "Python repr"),
    (b"123\n", "number"),
    (b"usage: x [-h]\n", "usage text"),
    (b"[notice] A new release of pip is available\n", "pip"),
    (b"npm warn config\n", "npm"),
    (b"/bin/sh: 1: foo: not found\n", "shell"),
    (b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n', "server-sent events"),
    (b"Content-Length: 36\r\n", "Content-Length framing"),
    (b'Loading... {"jsonrpc":"2.0","id":1,"result":{}}\n', "glued"),
    (b'{"jsonrpc":"2.0","id":1,"result":NaN}\n', "allow_nan"),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}\n', "echo of the input"),
    (b"caf\xe9\n", "another encoding"),
    (b"\xef\xbb\xbf{}\n", "byte order mark"),
    (b"\xff\xfe{\x00}\x00\n", "UTF-16"),
    (b"Password: ", "a prompt"),
    (b"Proceed? [y/N] ", "a prompt"),
    (b'{"jsonrpc": "2.0"', "ended while writing"),
    (b"INFO: Uvicorn running on http://127.0.0.1:8000\n", "HTTP server"),
    (b"\n", "print() without arguments"),
    (b"Server running on stdio\n", "banner"),
]


@pytest.mark.parametrize(("data", "cause"), CAUSES, ids=lambda value: repr(value)[:40])
def test_likely_cause(data, cause):
    """The report guesses where the bytes came from."""
    assert cause in judge(data).findings[0].cause


# ------------------------------------------------------------------------------------------------------ content-length


def frame(body):
    return encode("content-length", body)


NULL = b'{"jsonrpc":"2.0","id":1,"result":null}'


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (frame(NULL) * 2, []),
        (b"Content-Length: 37\r\n\r\n" + NULL, ["wrong-length"]),
        (b"Content-Length: 48\r\n\r\n" + NULL + frame(NULL), ["wrong-length"]),
        (frame(b"nope") + frame(NULL), ["not-json"]),
        (frame(b"nope"), ["not-json"]),
        (frame(NULL)[:-1], ["truncated-body"]),
        (frame(b"[" + NULL + b"]"), ["batch"]),
        (frame(b'{"seq":1,"type":"event","event":"x"}'), []),
    ],
)
def test_content_length(data, found):
    """A wrong length is told from a wrong body by what follows it; auto takes LSP, or DAP when it looks like it."""
    assert codes(judge(data, framing="content-length")) == found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{\n "jsonrpc": "2.0",\n "id": 1,\n "result": {}\n}\n', ("framing", "embedded-newline")),
        (b'{"jsonrpc":"2.0",\n"id":1,"result":{}}\n', ("framing", "embedded-newline")),
        (b'{"jsonrpc":"2.0",\n', ("json", "not-json")),
        (b'{"jsonrpc":"2.0","id":1,"result":{}\n' + GOOD, ("json", "not-json")),
        (b'{"jsonrpc":"2.0","id":1,\n"result"', ("framing", "embedded-newline")),
        (b'{"jsonrpc":"2.0","id":1,"result":{"t":"a\nb"}}\n', ("json", "not-json")),
    ],
)
def test_torn_or_unfinished(data, found):
    """A value that goes on in the next line holds a newline; one that does not was never finished."""
    first = judge(data).findings[0]
    assert (first.stage, first.code) == found


def test_unread_bytes_are_counted():
    """After the framing is lost the rest is counted, not guessed at."""
    report = judge(b"debug\r\n" + frame(NULL), framing="content-length")
    assert codes(report) == ["not-a-header"]
    assert report.unread == len(frame(NULL))


# ------------------------------------------------------------------------------------------------------------ batches


@pytest.mark.parametrize(
    ("members", "revision", "direction", "found"),
    [
        ([{"id": 1, "result": {}}], "2025-03-26", "server-to-client", []),
        ([{"id": 1, "result": {}}], "2025-06-18", "server-to-client", ["batch"]),
        ([{"id": 1, "result": {}}], "auto", "server-to-client", []),
        ([{"method": "ping", "id": 1}, {"id": 1, "result": {}}], "2025-03-26", "server-to-client", ["mixed-batch"]),
        (
            [
                {
                    "method": "initialize",
                    "id": 1,
                    "params": {"protocolVersion": "x", "capabilities": {}, "clientInfo": {}},
                }
            ],
            "2025-03-26",
            "client-to-server",
            ["initialize-in-batch"],
        ),
        ([{"id": 1, "result": 3}], "2025-03-26", "server-to-client", ["result-not-object"]),
        ([{"id": 1, "result": 3}], "jsonrpc", "server-to-client", []),
        ([5], "2025-06-18", "server-to-client", ["not-an-object"]),
        ([], "2025-03-26", "server-to-client", ["not-an-object"]),
    ],
)
def test_batch(members, revision, direction, found):
    """Batches live in 2025-03-26 and plain JSON-RPC; a batch is calls or answers, and never holds initialize."""
    members = [{"jsonrpc": "2.0"} | member if isinstance(member, dict) else member for member in members]
    data = json.dumps(members).encode() + b"\n"
    assert codes(judge(data, revision=revision, direction=direction)) == found


# --------------------------------------------------------------------------------------------------------------- auto

INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}
INITIALIZED = {"method": "notifications/initialized"}
PING = {"id": "p", "method": "ping"}


def initialized(version="2025-11-25", **capabilities):
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    return {"id": 1, "result": result}


def modern(message, **meta):
    meta = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}} | meta
    return message | {"params": message.get("params", {}) | {"_meta": meta}}


ELICIT = {"id": 5, "method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}}


def test_auto_follows_the_negotiation():
    """Frames after the initialize answer are judged by the version it names, with and without what was sent."""
    sent = lines(INITIALIZE, INITIALIZED)
    for known in (sent, None):
        assert codes(judge(lines(initialized("2025-03-26"), ELICIT), sent=known)) == ["not-in-revision"]
        report = judge(lines(initialized("2025-06-18"), ELICIT), sent=known)
        assert (codes(report), report.revision) == ([], "2025-06-18")


def test_auto_before_the_negotiation():
    """Until the version is known a message stands if any revision allows it."""
    assert judge(lines(ELICIT)).ok
    assert codes(judge(lines({"id": 1, "method": "tools/call", "params": {"name": "x"}}))) == ["wrong-direction"]


def test_auto_modern_by_how_the_client_opened():
    """Requests that name 2026-07-28 are answered by its rules; a server has no requests then."""
    sent = lines(modern({"id": 1, "method": "tools/list"}))
    assert judge(lines({"id": 1, "result": {"resultType": "complete", "tools": []}}), sent=sent).ok
    assert codes(judge(lines({"id": 1, "result": {"tools": []}}), sent=sent)) == ["result-type"]
    assert "wrong-direction" in codes(judge(lines(PING), sent=sent))


def test_auto_both_eras_in_one_transcript():
    """A probe in the new manner, then initialize in the old: each answer by the era of its request."""
    sent = lines(modern({"id": 0, "method": "server/discover"}), INITIALIZE, INITIALIZED)
    discovered = {"id": 0, "result": {"resultType": "complete", "supportedVersions": [], "capabilities": {}}}
    assert judge(lines(discovered, initialized(), PING), sent=sent).ok
    assert judge(lines({"id": 0, "error": {"code": -32601, "message": "m"}}, initialized()), sent=sent).ok


def test_auto_leaves_other_protocols_alone():
    """An initialize whose version is a number is not MCP's: only JSON-RPC is judged."""
    sent = lines({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    stdout = lines({"id": 0, "result": {"protocolVersion": 1}}, {"method": "session/update", "params": {}})
    for known in (sent, None):
        report = judge(stdout, sent=known)
        assert (codes(report), report.revision) == ([], "jsonrpc")


@pytest.mark.parametrize(
    ("message", "revision", "found"),
    [
        (modern({"id": 1, "method": "tools/list"}), "2026-07-28", []),
        (modern({"id": 1, "method": "ping"}), "2026-07-28", ["not-in-revision"]),
        ({"id": 1, "method": "tools/list"}, "2026-07-28", ["meta"]),
        ({"id": 1, "result": {}}, "2026-07-28", ["wrong-direction"]),
        ({"id": 1, "result": {}}, "2025-11-25", []),
        (modern({"id": 1, "method": "tools/list"}), "auto", []),
        ({"id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": 1.5}}}, "auto", ["meta"]),
        ({"method": "notifications/vendor/x"}, "2025-11-25", ["unknown-method"]),
        ({"id": 1, "method": "logging/setLevel", "params": {"level": "loud"}}, "2025-11-25", ["params-member"]),
    ],
)
def test_client_to_server(message, revision, found):
    """The other direction: what a client may write."""
    assert codes(judge(lines(message), direction="client-to-server", revision=revision)) == found


def test_unknown_methods_option():
    """A server's unknown notification is a note by default, and can be made a finding; or all only noted."""
    vendor, foreign = lines({"method": "notifications/x"}), lines({"method": "window/logMessage"})
    assert [note.code for note in judge(vendor).notes] == ["unknown-method"]
    assert codes(judge(foreign)) == ["unknown-method"]
    assert codes(judge(vendor, options=Strictness(unknown_methods="reject"))) == ["unknown-method"]
    assert judge(foreign, options=Strictness(unknown_methods="note")).ok


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"id": 1, "error": {"code": -32002, "message": "m"}}, "error-code-retired"),
        ({"id": 1, "error": {"code": -32042, "message": "m"}}, "error-code-retired"),
        ({"id": 1, "error": {"code": -32099, "message": "m"}}, "error-code-reserved"),
        ({"id": 1, "error": {"code": -32021, "message": "m"}}, None),
        ({"id": 1, "error": {"code": -32000, "message": "m"}}, None),
        ({"id": 1, "result": {"resultType": "input_required"}}, "result-type"),
        ({"id": 1, "result": {"resultType": "input_required", "requestState": "s"}}, None),
        ({"method": "notifications/message", "params": {"level": "info", "data": None}}, None),
        ({"id": 1, "method": "notifications/message", "params": {"level": "info", "data": 1}}, "wrong-direction"),
    ],
)
def test_modern_messages(message, found):
    """2026-07-28: reserved and retired codes, result types, no requests from the server."""
    report = judge(lines(message), revision="2026-07-28")
    assert codes(report) == ([found] if found else [])


# ------------------------------------------------------------------------------------------------------------ session

CALL = {"id": 2, "method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": "t"}}}
DONE = {"id": 2, "result": {"content": []}}
LOG = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
CHANGED = {"method": "notifications/tools/list_changed"}


def progress(value, token="t"):
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": value}}


OPENING = (INITIALIZE, INITIALIZED)
SESSIONS = [
    ("order of answers is free", (*OPENING, CALL, {"id": 3, "method": "ping"}), ({"id": 3, "result": {}}, DONE), []),
    ("never answered", (*OPENING, CALL), (), ["no-answer"]),
    ("unknown id", OPENING, ({"id": 999, "result": {}},), ["unknown-id"]),
    ("type of id", (*OPENING, CALL), ({"id": "2", "result": {}},), ["unknown-id", "no-answer"]),
    ("answered twice", (*OPENING, CALL), (DONE, DONE), ["answered-twice"]),
    ("error then result", (*OPENING, CALL), ({"id": 2, "error": {"code": 1, "message": ""}}, DONE), ["answered-twice"]),
    (
        "cancelled needs no answer",
        (*OPENING, CALL, {"method": "notifications/cancelled", "params": {"requestId": 2}}),
        (),
        [],
    ),
    ("notification answered", OPENING, ({"id": None, "error": {"code": -32601, "message": "m"}},), ["unowed-answer"]),
    ("garbage answered", (*OPENING, b"{bad\n"), ({"error": {"code": -32700, "message": "m"}},), []),
    (
        "garbage answered twice",
        (*OPENING, b"{bad\n"),
        ({"error": {"code": -32700, "message": "m"}}, {"error": {"code": -32700, "message": "m"}}),
        ["unowed-answer"],
    ),
    (
        "bad shape answered by id",
        (*OPENING, b'{"jsonrpc":"1.0","id":7}\n'),
        ({"id": 7, "error": {"code": -32600, "message": ""}},),
        [],
    ),
    (
        "duplicate key runs",
        (*OPENING, b'{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}\n'),
        ({"id": 8, "result": {}},),
        [],
    ),
    ("bad shape not answered", (*OPENING, b'{"jsonrpc":"1.0","id":7}\n'), (), []),
    ("own id twice", OPENING, (PING, PING), ["reused-id"]),
    ("own ids", OPENING, (PING, PING | {"id": 1}, PING | {"id": "1"}), []),
    ("log undeclared", OPENING, (LOG,), ["undeclared-logging"]),
    ("progress", (*OPENING, CALL), (progress(1), progress(1.5), DONE), []),
    ("progress equal", (*OPENING, CALL), (progress(1), progress(1), DONE), ["progress-not-increasing"]),
    ("progress after the end", (*OPENING, CALL), (progress(1), DONE, progress(2)), ["progress-after-end"]),
    ("progress of another token", (*OPENING, CALL), (progress(1, "u"), DONE), ["progress-unknown-token"]),
    ("progress token type", (*OPENING, CALL), (progress(1, 7), DONE), ["progress-unknown-token"]),
    ("never initialized", (INITIALIZE,), (CHANGED,), ["before-initialized"]),
    ("ping may come early", (INITIALIZE,), (PING,), []),
]


@pytest.mark.parametrize(("sent", "back", "found"), [row[1:] for row in SESSIONS], ids=[row[0] for row in SESSIONS])
def test_session(sent, back, found):
    """After initialize is answered: what is owed, and what is not."""
    assert codes(judge(lines(initialized(), *back), sent=lines(*sent))) == found


@pytest.mark.parametrize("identity", ["--5", "-", "\u0665", "9" * 300, "1.0", ""])
def test_odd_ids_are_only_unknown(identity):
    """An id that looks like a number, or nearly, is compared and never converted at a loss."""
    assert codes(judge(lines(initialized(), {"id": identity, "result": {}}), sent=lines(*OPENING))) == ["unknown-id"]


@pytest.mark.parametrize("identity", [[1], {"a": 1}, None, True, 1.5])
def test_odd_cancellations_are_ignored(identity):
    """What the client cancels need not be an id at all; the request is still owed its answer."""
    cancel = {"method": "notifications/cancelled", "params": {"requestId": identity}}
    assert codes(judge(lines(initialized()), sent=lines(*OPENING, CALL, cancel))) == ["no-answer"]


@pytest.mark.parametrize(
    ("back", "found"),
    [
        ((LOG, PING, initialized()), []),
        ((CHANGED, initialized()), ["before-initialized"]),
        ((DONE, initialized()), ["answer-before-initialize"]),
        (({"id": 2, "error": {"code": -32602, "message": "not yet"}}, initialized()), []),
        ((initialized("1999-01-01"), DONE), ["unknown-revision"]),
        ((initialized("2026-07-28"), DONE), ["unknown-revision"]),
        ((), ["no-answer", "no-answer"]),
    ],
)
def test_before_initialize_is_answered(back, found):
    """Before the answer a server only pings and logs, and carries nothing out."""
    back = back if not back or DONE in back or back[0].get("id") == 2 else (*back, DONE)
    assert codes(judge(lines(*back), sent=lines(INITIALIZE, INITIALIZED, CALL))) == found


LISTEN = modern(
    {"id": "sub", "method": "subscriptions/listen", "params": {"notifications": {"toolsListChanged": True}}}
)
TOOL = modern({"id": 2, "method": "tools/call", "params": {"name": "x"}})
TOOL_LOGS = modern({"id": 2, "method": "tools/call", "params": {"name": "x"}}, **{META + "logLevel": "info"})
FINISHED = {"id": 2, "result": {"resultType": "complete", "content": []}}
UNDER = {"params": {"_meta": {META + "subscriptionId": "sub"}}}


@pytest.mark.parametrize(
    ("sent", "back", "found"),
    [
        ((TOOL,), (LOG, FINISHED), ["unasked-log"]),
        ((TOOL_LOGS,), (LOG, FINISHED), []),
        ((TOOL_LOGS,), (FINISHED, LOG), ["unasked-log"]),
        ((TOOL,), (CHANGED, FINISHED), ["no-subscription"]),
        ((LISTEN, TOOL), (CHANGED | UNDER, FINISHED), []),
        ((LISTEN, TOOL), (CHANGED, FINISHED), ["no-subscription"]),
        ((LISTEN,), ({"method": "notifications/cancelled", "params": {"requestId": "sub"}},), []),
        ((TOOL,), ({"method": "notifications/cancelled", "params": {"requestId": 2}}, FINISHED), ["cancelled-not-own"]),
        ((LISTEN,), (), []),
    ],
)
def test_modern_session(sent, back, found):
    """2026-07-28: logs when asked for, changes under a subscription, a subscription needs no answer."""
    for revision in ("auto", "2026-07-28"):
        assert codes(judge(lines(*back), sent=lines(*sent), revision=revision)) == found


def test_session_of_the_other_direction():
    """A client's answers are held against the server's requests; the server's life cycle is not applied to it."""
    asked = lines(PING, {"id": 3, "method": "roots/list"})
    told = lines(INITIALIZE, INITIALIZED, {"id": "p", "result": {}})
    assert codes(judge(told, sent=asked, direction="client-to-server")) == ["no-answer"]


def test_lsp_session():
    """Over Content-Length the accounts of ids are kept, MCP's life cycle is not applied."""
    sent = b"".join(frame(dump_outgoing({"jsonrpc": "2.0", "id": i, "method": "m"})) for i in (1, 2))
    report = judge(frame(NULL) + frame(NULL), framing="content-length", sent=sent)
    assert codes(report) == ["answered-twice", "no-answer"]


def test_session_findings_without_bytes_say_so():
    """An answer that is missing has no bytes to show: the message says what was owed."""
    text = explain(judge(b"", sent=lines(INITIALIZE)))
    assert text.startswith("protocol broken at end of output: the request initialize (id 1) was never answered")


# --------------------------------------------------------------------------------------------------------- properties

PIECES = st.lists(
    st.sampled_from(
        [
            GOOD,
            lines(INITIALIZE),
            lines(initialized()),
            lines(LOG),
            lines(progress(1)),
            lines(FINISHED),
            b"noise\n",
            b"\n",
            b"\r\n",
            b"[]\n",
            b'{"jsonrpc":"2.0"',
            b"\xff\n",
            b"\x00",
            b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n',
            frame(NULL),
            frame(NULL)[:-3],
            frame(b"nope"),
            b'{"jsonrpc":"2.0","id":1e400,"result":{}}\n',
            lines({"id": None, "error": {"code": -1, "message": ""}}),
        ]
    )
    | st.binary(max_size=20),
    max_size=8,
).map(b"".join)


@given(
    data=PIECES,
    sent=st.none() | PIECES,
    cuts=st.lists(st.integers(0, 400), max_size=6),
    framing=st.sampled_from(["ndjson", "content-length"]),
    direction=st.sampled_from(["server-to-client", "client-to-server"]),
    revision=st.sampled_from(["auto", "2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28", "jsonrpc", "lsp", "dap"]),
)
def test_any_cut_gives_the_same_verdict(data, sent, cuts, framing, direction, revision):
    """judge never raises, and a transcript fed in any pieces ends in the same report."""
    settings = {"framing": framing, "direction": direction, "revision": revision, "sent": sent}
    whole = judge(data, **settings)
    for edges in (sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)}), list(range(len(data) + 1))):
        transcript = Transcript(**settings)
        for start, end in pairwise(edges):
            transcript.feed(data[start:end])
        assert transcript.close() == whole
    for finding in whole.findings:
        assert finding.raw == data[finding.offset : finding.offset + len(finding.raw)]
    explain(whole)


@given(
    st.lists(
        st.dictionaries(st.text(), st.none() | st.integers(-(2**53), 2**53) | st.text(), max_size=4)
        | st.lists(st.text(), max_size=3).map(lambda names: {"items": names}),
        max_size=5,
    )
)
@pytest.mark.parametrize("framing", ["ndjson", "content-length"])
def test_encode_then_judge_is_clean(framing, results):
    """Whatever our writer's way of encoding accepts is clean to our judge."""
    bodies = []
    for number, result in enumerate(results):
        bodies.append(dump_outgoing({"jsonrpc": "2.0", "id": number, "result": {"value": result}}))
    report = judge(b"".join(encode(framing, body) for body in bodies), framing=framing)
    assert report.ok, explain(report)
    assert report.frames == len(bodies)
