"""What a refusal leads to: one bounded reply, the end of the session or not, and a record that tells no secret."""

import datetime
import json
import time

import pytest
from boundary_talk import INITIALIZED, MODERN_META, Talk, call, initialize, line, request

from stdout_guard.boundary import DENIED, Boundary, Decision, Reply, SessionClosed, Tool
from stdout_guard.compat import Allowance, covering, parse, version_key
from stdout_guard.jsonrpc import Strictness
from stdout_guard.recorder import fingerprint

BAD = b"oops\n"


def test_close_is_the_default_and_final():
    """After a refusal nothing in the same read, in a later one, or at the end is taken; each answer says so."""
    talk = Talk()
    events = talk.events(BAD, call(), call(request_id=8))
    assert [type(event) for event in events] == [Reply, SessionClosed]
    closed = events[1]
    assert closed == SessionClosed("refused at stage json: not-json", True)
    assert talk.boundary.feed(call(request_id=9)) == [closed]
    assert talk.boundary.eof() == [closed]
    assert talk.boundary.closed is closed
    assert talk.recorder.calls == []
    assert talk.boundary.counts.received == 3


def test_end_of_input_is_not_a_refusal():
    """A client that leaves is not refused, and nothing is taken afterwards."""
    talk = Talk()
    assert talk.boundary.eof() == [SessionClosed("end of input", False)]
    assert talk.boundary.feed(call()) == [SessionClosed("end of input", False)]
    assert talk.recorder.refusals == []


def test_keep_open_runs_the_next_request_once_and_clean():
    """The valid request after a refused one runs exactly once and inherits nothing."""
    talk = Talk(policy="keep-open")
    refused = call(request_id=1, arguments={"target": "stale", "tags": [1], "shell": "id"})
    assert talk.code(refused) == -32602
    (reply,) = talk.say(call(request_id=2, arguments={"target": "fresh"}))
    assert reply["id"] == 2
    assert talk.recorder.calls == [("deploy", {"target": "fresh"})]
    assert talk.closed is None


def test_keep_open_has_a_budget():
    """The refusal that uses up the budget ends the session."""
    talk = Talk(policy="keep-open", max_rejections=3)
    talk.say(BAD * 2)
    assert talk.closed is None
    talk.say(BAD, call())
    assert talk.closed is not None and talk.closed.refused
    assert talk.boundary.counts.rejected == {"json": 3}
    assert talk.recorder.calls == []


@pytest.mark.parametrize("policy", ["close", "keep-open"])
def test_lost_stream_closes_whatever_the_policy(policy):
    """After an over-long line nobody knows where the next frame begins: never resynchronise."""
    talk = Talk(policy=policy, strictness=Strictness(max_frame=300))
    assert talk.code(b"x" * 301 + b"\n" + call()) == -32600
    assert talk.reasons == ["frame-too-long"]
    assert talk.closed is not None and talk.recorder.calls == []


@pytest.mark.parametrize("policy", ["close", "keep-open"])
def test_unfinished_frame_at_the_end(policy):
    """A complete object without its newline is not a frame, whatever the policy."""
    talk = Talk(policy=policy)
    talk.say(call()[:-1])
    events = talk.boundary.eof()
    assert [type(event) for event in events] == [Reply, SessionClosed]
    assert talk.recorder.stages == ["framing"] and talk.recorder.calls == []


@pytest.mark.parametrize("policy", ["close", "keep-open"])
def test_denial_keeps_the_session_open(policy):
    """A denial is an application's answer, outside the codes JSON-RPC reserves; denials use up no budget."""
    talk = Talk(policy=policy, max_rejections=1, authorise=lambda call: call.name == "other")
    assert talk.code(call(request_id=1)) == DENIED
    assert not -32768 <= DENIED <= -32000
    assert talk.code(call(request_id=2)) == DENIED
    talk.say(call("other", request_id=3))
    assert talk.recorder.names == ["other"]
    assert talk.boundary.counts.denied == 2
    assert talk.boundary.counts.refused == 0
    assert talk.closed is None


@pytest.mark.parametrize(
    "settings", [{"policy": "open"}, {"max_rejections": 0}, {"revision": "v1"}, {"authorise": "yes"}]
)
def test_settings_that_make_no_sense(settings):
    """A wrong setting is an error when the boundary is made."""
    with pytest.raises(ValueError, match="boundary:"):
        Boundary([], **{"authorise": lambda call: True, **settings})


# ------------------------------------------------------------------------------------------------------------- replies


@pytest.mark.parametrize(
    ("revision", "choice", "present"),
    [
        ("2024-11-05", "auto", True),
        ("2025-06-18", "auto", True),
        ("2025-11-25", "auto", False),
        ("2025-11-25", "null", True),
        ("2024-11-05", "omit", False),
        (None, "auto", True),
        (None, "omit", False),
    ],
)
def test_id_of_an_unreadable_request(revision, choice, present):
    """null through 2025-06-18 and before anything was negotiated, omitted from 2025-11-25; an option decides else."""
    talk = Talk(handshake=revision, id_unknown=choice)
    (reply,) = talk.say(BAD)
    assert ("id" in reply) is present
    assert reply.get("id") is None


def test_id_is_echoed_when_it_can_be_read():
    """A refusal of a well-formed request carries its id."""
    for frame in (call("nobody", request_id="x"), request("no/such", "x"), line({"jsonrpc": "1.0", "id": "x"})):
        (reply,) = Talk().say(frame)
        assert reply["id"] == "x"


def test_refusal_stays_small_whatever_the_id():
    """An id of more than 1,024 characters is not echoed by a refusal; an accepted request gets its own id back."""
    for length, echoed in ((1024, True), (1025, False)):
        (reply,) = Talk().say(call("nobody", request_id="i" * length))
        assert ("id" in reply) is echoed
    (reply,) = Talk().say(call(request_id="i" * 5000))
    assert reply["id"] == "i" * 5000


def test_reply_never_echoes_the_frame():
    """The text of an error is the code's own: nothing of what was refused comes back."""
    for frame in (
        b'{"secret_7f3a":\n',
        call("secret_7f3a"),
        request("secret_7f3a"),
        call(arguments={"target": "t", "secret_7f3a": 1}),
        call(arguments={"secret_7f3a": "x"}),
    ):
        talk = Talk()
        written = b"".join(event.data for event in talk.events(frame) if isinstance(event, Reply))
        assert written and b"secret_7f3a" not in written and len(written) < 200
        assert "secret_7f3a" not in json.dumps([refusal.as_dict() for refusal in talk.recorder.refusals])


def test_replies_are_frames_of_the_session():
    """On a Content-Length channel replies have a header and exactly so many bytes."""
    talk = Talk(handshake=None, framing="content-length")
    (event, *_rest) = talk.events(b"Content-Length: 9\r\n\r\n{not json")
    header, _, body = event.data.partition(b"\r\n\r\n")
    assert header == b"Content-Length: %d" % len(body)
    assert json.loads(body)["error"]["code"] == -32700


@pytest.mark.parametrize(
    "frame",
    [
        line({"jsonrpc": "2.0", "id": 1, "result": {}}),
        line({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "m"}}),
        line({"jsonrpc": "2.0", "error": {"code": -32600, "message": "m"}}),
        line({"jsonrpc": "1.0", "id": 1, "error": "x"}),
        line({"id": 1, "result": 5}),
        line([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
    ],
)
def test_answers_are_never_answered(frame):
    """Whatever looks like an answer is refused in silence: answering it starts an error storm (rust-sdk#938)."""
    talk = Talk(policy="keep-open")
    assert talk.say(frame * 5) == []
    assert len(talk.recorder.refusals) == 5


def test_bad_arguments_as_a_result():
    """Option isError: from 2025-11-25 bad arguments are a tool result the model can read; the session stays open."""
    talk = Talk(schema_errors="isError")
    (reply,) = talk.say(call(arguments={}))
    text = "the arguments do not match the tool's input schema"
    assert reply["result"] == {"content": [{"type": "text", "text": text}], "isError": True}
    modern = Talk(handshake=None, schema_errors="isError")
    (reply,) = modern.say(call(arguments={}, meta=MODERN_META))
    assert reply["result"]["resultType"] == "complete" and reply["result"]["isError"] is True
    assert talk.closed is None and talk.recorder.stages == ["schema"] and talk.recorder.calls == []
    assert talk.code(call("nobody", request_id=8)) == -32602
    assert Talk(handshake="2025-06-18", schema_errors="isError").code(call(arguments={})) == -32602


# --------------------------------------------------------------------------------------------------------------- audit


def test_audit_record_of_a_refusal():
    """Time, stage, reason, keyed fingerprint, sizes, the id's type, and the tool only because it is registered."""
    talk = Talk(clock=lambda: 12.5)
    frame = call(request_id="x", arguments={"nobody": 1})
    talk.say(frame)
    assert talk.recorder.refusals[0].as_dict() == {
        "time": 12.5,
        "stage": "schema",
        "reason": "arguments",
        "fingerprint": fingerprint(frame),
        "size": len(frame),
        "id_type": "string",
        "tool": "deploy",
        "closed": True,
        "compat": None,
        "note": "",
    }


def test_params_member_nobody_knows():
    """A member beside name and arguments is refused at stage schema, by a reason of its own."""
    talk = Talk()
    assert talk.code(call(cmd="id")) == -32602
    assert (talk.recorder.stages, talk.reasons) == (["schema"], ["unknown-params-member"])


def test_audit_names_no_unregistered_tool():
    """A tool name of the peer's own invention is not written down."""
    talk = Talk()
    talk.say(call("rm -rf"))
    assert talk.recorder.refusals[0].tool is None
    assert talk.recorder.refusals[0].id_type == "integer"


@pytest.mark.parametrize(
    ("request_id", "kind"), [(7, "integer"), ("7", "string"), (None, "none"), (True, "none"), (1.5, "none")]
)
def test_audit_knows_the_kind_of_id(request_id, kind):
    """The type of the id, whichever stage refuses; never the id."""
    for frame in (line({"jsonrpc": "1.0", "id": request_id, "method": "x"}), request("no/such", request_id)):
        talk = Talk()
        talk.say(frame)
        assert [refusal.id_type for refusal in talk.recorder.refusals] == [kind]
    if kind != "none":
        talk = Talk(handshake="2025-03-26")
        member = {"jsonrpc": "2.0", "id": request_id, "method": "ping"}
        talk.say(line([member, member]))
        assert [refusal.id_type for refusal in talk.recorder.refusals] == [kind]


def test_fingerprint_is_keyed():
    """Equal frames have equal fingerprints, different ones do not, and no plain hash gives it away."""
    import hashlib

    assert fingerprint(b"a") == fingerprint(b"a") != fingerprint(b"b")
    assert len(fingerprint(b"a")) == 32
    assert fingerprint(b"a") != hashlib.sha256(b"a").hexdigest()[:32]


def test_denial_is_audited_with_the_authorisers_words_only():
    """The note is the decision's reason, cut to 200 characters; an exception's text is not used."""
    talk = Talk(authorise=lambda call: Decision(False, "no credential " + "x" * 300))
    talk.say(call())
    record = talk.recorder.refusals[0]
    assert (record.stage, record.reason, record.tool, record.closed) == ("authorisation", "denied", "deploy", False)
    assert record.note.startswith("no credential x") and len(record.note) == 200
    assert (record.id_type, record.size, record.fingerprint) == ("integer", len(call()), fingerprint(call()))
    assert abs(record.time - time.time()) < 60

    talk = Talk(authorise=lambda call: Decision(False, None))
    assert talk.code(call()) == DENIED and talk.recorder.refusals[0].note == "None"

    def raising(call):
        raise KeyError("tok_SECRET")

    talk = Talk(authorise=raising)
    assert talk.code(call()) == DENIED
    assert talk.recorder.refusals[0].note == "the authoriser raised KeyError"


@pytest.mark.parametrize("verdict", [None, 1, "yes", object(), Decision(1), {"allowed": True}])
def test_only_true_allows(verdict):
    """Anything but True, or a Decision that says True, denies."""
    talk = Talk(authorise=lambda call: verdict)
    assert talk.code(call()) == DENIED
    assert talk.recorder.calls == []


@pytest.mark.filterwarnings("error")
def test_async_authoriser_denies():
    """A coroutine is not a decision: it denies, and leaves no warning behind."""

    async def authorise(call):
        return True

    talk = Talk(authorise=authorise)
    assert talk.code(call()) == DENIED
    assert talk.recorder.refusals[0].note == "the authoriser answered coroutine"


def test_authoriser_sees_the_frozen_validated_call_only():
    """It is asked after the schema, once, with the same frozen arguments the executor gets."""
    seen = []
    talk = Talk(authorise=lambda call: seen.append(call) is None)
    talk.say(call(request_id="q", arguments={"target": "t", "tags": [1]}))
    (asked,) = seen
    assert (asked.name, asked.request_id, asked.revision, asked.client) == ("deploy", "q", "2025-11-25", ("c", "1.0"))
    assert asked.arguments is talk.held[0].arguments
    with pytest.raises(TypeError):
        asked.arguments["target"] = "u"
    talk.say(call(request_id=8, arguments={"target": 5}))
    assert len(seen) == 1


def test_sink_that_raises_changes_nothing():
    """A broken sink neither lets a frame through nor stops one; it is counted."""

    def broken(record):
        raise OSError("disk full")

    talk = Talk(audit=broken, executions=broken, policy="keep-open")
    assert talk.code(BAD) == -32700
    assert "result" in talk.say(call())[0]
    assert talk.boundary.sink_errors == 2


def test_boundary_without_sinks():
    """Both sinks are optional."""
    talk = Talk(audit=None, executions=None, policy="keep-open")
    assert talk.code(BAD) == -32700
    assert "result" in talk.say(call())[0]
    assert talk.boundary.sink_errors == 0


# ------------------------------------------------------------------------------------------------------- compatibility

ROW = Allowance("blank-line", "odd-client", "1.2", "2.0", datetime.date(2027, 1, 1), "odd-client#4")
TODAY = datetime.datetime(2026, 12, 31, tzinfo=datetime.UTC).timestamp()


def odd(version="1.5", now=TODAY, name="odd-client", **settings):
    talk = Talk(handshake=None, compat=[ROW], clock=lambda: now, **settings)
    talk.say(initialize(client=(name, version)), INITIALIZED)
    return talk


def test_allowance_answers_and_never_executes():
    """The named client gets its error and goes on; the record says by which row; nothing of the frame is executed."""
    talk = odd()
    assert talk.code(b"\n") == -32700
    assert talk.closed is None
    assert talk.recorder.refusals[0].compat == "odd-client#4"
    assert talk.recorder.calls == []
    talk.say(call())
    assert talk.recorder.names == ["deploy"]


@pytest.mark.parametrize(
    "settings",
    [
        {"version": "1.1"},
        {"version": "2.0"},
        {"version": "2"},
        {"version": "1.5rc1"},
        {"name": "other-client"},
        {"now": TODAY + 86_400},
        {"now": TODAY + 8_640_000},
    ],
    ids=["older", "newer", "newer-short", "no-number", "other", "expired-today", "expired"],
)
def test_allowance_ends_with_its_client_version_and_date(settings):
    """Another client, another version or a later day: refused and closed as ever."""
    talk = odd(**settings)
    talk.say(b"\n")
    assert talk.closed is not None
    assert talk.recorder.refusals[0].compat is None


@pytest.mark.parametrize("version", ["1.2", "1.2.0", "1.2.1", "1.10", "1.999"])
def test_allowance_covers_its_whole_range(version):
    """From since on, the first version included, up to but without before."""
    talk = odd(version=version)
    talk.say(b"\n")
    assert talk.closed is None


def test_allowance_is_for_its_rule_and_its_budget():
    """Another fault of the same client closes; so does the same fault without end."""
    talk = odd()
    talk.say(BAD)
    assert talk.closed is not None
    talk = odd(max_rejections=3)
    talk.say(b"\n\n\n")
    assert talk.closed is not None and talk.boundary.counts.refused == 3


def test_compatibility_table_as_text():
    """A TOML table of rule, client, version range, expiry and reference; there is no way to say execute."""
    text = """
    version = 1
    [[allow]]
    rule = "blank-line"
    client = "odd-client"
    since = "1.2"
    before = "2.0"
    expires = 2027-01-01
    ref = "odd-client#4"
    """
    assert parse(text) == (ROW,)
    assert parse("version = 1") == ()
    with pytest.raises(ValueError, match="execute"):
        parse(text + "execute = true\n")
    with pytest.raises(ValueError, match="version = 1"):
        parse(text.replace("version = 1", "version = 2"))
    with pytest.raises(ValueError, match="ref"):
        parse(text.replace('ref = "odd-client#4"', ""))


@pytest.mark.parametrize(
    "change", [{"since": "x"}, {"before": ""}, {"expires": "2027-01-01"}, {"rule": ""}, {"client": ""}, {"ref": ""}]
)
def test_row_that_cannot_be_read(change):
    """A row without rule, client, reference, range or date is an error when it is made."""
    values = {name: getattr(ROW, name) for name in ROW.__slots__} | change
    with pytest.raises(ValueError, match="compatibility table"):
        Allowance(**values)


def test_versions_compare_as_numbers():
    """1.10 is newer than 1.9, 1.0 is 1, and what is no dotted number is not covered."""
    assert version_key("9" * 64) == (int("9" * 64),)
    assert version_key("1.10") > version_key("1.9")
    assert version_key("1.0") == version_key("1")
    assert [version_key(odd) for odd in ("", "1.", "v1", "1.5rc1", "\u0661", "9" * 65)] == [None] * 6
    assert covering([ROW], "blank-line", None, datetime.date(2026, 1, 1)) is None


# -------------------------------------------------------------------------------------------------------------- counts


def test_every_fate_has_its_own_counter():
    """received = rejected + denied + answered + ignored + executed + failed + cancelled + pending, all told apart."""
    talk = Talk(policy="keep-open", authorise=lambda call: call.request_id != 3)
    talk.hold = True
    talk.say(BAD, request("ping", 1), call(request_id=2), call(request_id=3), call("nobody", request_id=4))
    counts = talk.boundary.counts
    assert counts.pending == 1 and counts.balanced
    talk.boundary.complete(talk.held[0], "ok")
    talk.say(call(request_id=5), call(request_id=6), call(request_id=7))
    talk.boundary.fail(talk.held[1], RuntimeError("tok_SECRET"))
    talk.say(line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}))
    counts = talk.boundary.counts
    assert counts.rejected == {"json": 1, "method": 1}
    assert (counts.received, counts.refused, counts.denied) == (11, 2, 1)
    assert (counts.answered, counts.ignored) == (2, 2)
    assert (counts.executed, counts.failed, counts.cancelled, counts.pending) == (1, 1, 1, 1)
    assert counts.balanced


def test_unbalanced_counts_are_seen():
    """The check of the sum can fail."""
    from stdout_guard.recorder import Counts

    assert not Counts(received=2, executed=1).balanced
    assert not Counts(received=1, rejected={"json": 1}, denied=1).balanced
    assert Counts(received=3, rejected={"json": 1}, denied=1, pending=1).balanced


def test_tool_registered_twice():
    """Two tools of one name are an error."""
    with pytest.raises(ValueError, match="registered twice"):
        Boundary([Tool("a"), Tool("a")], lambda call: True)
