"""Between release and answer: results, failures, cancellation, and batches that are answered as one."""

import json

import pytest
from boundary_adapter import messages
from boundary_talk import Talk, call, initialize, line, notification, request

from stdout_guard.boundary import DENIED, AuthorizedAction, Cancelled, Reply, only_authorized
from stdout_guard.errors import LocalProtocolError
from stdout_guard.recorder import fingerprint

CANCEL = "notifications/cancelled"


def held(*frames, **settings):
    talk = Talk(**settings)
    talk.hold = True
    talk.say(*frames or (call(),))
    return talk


def only(data):
    (message,) = messages(data)
    return message


# ------------------------------------------------------------------------------------------------------------- results


def test_text_becomes_a_tool_result():
    """The executor may return text: the client gets a CallToolResult."""
    talk = held()
    reply = only(talk.boundary.complete(talk.held[0], "done \u2028"))
    assert reply == {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "done \u2028"}]}}


def test_mapping_with_content_is_sent_as_it_is():
    """A whole CallToolResult passes unchanged; from 2026-07-28 it says that it is complete."""
    talk = held()
    value = {"content": (), "structuredContent": {"ok": True}, "isError": False}
    assert only(talk.boundary.complete(talk.held[0], value))["result"] == {**value, "content": []}


@pytest.mark.parametrize("value", [None, 5, {"ok": True}, {"content": "text"}, [], {"content": [float("nan")]}])
def test_result_no_client_can_read(value):
    """Such a result is our error, nothing is written, and the action is still owed an answer."""
    talk = held()
    with pytest.raises(LocalProtocolError, match=f"not {type(value).__name__};|not representable|refused to send"):
        talk.boundary.complete(talk.held[0], value)
    assert talk.boundary.counts.pending == 1
    assert only(talk.boundary.fail(talk.held[0]))["error"]["code"] == -32603
    assert talk.recorder.executions[0].error is None


def test_failure_says_nothing_of_its_cause():
    """The peer gets -32603 without text; the sink gets the type's name."""
    talk = held()
    data = talk.boundary.fail(talk.held[0], ConnectionError("tok_SECRET at 10.0.0.1"))
    assert only(data) == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "internal error"}}
    (record,) = talk.recorder.executions
    assert (record.outcome, record.error, record.tool, record.size) == ("failed", "ConnectionError", "deploy", 0)
    assert "tok_SECRET" not in json.dumps(record.as_dict())


def test_log_of_executions_is_apart_from_refusals():
    """An execution is in the second sink, with the fingerprint of its frame; a refusal is only in the first."""
    talk = Talk(policy="keep-open", clock=lambda: 3.0)
    talk.say(b"oops\n")
    (reply,) = talk.say(call())
    assert len(talk.recorder.refusals) == 1
    (record,) = talk.recorder.executions
    assert (record.time, record.outcome, record.serial, record.error) == (3.0, "executed", 1, None)
    assert record.size == len(line(reply))
    assert record.fingerprint == fingerprint(call())
    assert record.fingerprint not in {refusal.fingerprint for refusal in talk.recorder.refusals}


def test_answer_after_the_session_has_closed():
    """What was released before a refusal is still run and answered; nothing new is released."""
    talk = held(call(), b"oops\n", call(request_id=8))
    assert len(talk.held) == 1 and talk.closed is not None
    talk.recorder.execute(talk.held[0])
    assert only(talk.boundary.complete(talk.held[0], "ok"))["id"] == 7
    assert talk.boundary.counts.balanced


# -------------------------------------------------------------------------------------------------------- cancellation


def test_cancelled_before_it_started_never_runs():
    """The action is revoked: the executor refuses it, no answer is owed, and it is counted by itself."""
    talk = held()
    assert talk.events(notification(CANCEL, requestId=7)) == [Cancelled(talk.held[0], False)]
    ran = []
    with pytest.raises(LocalProtocolError, match="cancelled by the client"):
        only_authorized(ran.append)(talk.held[0])
    assert ran == []
    with pytest.raises(LocalProtocolError):
        talk.boundary.complete(talk.held[0], "x")
    assert [(record.outcome, record.size, record.error) for record in talk.recorder.executions] == [
        ("cancelled", 0, None)
    ]
    assert (talk.boundary.counts.cancelled, talk.boundary.counts.pending) == (1, 0)


def test_cancelled_while_it_runs_is_not_answered():
    """The effect has begun: it is logged as executed, and the client, which asked for no answer, gets none."""
    talk = held()
    talk.recorder.execute(talk.held[0])
    assert talk.events(notification(CANCEL, requestId=7)) == [Cancelled(talk.held[0], True)]
    assert talk.events(notification(CANCEL, requestId=7)) == []
    assert talk.boundary.complete(talk.held[0], "x") == b""
    assert talk.boundary.counts.executed == 1
    assert talk.boundary.counts.balanced


@pytest.mark.parametrize("request_id", ["7", 8, "init"])
def test_cancelling_something_else_is_ignored(request_id):
    """An unknown id, an answered one or one of the other type cancels nothing."""
    talk = held()
    assert talk.events(notification(CANCEL, requestId=request_id)) == []
    talk.recorder.execute(talk.held[0])
    assert talk.boundary.complete(talk.held[0], "x") != b""


# ------------------------------------------------------------------------------------------------------------- batches


def item(frame):
    return json.loads(frame)


def batch(*frames):
    return line([item(frame) for frame in frames])


def march(**settings):
    return Talk(handshake="2025-03-26", **settings)


def test_batch_is_answered_as_one():
    """Calls and requests of a batch get one array, in order, when the last of them is settled."""
    talk = march()
    talk.hold = True
    frame = batch(request("ping", 1), call(request_id=2), notification("notifications/initialized"), call("other", "3"))
    assert talk.say(frame) == []
    first, second = talk.held
    talk.recorder.execute(second)
    assert talk.boundary.complete(second, "b") == b""
    data = talk.boundary.fail(first)
    assert data.startswith(b"[") and data.endswith(b"]\n")
    assert [message["id"] for message in messages(data)] == [1, 2, "3"]
    assert "error" in messages(data)[1]
    assert talk.boundary.counts.balanced


def test_batch_without_calls_is_answered_at_once():
    """Requests that need no executor are answered in the same feed, notifications not at all."""
    talk = march()
    assert [message["id"] for message in talk.say(batch(request("ping", 1), request("ping", 2)))] == [1, 2]
    assert talk.say(batch(notification("notifications/initialized"))) == []
    (event,) = talk.events(batch(request("ping", 3)))
    assert event.data.startswith(b"[")


@pytest.mark.parametrize(
    ("bad", "stage", "reason"),
    [
        ({"foo": "boo"}, "jsonrpc", "version"),
        (5, "jsonrpc", "not-an-object"),
        ([], "jsonrpc", "not-an-object"),
        (item(call("nobody", 9)), "method", "unknown-tool"),
        (item(call(request_id=9, arguments={})), "schema", "arguments"),
        (item(call(request_id=7)), "session", "id-reused"),
        (item(initialize("2025-03-26", 9)), "session", "initialize-twice"),
        ({"jsonrpc": "2.0", "id": 9, "result": {}}, "session", "unsolicited-response"),
        (item(notification("no/such")), "method", "unknown-method"),
    ],
)
def test_batch_with_a_bad_member_does_nothing(bad, stage, reason):
    """All or nothing: the good member neither runs nor uses up its id; one error at most, and it counts once."""
    talk = march(policy="keep-open")
    assert len(talk.say(line([item(call()), bad]))) == 1
    assert (talk.recorder.stages, talk.reasons) == ([stage], [reason])
    assert talk.recorder.calls == []
    assert talk.boundary.counts.refused == 1 and talk.boundary.counts.balanced
    assert "result" in talk.say(call())[0]


def test_batch_of_answers_is_refused_in_silence():
    """Nobody answers answers, in an array either."""
    talk = march(policy="keep-open")
    assert talk.say(line([{"jsonrpc": "2.0", "id": 1, "result": {}}] * 2)) == []
    assert talk.say(line([item(notification("no/such"))])) == []
    assert len(talk.recorder.refusals) == 2


def test_initialize_in_a_batch():
    """initialize must not be part of a batch, also when the revision is pinned and nothing was said yet."""
    talk = Talk(handshake=None, revision="2025-03-26")
    assert talk.code(batch(initialize("2025-03-26", 1))) == -32600
    assert talk.reasons == ["initialize-in-batch"]


def test_denied_member_denies_the_batch():
    """A member without permission: nothing of the batch is released, every call is answered as denied."""
    talk = march(authorise=lambda call: call.name == "deploy")
    replies = talk.say(batch(call(request_id=1), call("other", 2), request("ping", 3)))
    assert [(reply["id"], reply.get("error", {}).get("code")) for reply in replies] == [
        (1, DENIED),
        (2, DENIED),
        (3, None),
    ]
    assert talk.recorder.calls == [] and talk.closed is None
    assert (talk.boundary.counts.denied, talk.boundary.counts.answered) == (2, 2)
    talk.say(call(request_id=4))
    assert talk.recorder.names == ["deploy"]


def test_authoriser_is_not_asked_about_a_batch_that_is_refused():
    """Stages come in order for the whole frame: no permission is consumed for a batch that does not pass."""
    asked = []
    talk = march(authorise=lambda call: asked.append(call) is None)
    talk.say(batch(call(request_id=1), call("nobody", 2)))
    assert asked == []


def test_cancelled_member_leaves_the_batch():
    """A cancelled member is not in the array; when it was the last one awaited, the rest is sent."""
    talk = march()
    talk.hold = True
    talk.say(batch(call(request_id=1), call(request_id=2)))
    talk.recorder.execute(talk.held[0])
    assert talk.boundary.complete(talk.held[0], "a") == b""
    cancelled, reply = talk.events(notification(CANCEL, requestId=2))
    assert isinstance(cancelled, Cancelled) and isinstance(reply, Reply)
    assert [message["id"] for message in messages(reply.data)] == [1]


def test_batch_that_is_too_long():
    """More than a hundred members is refused at stage limits."""
    members = [item(request("ping", number)) for number in range(101)]
    talk = march()
    assert talk.code(line(members)) == -32600
    assert talk.recorder.stages == ["limits"] and talk.reasons == ["batch-too-long"]
    assert len(march().say(line(members[:100]))) == 100


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_batches_exist_in_one_revision(revision):
    """Everywhere else an array is an invalid request."""
    talk = Talk(handshake=revision)
    assert talk.code(batch(call())) == -32600
    assert talk.reasons == ["batch-not-allowed"] and talk.recorder.calls == []


def test_empty_batch():
    """An empty array is an invalid request in every revision."""
    talk = march()
    assert talk.code(b"[]\n") == -32600
    assert talk.reasons == ["empty-batch"]


def test_released_actions_come_in_order_of_the_wire():
    """Actions and replies are in the order of their frames."""
    talk = Talk()
    events = talk.events(call(request_id=1), request("ping", 2), call("other", 3))
    assert [type(event) for event in events] == [AuthorizedAction, Reply, AuthorizedAction]
    assert [event.serial for event in events if isinstance(event, AuthorizedAction)] == [1, 2]
