"""What the article's shortened Gateway does wrong when it is copied into production, one test for each fault."""

import json

import pytest
from boundary_talk import Talk, call, initialize, line, notification, request

from stdout_guard.boundary import AuthorizedAction, Cancelled, SessionClosed, Tool

RAW = call()
DEEP = b"[" * 100_000 + b"]" * 100_000


def arguments(text):
    return RAW.replace(b'"t"', text)


REFUSED = {
    "NaN": (arguments(b'"t","count":NaN'), "json", -32700),
    "-Infinity": (arguments(b'"t","count":-Infinity'), "json", -32700),
    "1e400": (arguments(b'"t","count":1e400'), "json", -32700),
    "duplicate name": (RAW.replace(b'"name"', b'"name":"other","name"'), "json", -32600),
    "duplicate method": (RAW.replace(b'"method"', b'"method":"ping","method"'), "json", -32600),
    "unknown params member": (call(cmd="id"), "schema", -32602),
    "unknown envelope member": (RAW[:-2] + b',"cmd":"id"}\n', "jsonrpc", -32600),
    "result beside method": (RAW[:-2] + b',"result":{}}\n', "jsonrpc", -32600),
    "empty name": (call(""), "method", -32602),
    "unknown tool": (call("rm"), "method", -32602),
    "any arguments": (call(arguments={"shell": "id"}), "schema", -32602),
    "UTF-16": (RAW.decode().encode("utf-16-le")[:-2] + b"\n", "encoding", -32700),
    "UTF-32": (RAW.decode().encode("utf-32-be")[:-4] + b"\n", "encoding", -32700),
    "byte order mark": (b"\xef\xbb\xbf" + RAW, "encoding", -32700),
    "invalid UTF-8": (arguments(b'"\xff"'), "encoding", -32700),
    "nesting of 100k as a value": (DEEP + b"\n", "limits", -32600),
    "nesting of 100k in arguments": (arguments(DEEP), "limits", -32600),
    "5000-digit integer": (arguments(b'"t","count":' + b"9" * 5000), "limits", -32600),
    "5000-digit id": (RAW.replace(b":7,", b":" + b"9" * 5000 + b","), "limits", -32600),
    "embedded newline": (RAW.replace(b",", b",\n", 1), "framing", -32700),
    "lone surrogate in the name": (RAW.replace(b"deploy", b"deploy\\ud800"), "json", -32700),
    "id true on another method": (line({"jsonrpc": "2.0", "id": True, "method": "no/such"}), "jsonrpc", -32600),
}


@pytest.mark.parametrize(("frame", "stage", "code"), REFUSED.values(), ids=REFUSED)
def test_refused_at_the_right_stage(frame, stage, code):
    """Executed or crashed there; here refused, closed, answered once, and the next line does not run."""
    talk = Talk()
    replies = talk.say(frame, call(request_id=8))
    assert [reply["error"]["code"] for reply in replies] == [code]
    assert (talk.recorder.stages, talk.recorder.calls) == ([stage], [])
    assert talk.closed is not None and talk.closed.refused


def test_object_without_newline_at_the_end():
    """A complete object is not a frame before its newline; end of input is an event of its own, not a None."""
    talk = Talk()
    assert talk.say(RAW[:-1]) == []
    _reply, closed = talk.boundary.eof()
    assert isinstance(closed, SessionClosed) and closed.refused
    assert talk.recorder.stages == ["framing"] and talk.recorder.calls == []


def test_what_every_client_sends_is_valid():
    """ping, initialize, initialized and cancelled are no reason to close, and notifications get no answer."""
    talk = Talk(handshake=None)
    frames = [request("ping", 1), initialize(), notification("notifications/initialized")]
    frames += [notification("notifications/cancelled", requestId=99), call()]
    assert [reply["id"] for reply in talk.say(*frames)] == [1, "init", 7]
    assert talk.closed is None


def test_executor_that_raises_leaves_an_answer_and_no_secret():
    """The peer gets an answer without the exception's text; failed is not refused."""
    talk = Talk()
    talk.hold = True
    talk.say(call())
    data = talk.boundary.fail(talk.held[0], RuntimeError("tok_SECRET"))
    assert json.loads(data)["error"]["code"] == -32603 and b"tok_SECRET" not in data
    assert (talk.boundary.counts.failed, talk.boundary.counts.refused) == (1, 0)


def test_closed_session_says_that_it_is_closed():
    """Nothing (a notification) and nothing any more (closed) are told apart."""
    talk = Talk()
    assert talk.events(notification("notifications/initialized")) == []
    talk.say(b"oops\n")
    (closed,) = talk.events(call())
    assert isinstance(closed, SessionClosed)


def test_action_is_no_dict():
    """What reaches the executor is a frozen, typed action with a result its client can read."""
    talk = Talk(tools=[Tool("deploy", validate=lambda arguments: True)])
    (action,) = talk.events(call())
    assert isinstance(action, AuthorizedAction) and not isinstance(action, dict)
    assert json.loads(talk.boundary.complete(action, "ok"))["result"]["content"]


def test_started_and_not_started_are_told_apart():
    """A cancellation says whether the effect may have begun."""
    talk = Talk()
    talk.hold = True
    talk.say(call())
    (event,) = talk.events(notification("notifications/cancelled", requestId=7))
    assert isinstance(event, Cancelled) and event.started is False
