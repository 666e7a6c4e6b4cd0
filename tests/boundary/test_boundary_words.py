"""What exactly the boundary says, to the peer and to its own side: texts that people search for, in full."""

import datetime
import sys

import pytest
from boundary_talk import MODERN_META, Talk, call, initialize, notification, request

from stdout_guard.boundary import DENIED, AuthorizedAction, Boundary, Call, Decision, SessionClosed, Tool
from stdout_guard.compat import Allowance, parse
from stdout_guard.errors import LocalProtocolError
from stdout_guard.recorder import Counts, Execution, Recorder, Refusal

REVISIONS = "auto, 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"


def said(kind, make, *given, **named):
    with pytest.raises(kind) as caught:
        make(*given, **named)
    assert type(caught.value) is kind
    return str(caught.value)


def test_settings():
    """Who, what, and what else there is."""
    tools = [Tool("t")]
    assert said(ValueError, Boundary, tools, bool, policy="open") == (
        "boundary: policy 'open' with 100 rejections: close or keep-open, from 1"
    )
    assert said(ValueError, Boundary, tools, bool, max_rejections=0) == (
        "boundary: policy 'close' with 0 rejections: close or keep-open, from 1"
    )
    assert said(ValueError, Boundary, tools, bool, revision="2025-01-01") == (
        f"boundary: unknown revision '2025-01-01'; {REVISIONS}"
    )
    assert said(ValueError, Boundary, tools, None) == (
        "boundary: authorise must be a callable; there is no default that allows"
    )
    assert said(ValueError, Boundary, [*tools, Tool("t")], bool) == "tool 't' is registered twice"
    assert Boundary(tools, bool, policy="keep-open", max_rejections=1).closed is None


async def later(arguments):
    return None


def test_tools(monkeypatch):
    """Which tool, and what is wrong with it."""
    for name in ("", "a\nb", "\x1b"):
        assert said(ValueError, Tool, name) == f"tool {name!r}: a tool's name is non-empty printable text"
    needs = 'tool \'t\': the arguments are an object, so the schema needs "type": "object"'
    assert said(ValueError, Tool, "t", schema={"type": "array"}) == needs
    assert said(ValueError, Tool, "t", schema={}, validate=bool) == needs
    assert said(ValueError, Tool, "t", validate=later) == (
        "tool 't': validate is async, and nothing would await it; give a plain callable"
    )
    assert said(ValueError, Tool, "t", schema={"type": "object", "properties": 5}) == (
        "tool 't': the schema is not valid JSON Schema: 5 is not of type 'object'"
    )
    for reference in ("http://example.org/s", "other.json", "#/nowhere", "#nowhere", "#/properties/x/9"):
        schema = {"type": "object", "properties": {"x": {"$ref": reference}}}
        assert said(ValueError, Tool, "t", schema=schema) == (
            f"tool 't': the schema's reference {reference!r} does not lead into the schema itself"
        )
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    assert said(RuntimeError, Tool, "t") == (
        "tool 't': checking a JSON Schema needs jsonschema; pip install 'stdout-guard[boundary]', "
        "or give the tool a validate callable"
    )


def test_actions():
    """Every way to a second permission is named."""
    talk = Talk()
    talk.hold = True
    talk.say(call())
    (action,) = talk.held
    assert said(TypeError, AuthorizedAction) == (
        "AuthorizedAction: only a Boundary makes one; feed it the client's bytes instead"
    )
    assert said(TypeError, type, "Mine", (AuthorizedAction,), {}) == (
        "AuthorizedAction: cannot be subclassed; wrap the executor instead"
    )
    copied = "AuthorizedAction: a copy would run twice; pass the action itself"
    assert said(TypeError, action.__copy__) == said(TypeError, action.__deepcopy__, {}) == copied
    assert said(TypeError, action.__reduce_ex__, 2) == (
        "AuthorizedAction: cannot be pickled; its permission ends with this process"
    )
    read_only = "AuthorizedAction.name: an authorised action is read-only"
    assert said(AttributeError, setattr, action, "name", "x") == read_only
    assert said(AttributeError, delattr, action, "name") == read_only
    assert said(TypeError, talk.boundary.complete, "x", "y") == (
        "boundary: takes back the AuthorizedAction that feed gave out, not str"
    )
    assert said(LocalProtocolError, talk.boundary.complete, action, 5) == (
        "complete: a tool's result is text or a mapping with a list `content`, not int; nothing was sent"
    )
    talk.events(notification("notifications/cancelled", requestId=7))
    assert said(LocalProtocolError, Recorder().execute, action) == (
        "executor: action 'deploy' cancelled by the client before it started; an action is executed at most once"
    )
    assert said(LocalProtocolError, talk.boundary.fail, action) == (
        "boundary: action 'deploy' is not pending here: it is answered or cancelled already, or another boundary "
        "released it; nothing was written"
    )
    forged = object.__new__(AuthorizedAction)
    assert said(TypeError, Recorder().execute, forged) == (
        "executor: this AuthorizedAction was not issued by a Boundary; nothing was executed"
    )


ROW = {
    "rule": "r",
    "client": "c",
    "since": "1",
    "before": "2",
    "expires": datetime.date(2027, 1, 1),
    "ref": "o/r#1",
}
TEXT = 'version = 1\n[[allow]]\nrule="r"\nclient="c"\nsince="1"\nbefore="2"\nexpires=2027-01-01\nref="o/r#1"\n'


def test_compatibility_rows():
    """Which row, and what a row needs."""
    for name in ("rule", "client", "ref"):
        assert said(ValueError, Allowance, **{**ROW, name: ""}) == (
            f"compatibility table: a row without {name}; every row says rule, client and ref"
        )
    for name in ("since", "before"):
        assert said(ValueError, Allowance, **{**ROW, name: "v1"}) == (
            "compatibility table: r for c: versions are dotted numbers"
        )
    for wrong in ("2027-01-01", datetime.datetime(2027, 1, 1)):
        assert said(ValueError, Allowance, **{**ROW, "expires": wrong}) == (
            "compatibility table: r for c: expires is a date, as 2027-03-31"
        )
    assert parse(TEXT) == (Allowance(**ROW),)
    assert parse("version = 1") == ()
    for other in ("", "version = 2", "[[allow]]"):
        assert said(ValueError, parse, other) == "compatibility table: `version = 1` expected"
    odd = said(ValueError, parse, TEXT.replace('ref="o/r#1"', "execute=true"))
    assert odd.startswith("compatibility table: row {'rule': 'r', 'client': 'c',")
    assert odd.endswith("}: missing or unknown fields ['execute', 'ref']")


def test_version_range():
    """From since on, up to but not before; a version of another form is never covered; expiry is exclusive."""
    row, day = Allowance(**{**ROW, "since": "1.2", "before": "1.10.0"}), datetime.date(2026, 12, 31)
    covered = ["1.2", "1.2.0", "1.2.0.1", "1.9.99", "01.3"]
    assert [row.covers("r", ("c", version), day) for version in covered] == [True] * len(covered)
    beyond = [
        "1.1.9",
        "1.10",
        "1.10.0.0",
        "2",
        "1",
        "1.3b",
        "",
        "1.",
        ".1",
        "1..3",
        "-1.3",
        "1.3 ",
        "\u0661.3",
        "1." * 40,
    ]
    assert [row.covers("r", ("c", version), day) for version in beyond] == [False] * len(beyond)
    assert not row.covers("r", ("c", "1.3"), datetime.date(2027, 1, 1))
    assert not row.covers("r", ("C", "1.3"), day) and not row.covers("R", ("c", "1.3"), day)
    assert not row.covers("r", None, day)
    assert row.covers("r", ("c", "1.3" + ".0" * 30), day) and not row.covers("r", ("c", "1.3" + ".0" * 31), day)


REPLIES = [
    (b"oops\n", -32700, "parse error", None),
    (b"\xff\n", -32700, "parse error", None),
    (b"\n", -32700, "parse error", None),
    (b'{"a":1,"a":2}\n', -32600, "invalid request", None),
    (b"[]\n", -32600, "invalid request", None),
    (b"1" * 400 + b"\n", -32600, "invalid request", None),
    (request("ping", 5, x=1).replace(b'"method"', b'"x":1,"method"'), -32600, "invalid request", 5),
    (call(request_id="init"), -32600, "invalid request", None),
    (request("no/such", 5), -32601, "method not found", 5),
    (request("roots/list", "a"), -32601, "method not found", "a"),
    (call("nobody", 5), -32602, "invalid params", 5),
    (call(request_id=5, arguments={}), -32602, "invalid params", 5),
    (call(request_id=5, x=1), -32602, "invalid params", 5),
    (call(request_id=5, arguments=[]), -32602, "invalid params", 5),
    (call(request_id=5, meta=[]), -32602, "invalid params", 5),
    (request("tools/list", 5, cursor="x"), -32602, "invalid params", 5),
]


@pytest.mark.parametrize(("frame", "code", "text", "request_id"), REPLIES, ids=range(len(REPLIES)))
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_replies(frame, code, text, request_id, revision):
    """The whole reply: version, code, its text, and an id: the request's, or null, or from 2025-11-25 none."""
    reply = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
    if request_id is None and revision == "2025-11-25":
        del reply["id"]
    assert Talk(handshake=revision).say(frame) == [reply]


def test_other_replies():
    """Denied, failed, an unsupported version, arguments that are explained, and results of both eras."""
    talk = Talk(authorise=lambda asked: False)
    assert talk.say(call()) == [{"jsonrpc": "2.0", "id": 7, "error": {"code": DENIED, "message": "not authorised"}}]
    talk = Talk()
    (action,) = talk.events(call())
    assert (
        talk.boundary.fail(action) == b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}\n'
    )
    modern = Talk(handshake=None, revision="2026-07-28")
    old = {**MODERN_META, "io.modelcontextprotocol/protocolVersion": "2025-06-18"}
    (reply,) = modern.say(call(meta=old))
    assert reply["error"] == {
        "code": -32022,
        "message": "unsupported protocol version",
        "data": {"supported": ["2026-07-28"], "requested": "2025-06-18"},
    }
    (reply,) = modern.say(call(meta=MODERN_META))
    assert reply["result"] == {"resultType": "complete", "content": [{"type": "text", "text": "ok"}]}
    (reply,) = Talk(schema_errors="isError").say(call(arguments={}))
    assert reply["result"] == {
        "content": [{"type": "text", "text": "the arguments do not match the tool's input schema"}],
        "isError": True,
    }


def test_endings():
    """Why a session ended, and whether what came in was the reason."""
    talk = Talk()
    talk.events(b"oops\n")
    assert talk.closed == SessionClosed("refused at stage json: not-json", True)
    talk = Talk()
    assert talk.boundary.eof() == [SessionClosed("end of input", False)]
    talk = Talk(policy="keep-open", max_rejections=2)
    talk.events(b"oops\n", request("no/such"), call())
    assert talk.closed == SessionClosed("refused at stage method: unknown-method", True)
    assert talk.recorder.calls == []
    talk = Talk(policy="keep-open")
    talk.events(b"{")
    assert talk.boundary.eof()[-1] == SessionClosed("refused at stage framing: no-final-newline", True)


def test_answers_of_the_session():
    """initialize, server/discover and tools/list: the whole answer."""
    tool = Tool("t", description="d")
    talk = Talk(handshake=None, tools=[tool], server=("gate", "3"))
    assert talk.say(initialize("2025-06-18"))[0]["result"] == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "gate", "version": "3"},
    }
    shown = {"name": "t", "description": "d", "inputSchema": {"type": "object", "additionalProperties": False}}
    assert talk.say(request("tools/list", 2))[0]["result"] == {"tools": [shown]}
    assert talk.say(request("ping", 3))[0]["result"] == {}
    assert talk.say(request("logging/setLevel", 4, level="info"))[0]["result"] == {}
    modern = Talk(handshake=None, tools=[tool], server=("gate", "3"))
    caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert modern.say(request("server/discover", 1, meta=MODERN_META))[0]["result"] == {
        "supportedVersions": REVISIONS.split(", ")[1:],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "gate", "version": "3"}},
        **caching,
    }
    assert modern.say(request("tools/list", 2, meta=MODERN_META))[0]["result"] == {"tools": [shown], **caching}


def test_records():
    """What the two sinks are given, field by field, as plain data too."""
    talk = Talk(clock=lambda: 2.5, authorise=lambda asked: Decision(asked.arguments["target"] == "t", "x" * 300))
    talk.events(call(request_id="a", arguments={"target": "u"}))
    (denied,) = talk.recorder.refusals
    size = len(call(request_id="a", arguments={"target": "u"}))
    mark = denied.fingerprint
    assert len(mark) == 32 and set(mark) <= set("0123456789abcdef")
    assert denied == Refusal(2.5, "authorisation", "denied", mark, size, "string", "deploy", False, None, "x" * 200)
    talk.say(call())
    (done,) = talk.recorder.executions
    assert done == Execution(2.5, "deploy", 1, done.fingerprint, "executed", done.size, None)
    talk.events(b"[]\n")
    refused = talk.recorder.refusals[1]
    assert refused == Refusal(2.5, "jsonrpc", "empty-batch", refused.fingerprint, 3, "none", None, True, None, "")
    assert refused.as_dict()["stage"] == "jsonrpc" and done.as_dict()["outcome"] == "executed"
    counts = talk.boundary.counts
    assert counts == Counts(received=5, rejected={"jsonrpc": 1}, denied=1, answered=1, ignored=1, executed=1)
    assert counts.refused == 1 and counts.balanced and talk.boundary.sink_errors == 0


def test_what_an_authoriser_sees():
    """Name, frozen arguments, id, revision and what the client says of itself."""
    seen = []
    Talk(authorise=lambda asked: seen.append(asked) is None).say(call(request_id="a"))
    Talk(handshake=None, authorise=lambda asked: seen.append(asked) is None).say(call(meta=MODERN_META))
    named = {**MODERN_META, "io.modelcontextprotocol/clientInfo": {"name": "m", "version": "2"}}
    Talk(handshake=None, authorise=lambda asked: seen.append(asked) is None).say(call(meta=named))
    assert seen == [
        Call("deploy", {"target": "t"}, "a", "2025-11-25", ("c", "1.0")),
        Call("deploy", {"target": "t"}, 7, "2026-07-28", None),
        Call("deploy", {"target": "t"}, 7, "2026-07-28", ("m", "2")),
    ]


def test_what_feed_takes():
    """Bytes of any kind, also a view with gaps; text is an error of ours, and leaves the session as it was."""
    frame = call()
    gaps = bytearray(2 * len(frame))
    gaps[::2] = frame
    for data in (frame, bytearray(frame), memoryview(frame), memoryview(gaps)[::2]):
        (action,) = Talk().boundary.feed(data)
        assert action.name == "deploy"
    talk = Talk()
    with pytest.raises(TypeError):
        talk.boundary.feed(frame.decode())
    assert talk.boundary.feed(b"") == []
