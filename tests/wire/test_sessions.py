"""Both sides of a session: cancellations, batches that a revision may not have, a client that is judged itself."""

import json
import time

import pytest

from stdout_guard.jsonrpc import STRICT
from stdout_guard.revisions import MCP_REVISIONS, META
from stdout_guard.transcript import judge

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def lines(*messages):
    """ndjson; a list is a batch."""
    whole = [
        [{"jsonrpc": "2.0"} | member if isinstance(member, dict) else member for member in message]
        if isinstance(message, list)
        else {"jsonrpc": "2.0"} | message
        for message in messages
    ]
    return b"".join(json.dumps(message).encode() + b"\n" for message in whole)


def codes(report):
    return [finding.code for finding in report.findings]


def opening(revision):
    """(what the client sends, what the server answers) to initialize, ids 0."""
    info = {"name": "x", "version": "1"}
    asked = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    told = {"protocolVersion": revision, "capabilities": {}, "serverInfo": info}
    initialize = {"id": 0, "method": "initialize", "params": asked}
    return [initialize, {"method": "notifications/initialized"}], [{"id": 0, "result": told}]


def cancel(**params):
    return {"method": "notifications/cancelled", "params": params}


# ------------------------------------------------------------------------------------------------------- cancellations


@pytest.mark.parametrize("direction", ["server-to-client", "client-to-server"])
@pytest.mark.parametrize(
    ("params", "faulty"),
    [
        ({"requestId": 1}, []),
        ({"requestId": "a", "reason": "slow"}, []),
        ({"requestId": True}, MCP_REVISIONS),
        ({"requestId": None}, MCP_REVISIONS),
        ({"requestId": 1.0}, MCP_REVISIONS),
        ({"requestId": 1, "reason": 7}, MCP_REVISIONS),
        ({}, [name for name in MCP_REVISIONS if name != "2025-11-25"]),
        ({"reason": "x"}, [name for name in MCP_REVISIONS if name != "2025-11-25"]),
    ],
)
def test_cancelled_params(params, faulty, direction):
    """requestId is a string or an integer, and required in every revision but 2025-11-25 (where tasks have none)."""
    for name in MCP_REVISIONS:
        report = judge(lines(cancel(**params)), revision=name, direction=direction)
        assert codes(report) == (["params-member"] if name in faulty else []), name


@pytest.mark.parametrize("revision", MCP_REVISIONS)
def test_cancelled_without_params(revision):
    """No revision lets params be left out altogether."""
    assert codes(judge(lines({"method": "notifications/cancelled"}), revision=revision)) == ["params-member"]


@pytest.mark.parametrize("revision", LEGACY)
def test_a_server_cancels_its_own_requests(revision):
    """A cancellation names a request of the same direction: the client's ids mean nothing in it."""
    sent, answers = opening(revision)
    roots = {"id": "r", "method": "roots/list"}
    good = lines(*answers, roots, cancel(requestId="r"))
    assert judge(good, sent=lines(*sent)).ok
    ping = {"id": 7, "method": "ping"}
    bad = lines(*answers, {"id": 7, "result": {}}, cancel(requestId=7))
    assert codes(judge(bad, sent=lines(*sent, ping))) == ["cancelled-not-own"]


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_never_cancels_initialize(revision):
    """Its own other requests it may cancel; ids that it never used it may not."""
    sent, answers = opening(revision)
    side = {"direction": "client-to-server", "sent": lines(*answers, {"id": 1, "result": {"tools": []}})}
    listing = {"id": 1, "method": "tools/list"}
    assert judge(lines(*sent, listing, cancel(requestId=1)), **side).ok
    assert codes(judge(lines(*sent, listing, cancel(requestId=0)), **side)) == ["cancelled-initialize"]
    assert codes(judge(lines(*sent, listing, cancel(requestId="1")), **side)) == ["cancelled-not-own"]


# ---------------------------------------------------------------------------------------------------- the client's side


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_opens_with_initialize(revision):
    """ping may come first, nothing else; an id is used once."""
    (initialize, done), answers = opening(revision)
    side = {"direction": "client-to-server", "sent": lines(*answers)}
    ping, listing = {"id": "p", "method": "ping"}, {"id": 0, "method": "tools/list"}
    assert judge(lines(ping, initialize, done), **side).ok
    assert codes(judge(lines(listing | {"id": 5}, initialize, done), **side)) == ["before-initialize"]
    assert codes(judge(lines(initialize, done, listing), **side)) == ["reused-id"]


def test_a_modern_client_opens_with_anything():
    """2026-07-28 has no initialize, and an id may be used again once it has been answered."""
    call = {"id": 1, "method": "tools/list", "params": {"_meta": MODERN}}
    answer = {"id": 1, "result": {"resultType": "complete", "tools": []}}
    assert judge(lines(call, call), direction="client-to-server", sent=lines(answer, answer)).ok


# ------------------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("revision", LEGACY)
def test_a_batch_is_owed_where_batches_are(revision):
    """2025-03-26 answers each member; elsewhere the array is one unreadable thing, answered once or not at all."""
    sent, answers = opening(revision)
    batch = [{"id": 1, "method": "ping"}, {"id": 2, "method": "ping"}]
    each = [{"id": 1, "result": {}}, {"id": 2, "result": {}}]
    refused = {"id": None, "error": {"code": -32600, "message": "no batches"}}
    whole = lines(*sent, batch)
    assert judge(lines(*answers, *each), sent=whole).ok
    assert codes(judge(lines(*answers), sent=whole)) == (["no-answer"] * 2 if revision == "2025-03-26" else [])
    if revision != "2025-03-26":
        assert judge(lines(*answers, refused), sent=whole).ok
        assert codes(judge(lines(*answers, refused, refused), sent=whole)) == ["unowed-answer"]


def test_an_empty_or_foreign_batch_is_answered_without_an_id():
    """JSON-RPC 2.0 6: one answer to an empty array, one for each member that is no message."""
    refused = {"id": None, "error": {"code": -32600, "message": "invalid"}}
    assert judge(lines(refused), sent=b"[]\n", revision="jsonrpc").ok
    assert judge(lines([refused] * 3), sent=b"[1,2,3]\n", revision="jsonrpc").ok
    assert codes(judge(lines(refused, refused), sent=b"[]\n", revision="jsonrpc")) == ["unowed-answer"]


def test_a_batch_is_held_once():
    """A thousand findings in one array of a mebibyte share its bytes, and its JSON report stays small."""
    member = b'{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}'
    report = judge(b"[" + b",".join([member] * 16_000) + b"]\n", revision="2025-03-26")
    assert len(report.findings) == len(report.notes) == 1000
    assert len({id(finding.raw) for finding in (*report.findings, *report.notes)}) == 1
    assert report.findings[0].as_dict()["raw_size"] == len(report.findings[0].raw)
    assert len(json.dumps(report.findings[0].as_dict())) < 200_000


# -------------------------------------------------------------------------------------------------------- what was sent


def test_a_request_with_line_breaks_in_its_body():
    """Content-Length: carriage returns between the tokens of what was sent are white space, and the answer is owed."""
    body = b'{"jsonrpc":"2.0",\r\n"id":1,"method":"shutdown"}'
    sent = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    assert codes(judge(b"", sent=sent, framing="content-length")) == ["no-answer"]


def test_an_id_that_javascript_reads_as_an_integer():
    """1.0 is no id, but a lenient server that reads it as 1 answers something that was sent."""
    sent = b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}\n'
    assert judge(lines({"id": 1, "result": {}}), sent=sent, revision="jsonrpc").ok


def test_logs_are_linear():
    """2026-07-28: that no open request asked for logs is known without looking at each request again."""
    calls = [{"id": n, "method": "tools/list", "params": {"_meta": MODERN}} for n in range(3000)]
    log = {"method": "notifications/message", "params": {"level": "info", "data": 1}}
    started = time.process_time()
    report = judge(lines(*[log] * 3000), sent=lines(*calls))
    assert time.process_time() - started < 10
    assert codes(report)[0] == "unasked-log"


def test_logs_end_with_the_request_that_asked():
    """Logs may come while a request with logLevel is open, not after its answer."""
    call = {"id": 1, "method": "tools/list", "params": {"_meta": MODERN | {META + "logLevel": "info"}}}
    log = {"method": "notifications/message", "params": {"level": "info", "data": 1}}
    answer = {"id": 1, "result": {"resultType": "complete", "tools": []}}
    assert judge(lines(log, answer), sent=lines(call)).ok
    assert codes(judge(lines(log, answer, log), sent=lines(call))) == ["unasked-log"]


# ----------------------------------------------------------------------------------------------------- a second attempt


def test_initialize_may_be_tried_again():
    """A refused version is asked for anew: the answer that stands is the one that carries a result."""
    (first, done), _ = opening("1900-01-01")
    (second, _), answers = opening("2025-06-18")
    listing = {"id": 3, "method": "tools/list"}
    sent = lines(first | {"id": 1}, second | {"id": 2}, done, listing)
    refused = {"id": 1, "error": {"code": -32602, "message": "unsupported version"}}
    report = judge(lines(refused, answers[0] | {"id": 2}, {"id": 3, "result": {"tools": []}}), sent=sent)
    assert report.ok
    assert report.revision == "2025-06-18"


PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":"%b"}}'


@pytest.mark.parametrize(
    ("sent", "ids"),
    [
        (PING % (1, b"") + b"\r" + PING % (2, b"") + b"\n", [1, 2]),
        (PING % (1, b"\xff") + b"\n", [1]),
        (b"\xef\xbb\xbf" + PING % (1, b"") + b"\n", [1]),
        ((PING % (1, b"")).decode().encode("utf-16-le") + b"\n", [1]),
        (PING.replace(b'"%b"', b"NaN") % 1 + b"\n", [1]),
        (PING % (1, b""), [1]),
    ],
    ids=["carriage return", "not utf-8", "byte order mark", "utf-16", "NaN", "no newline"],
)
def test_answers_to_what_only_a_lenient_server_reads(sent, ids):
    """What was sent is not judged here: whoever answers it anyhow, with the id that stands in it, invents nothing."""
    answers = [{"id": identity, "result": {}} for identity in ids]
    assert judge(lines(*answers), sent=sent, revision="2025-06-18").ok
    assert judge(b"", sent=sent, revision="2025-06-18").ok
    assert codes(judge(lines({"id": 9, "result": {}}), sent=sent, revision="2025-06-18")) == ["unknown-id"]


def test_no_frame_is_allowed_at_all():
    """max_frame=0 means zero bytes, not the default."""
    assert codes(judge(b"x\n", options=STRICT._replace(max_frame=0))) == ["frame-too-long"]
