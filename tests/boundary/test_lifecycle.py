"""What may come when: initialize, initialized, ping, ids, and the revision without a handshake."""

import pytest
from boundary_talk import INITIALIZED, META, MODERN_META, Talk, call, initialize, line, notification, request

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("revision", LEGACY)
def test_handshake_negotiates_what_was_asked_for(revision):
    """A known revision is agreed to, and the session is open after initialized."""
    talk = Talk(handshake=None, server=("gate", "3"))
    (reply,) = talk.say(initialize(revision))
    assert reply["id"] == "init"
    assert reply["result"]["protocolVersion"] == revision
    assert reply["result"]["serverInfo"] == {"name": "gate", "version": "3"}
    assert reply["result"]["capabilities"] == {"tools": {}}
    assert talk.say(INITIALIZED) == []
    assert talk.boundary.revision == revision
    talk.say(call())
    assert talk.recorder.names == ["deploy"]


@pytest.mark.parametrize("asked", ["1900-01-01", "2026-07-28", "2030-01-01", ""])
def test_unknown_revision_is_answered_with_the_newest_legacy_one(asked):
    """initialize with a version we do not speak: the server names its own, the client decides (MCP lifecycle)."""
    talk = Talk(handshake=None)
    (reply,) = talk.say(initialize(asked))
    assert reply["result"]["protocolVersion"] == "2025-11-25"


def test_pinned_revision_answers_with_itself():
    """A server of one revision answers initialize with that one, whatever was asked."""
    talk = Talk(handshake=None)
    pinned = type(talk.boundary)([], lambda call: True, revision="2025-06-18")
    (reply, *_rest) = pinned.feed(initialize("2025-11-25"))
    assert b'"protocolVersion":"2025-06-18"' in reply.data
    assert pinned.revision == "2025-06-18"


@pytest.mark.parametrize(
    ("frames", "reason", "code"),
    [
        ([call()], "before-initialize", -32600),
        ([request("tools/list")], "before-initialize", -32600),
        ([request("no/such")], "before-initialize", -32600),
        ([INITIALIZED], "before-initialize", None),
        ([notification("notifications/cancelled", requestId=1)], "before-initialize", None),
        ([initialize(), call()], "before-initialized", -32600),
        ([initialize(), INITIALIZED, initialize(request_id=2)], "initialize-twice", -32600),
        ([initialize(), initialize(request_id=2)], "initialize-twice", -32600),
    ],
)
def test_out_of_order(frames, reason, code):
    """initialize comes first and once; nothing is executed before initialized."""
    talk = Talk(handshake=None)
    for frame in frames[:-1]:
        talk.say(frame)
    assert talk.code(frames[-1]) == code
    assert talk.reasons == [reason]
    assert talk.recorder.stages == ["session"]
    assert talk.closed is not None and talk.recorder.calls == []


@pytest.mark.parametrize("info", [{}, {"name": "c"}, {"version": "1"}, {"name": 1, "version": "1"}])
def test_client_names_itself(info):
    """clientInfo has a name and a version; what is refused leaves the session unopened, and its id unused."""
    talk = Talk(handshake=None, policy="keep-open")
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    (reply,) = talk.say(request("initialize", 1, **params))
    assert (reply["error"]["code"], reply["id"]) == (-32602, 1)
    assert (talk.recorder.stages, talk.reasons) == (["method"], ["params-member"])
    assert "result" in talk.say(initialize(request_id=1))[0]


def test_requests_without_effect_are_answered_before_initialized():
    """Between initialize and initialized a real client already asks for things that execute nothing (rust-sdk#730)."""
    talk = Talk(handshake=None)
    talk.say(initialize())
    for number, method, params in [(2, "logging/setLevel", {"level": "info"}), (3, "ping", {}), (4, "tools/list", {})]:
        (reply,) = talk.say(request(method, number, **params))
        assert "result" in reply and reply["id"] == number
    assert talk.closed is None


def test_ping_before_initialize():
    """The client may ping before initialization (python-sdk#1311); its id is then used up."""
    talk = Talk(handshake=None)
    assert talk.say(request("ping", 1)) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert talk.say(initialize(request_id=2))[0]["id"] == 2
    assert talk.closed is None


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/roots/list_changed"])
def test_notifications_are_never_answered(method):
    """A notification is taken and nothing is said; initialized once more changes nothing."""
    talk = Talk()
    assert talk.say(notification(method)) == []
    assert talk.boundary.counts.ignored == 2
    assert talk.closed is None


@pytest.mark.parametrize(
    "frame",
    [
        notification("notifications/progress", progressToken=True, progress=1),
        notification("notifications/cancelled", requestId=None),
        notification("notifications/vendor/x"),
        notification("window/logMessage"),
        notification("tools/call", name="deploy", arguments={"target": "t"}),
        line({"jsonrpc": "2.0", "method": "notifications/initialized", "params": []}),
        line({"jsonrpc": "1.0", "method": "notifications/initialized"}),
    ],
)
def test_bad_notification_is_refused_in_silence(frame):
    """What nobody may answer is refused, counted and not answered."""
    talk = Talk()
    assert talk.say(frame) == []
    assert len(talk.recorder.refusals) == 1
    assert talk.recorder.calls == []


def test_tools_list_shows_what_is_registered():
    """tools/list is answered from the registration; no cursor was ever given out."""
    talk = Talk()
    (reply,) = talk.say(request("tools/list"))
    assert reply["result"].keys() == {"tools"}
    assert [tool["name"] for tool in reply["result"]["tools"]] == ["deploy", "other"]
    assert reply["result"]["tools"][0]["inputSchema"]["required"] == ["target"]
    assert talk.code(request("tools/list", 2, cursor="x")) == -32602


def test_method_the_server_does_not_offer_keeps_the_session():
    """A client asks for what this revision knows and this server lacks: -32601, and it may go on."""
    talk = Talk()
    assert talk.code(request("prompts/list", 1)) == -32601
    assert talk.reasons == ["not-offered"]
    assert talk.closed is None


def test_constant_answers():
    """Further methods are answered with data that was given at the start, never with code."""
    talk = Talk(answers={"prompts/list": {"prompts": []}})
    (reply,) = talk.say(request("prompts/list", 1))
    assert reply["result"] == {"prompts": []}
    assert talk.boundary.counts.answered == 2


# ----------------------------------------------------------------------------------------------------------------- ids


def test_id_is_never_used_twice_in_a_legacy_session():
    """An id is not used again by the same requestor; the reply to a reuse carries no id that could be confused."""
    talk = Talk()
    talk.say(call(request_id=7))
    (reply,) = talk.say(call("other", request_id=7))
    assert reply["error"]["code"] == -32600 and "id" not in reply
    assert talk.reasons == ["id-reused"]
    assert talk.recorder.names == ["deploy"]


@pytest.mark.parametrize("first", [7, "7", -1, 0, "", "i" * 300, 2**70])
def test_ids_of_every_kind_are_remembered(first):
    """Strings and integers, short and long: each is used up by one request."""
    talk = Talk()
    (reply,) = talk.say(call(request_id=first))
    assert reply["id"] == first and type(reply["id"]) is type(first)
    assert talk.code(call(request_id=first)) == -32600


def test_seven_and_text_seven_differ():
    """7 and "7" are two ids."""
    talk = Talk()
    assert [reply["id"] for reply in talk.say(call(request_id=7), call(request_id="7"))] == [7, "7"]
    assert len(talk.recorder.calls) == 2


def test_long_ids_that_differ_late_are_two_ids():
    """Long ids are remembered by digest, not by prefix."""
    talk = Talk()
    assert len(talk.say(call(request_id="i" * 200 + "a"), call(request_id="i" * 200 + "b"))) == 2


def test_refused_request_does_not_use_up_its_id():
    """Nothing is inherited from a refused request, not even its id."""
    talk = Talk(policy="keep-open")
    assert talk.code(call("nobody", request_id=7)) == -32602
    assert "result" in talk.say(call(request_id=7))[0]


def test_ids_are_remembered_up_to_a_bound():
    """The memory of ids does not grow without end: the oldest of 65,536 is forgotten, ids in flight never are."""
    from stdout_guard._outcomes import IdMemory

    memory = IdMemory()
    for number in range(65_537):
        memory.add(number)
    assert 0 not in memory and 1 in memory and 65_536 in memory


# -------------------------------------------------------------------------------------------------- without handshake


def modern(request_id=1, meta=None, **settings):
    return call(request_id=request_id, meta=MODERN_META if meta is None else meta, **settings)


@pytest.mark.parametrize("revision", ["auto", "2026-07-28"])
def test_modern_call_needs_no_handshake(revision):
    """2026-07-28: every request says its version and capabilities, and every result that it is complete."""
    talk = Talk(handshake=None, revision=revision)
    (reply,) = talk.say(modern())
    assert reply["result"]["resultType"] == "complete"
    assert talk.recorder.names == ["deploy"]
    assert talk.held[0].revision == "2026-07-28"
    assert talk.boundary.revision == "2026-07-28"


def test_modern_client_is_named_by_the_request():
    """The client of an action is what this request said of itself."""
    talk = Talk(handshake=None)
    talk.say(modern(meta={**MODERN_META, META + "clientInfo": {"name": "n", "version": "9"}}))
    talk.say(modern(2), modern(3, meta={**MODERN_META, META + "clientInfo": {"name": "n"}}))
    assert [action.client for action in talk.held] == [("n", "9"), None, None]


@pytest.mark.parametrize("revision", ["auto", "2026-07-28"])
def test_discover_is_answered_and_decides_nothing(revision):
    """server/discover is the probe of newer clients: afterwards an undecided server can still be opened either way."""
    talk = Talk(handshake=None, revision=revision)
    (reply,) = talk.say(request("server/discover", 1, meta=MODERN_META))
    result = reply["result"]
    assert result["resultType"] == "complete" and result["ttlMs"] == 0 and result["cacheScope"] == "private"
    assert result["capabilities"] == {"tools": {}}
    assert result["_meta"][META + "serverInfo"]["name"] == "stdout-guard-boundary"
    assert result["supportedVersions"] == ([*LEGACY, "2026-07-28"] if revision == "auto" else ["2026-07-28"])
    if revision == "auto":
        assert talk.say(initialize(request_id=2))[0]["result"]["protocolVersion"] == "2025-11-25"
    assert talk.say(request("ping", 3)) if revision == "auto" else talk.say(modern(1))


def test_probe_of_a_legacy_server_does_not_end_the_session():
    """A server pinned to an older revision answers the probe with -32601 and waits for initialize."""
    talk = Talk(handshake=None, revision="2025-06-18")
    assert talk.code(request("server/discover", 1, meta=MODERN_META)) == -32601
    assert talk.reasons == ["not-in-revision"]
    assert talk.say(initialize(request_id=2))[0]["result"]["protocolVersion"] == "2025-06-18"
    assert talk.closed is None


def test_pinned_legacy_server_needs_a_handshake_whatever_meta_says():
    """_meta does not open a session that was pinned to a revision with a handshake."""
    talk = Talk(handshake=None, revision="2025-11-25")
    assert talk.code(modern()) == -32600
    assert talk.reasons == ["before-initialize"]


def test_legacy_version_in_meta_does_not_open_a_session():
    """Only a revision without a handshake is opened by _meta."""
    talk = Talk(handshake=None)
    assert talk.code(modern(meta={**MODERN_META, META + "protocolVersion": "2025-11-25"})) == -32600
    assert talk.reasons == ["before-initialize"]


def test_unsupported_version_says_what_is_supported():
    """-32022 with data.supported and data.requested; the client may choose again."""
    talk = Talk(handshake=None, revision="2026-07-28")
    (reply,) = talk.say(modern(meta={**MODERN_META, META + "protocolVersion": "2099-01-01"}))
    assert reply["error"]["code"] == -32022
    assert reply["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    assert talk.say(modern(2))[0]["id"] == 2


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (call(request_id=1), -32602),
        (call(request_id=1, meta={META + "protocolVersion": "2026-07-28"}), -32602),
        (call(request_id=1, meta={**MODERN_META, META + "protocolVersion": 2026}), -32602),
        (call(request_id=1, meta={**MODERN_META, META + "clientCapabilities": []}), -32602),
        (initialize(request_id=1), -32601),
        (request("ping", 1, meta=MODERN_META), -32601),
        (request("logging/setLevel", 1, level="info", meta=MODERN_META), -32601),
        (notification("notifications/initialized"), None),
        (line({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}}), None),
    ],
)
def test_modern_session_refuses_what_is_gone(frame, code):
    """No initialize, no ping, no answers of the client, and never a request without its _meta."""
    talk = Talk(handshake=None, revision="2026-07-28")
    assert talk.code(frame) == code
    assert talk.recorder.stages == ["method"]
    assert talk.closed is not None


def test_modern_ids_need_only_differ_from_those_in_flight():
    """An id may come again once it is answered; while it is in flight it may not."""
    talk = Talk(handshake=None, revision="2026-07-28", policy="keep-open")
    talk.say(modern(1))
    talk.say(modern(1))
    assert len(talk.recorder.calls) == 2
    talk.hold = True
    talk.say(modern(1))
    assert talk.code(modern(1)) == -32600
    assert talk.reasons == ["id-reused"]
    talk.boundary.complete(talk.held[-1], "done")
    talk.say(modern(1))
    assert len(talk.held) == 4


def test_denied_id_is_no_longer_in_flight():
    """A denial is the answer to its request: the id may come again."""
    talk = Talk(handshake=None, revision="2026-07-28", authorise=lambda call: False)
    assert talk.code(modern(1)) == talk.code(modern(1)) == -31403
    assert talk.closed is None


def test_modern_session_stays_modern():
    """Once opened without a handshake, a call without _meta is refused."""
    talk = Talk(handshake=None)
    talk.say(modern(1))
    assert talk.code(call(request_id=2)) == -32602
    assert talk.reasons == ["meta"]


def test_unknown_revision_is_a_setting_error():
    """A boundary cannot be made for a revision nobody knows."""
    with pytest.raises(ValueError, match="unknown revision"):
        Talk(handshake=None, revision="2031-01-01")
