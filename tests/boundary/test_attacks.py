"""What a hostile peer, or a careless callable of our own side, tries beyond the corpus: one kind of trick a test."""

import json
import types
from unittest.mock import Mock

import pytest
from boundary_adapter import messages
from boundary_talk import INITIALIZED, META, MODERN_META, Talk, call, initialize, line, notification, request

from stdout_guard.boundary import (
    DENIED,
    AuthorizedAction,
    Boundary,
    Cancelled,
    Decision,
    Reply,
    SessionClosed,
    Tool,
    only_authorized,
)
from stdout_guard.jsonrpc import Strictness

SECRET = "tok_SECRET_hx"


# ------------------------------------------------------------------------------------------- callables of our own side


class Truthy:
    """Says yes to everything, and claims to be a decision."""

    allowed = True
    reason = "trust me"
    grant = None
    __class__ = Decision

    def __bool__(self):
        return True

    def __eq__(self, other):
        return True

    __hash__ = None


class Fickle(Decision):
    """A decision whose class answers anew each time it is asked."""

    asked = 0

    def __getattribute__(self, name):
        if name == "allowed":
            Fickle.asked += 1
            return Fickle.asked == 1
        return super().__getattribute__(name)


class Broken(Decision):
    """A decision that cannot be read."""

    def __getattribute__(self, name):
        if name in ("allowed", "reason"):
            raise RuntimeError(SECRET)
        return super().__getattribute__(name)


async def later(call):
    return True


@types.coroutine
def generator(call):
    yield
    return True


@pytest.mark.parametrize(
    "verdict",
    [1, 1.0, "yes", [True], {"allowed": True}, (True, "x"), object(), Truthy(), Mock(spec=Decision, allowed=True), ...],
    ids=lambda verdict: type(verdict).__name__,
)
def test_only_true_or_a_decision_allows(verdict):
    """What is merely true, looks like a decision or says it is one denies; the session stays open."""
    talk = Talk(authorise=lambda call: verdict)
    assert talk.code(call()) == DENIED
    assert talk.recorder.calls == [] and talk.closed is None


@pytest.mark.parametrize("authorise", [later, generator, lambda call: Broken(True), lambda call: iter([True])])
def test_an_answer_that_cannot_be_read_denies(authorise, recwarn):
    """A coroutine is not an answer, nor is a decision that raises; its text stays here, and nothing warns later."""
    talk = Talk(authorise=authorise)
    assert talk.code(call()) == DENIED
    assert talk.recorder.calls == [] and talk.closed is None
    assert SECRET not in repr(talk.recorder.refusals)
    assert not recwarn.list


def test_a_decision_is_read_once():
    """The executor gets the decision that was taken, in our own class, whatever the authoriser's class does later."""
    Fickle.asked = 0
    talk = Talk(authorise=lambda call: Fickle(True, "once", {"credential": "preview"}))
    talk.hold = True
    talk.say(call())
    (action,) = talk.held
    assert type(action.decision) is Decision
    assert (action.decision.allowed, action.decision.reason) == (True, "once")
    assert action.decision.grant == {"credential": "preview"}


def test_reason_of_a_denial_is_text_in_the_audit():
    """A reason that is no text becomes one; a denial carries no grant to the audit."""
    talk = Talk(authorise=lambda call: Decision(False, ["not", "text"], grant=SECRET))
    assert talk.code(call()) == DENIED
    assert talk.recorder.refusals[0].note == "['not', 'text']"
    assert SECRET not in json.dumps(talk.recorder.refusals[0].as_dict())


@pytest.mark.parametrize("kind", [Decision, type("Mine", (Decision,), {})])
def test_a_decision_that_allows_is_plain_text_and_its_grant(kind):
    """Its reason becomes text, its grant reaches the executor; one that is not exactly true allows nothing."""
    talk = Talk(authorise=lambda call: kind(True, 5, "grant"))
    talk.hold = True
    talk.say(call())
    assert talk.held[0].decision == Decision(True, "5", "grant")
    assert type(talk.held[0].decision) is Decision
    for allowed in (1, "yes", None):
        refused = Talk(authorise=lambda call, allowed=allowed: kind(allowed, "because"))
        assert refused.code(call()) == DENIED
        assert refused.recorder.refusals[0].note == "because"


def test_authoriser_cannot_change_what_it_sees():
    """Nothing of the call can be set, and what it keeps is not what the executor gets changed through."""
    seen = []

    def authorise(asked):
        for attribute in ("name", "arguments", "request_id"):
            with pytest.raises(AttributeError):
                setattr(asked, attribute, "other")
            with pytest.raises(AttributeError):
                object.__setattr__(asked, attribute, "other")
        with pytest.raises(TypeError):
            asked.arguments["target"] = "other"
        with pytest.raises((TypeError, AttributeError)):
            asked.arguments["tags"].append("x")
        seen.append(asked)
        return True

    talk = Talk(authorise=authorise)
    talk.say(call(arguments={"target": "t", "tags": []}))
    assert talk.recorder.calls == [("deploy", {"target": "t", "tags": []})]
    assert seen[0]._fields == ("name", "arguments", "request_id", "revision", "client")


async def validate_later(arguments):
    return True


def test_async_validator_is_refused_at_registration():
    """It would answer with a coroutine that nobody awaits, which is not False: everything would pass."""
    with pytest.raises(ValueError, match="validate is async"):
        Tool("t", validate=validate_later)


def test_validator_that_answers_with_a_coroutine_refuses(recwarn):
    """The same through a plain callable: nobody awaits it, so it has judged nothing."""
    talk = Talk(tools=[Tool("deploy", validate=lambda arguments: validate_later(arguments))])
    assert talk.code(call()) == -32602
    assert talk.recorder.stages == ["schema"] and talk.recorder.calls == []
    assert not recwarn.list


def test_validator_keeps_and_changes_its_arguments_later():
    """It may hold on to what it was given: that is its own."""
    kept = []
    tool = Tool("deploy", validate=lambda arguments: kept.append(arguments))
    talk = Talk(tools=[tool])
    talk.hold = True
    talk.say(call(arguments={"target": "t", "more": {"a": [1]}}))
    kept[0]["more"]["a"].append("evil")
    kept[0].clear()
    assert talk.held[0].arguments_copy() == {"target": "t", "more": {"a": [1]}}


def test_a_mock_is_not_taken_for_a_wrapped_executor():
    """A mock has every attribute, that of a wrapped executor too: a dict still does not get through."""
    executor = Mock(return_value="ok")
    door = only_authorized(executor)
    with pytest.raises(TypeError, match="takes an AuthorizedAction"):
        door({"name": "deploy"})
    executor.assert_not_called()


class Interrupt(BaseException):
    pass


@pytest.mark.parametrize("where", ["authorise", "validate", "audit"])
def test_interrupt_in_a_callable_closes(where):
    """An interrupt comes out of feed; what was read behind the frame is lost, so nothing more is taken."""

    def interrupt(_given):
        raise Interrupt

    settings = {
        "authorise": {"authorise": interrupt},
        "validate": {"tools": [Tool("deploy", validate=interrupt)]},
        "audit": {"audit": interrupt, "policy": "keep-open", "authorise": lambda call: False},
    }
    talk = Talk(**settings[where])
    with pytest.raises(Interrupt):
        talk.events(call(), call(request_id=8))
    assert talk.closed == SessionClosed("interrupted", False)
    assert talk.events(call(request_id=9)) == [talk.closed]
    assert talk.boundary.eof() == [talk.closed]
    assert talk.recorder.calls == []


@pytest.mark.parametrize("end", [lambda boundary: boundary.eof(), lambda boundary: boundary.feed(b"oops\n")])
def test_session_that_a_callable_ends_takes_nothing_more(end):
    """An authoriser or a sink that ends the session from within: what was read behind the frame is not taken."""
    talk = Talk(authorise=lambda call: end(talk.boundary) is None, policy="close")
    events = talk.events(call(), call(request_id=8), b"oops\n")
    assert talk.closed is not None and not any(isinstance(event, AuthorizedAction) for event in events)
    assert sum(isinstance(event, SessionClosed) for event in events) == 0
    assert talk.events(call(request_id=9)) == [talk.closed]
    assert talk.boundary.counts.balanced


# --------------------------------------------------------------------------------------------------- actions of others


def test_no_way_of_copying_gives_a_second_permission():
    """Filling an empty action with a true one's attributes, or going round the class's own refusals, is a TypeError."""
    talk = Talk()
    talk.hold = True
    talk.say(call())
    (action,) = talk.held
    forged = object.__new__(AuthorizedAction)
    for name in AuthorizedAction.__annotations__:
        object.__setattr__(forged, name, getattr(action, name))
    ran = []
    with pytest.raises(TypeError, match="was not issued"):
        only_authorized(ran.append)(forged)
    with pytest.raises(Exception, match="not pending here"):
        talk.boundary.complete(forged, "x")
    with pytest.raises(Exception, match="None is not pending here"):
        talk.boundary.complete(object.__new__(AuthorizedAction), "x")
    make, arguments, *_state = object.__reduce_ex__(action, 2)
    with pytest.raises(TypeError):
        make(*arguments)
    with pytest.raises(TypeError):
        object.__setattr__(action, "__class__", dict)
    with pytest.raises(TypeError):
        type.__new__(type, "Mine", (AuthorizedAction,), {})
    only_authorized(ran.append)(action)
    assert ran == [action]


def test_equal_ids_of_two_sessions_are_two_permissions():
    """An action belongs to the boundary that released it, though another has the same id in flight."""
    mine, other = Talk(), Talk()
    for talk in (mine, other):
        talk.hold = True
        talk.say(call())
    with pytest.raises(Exception, match="not pending here"):
        mine.boundary.complete(other.held[0], "x")
    assert mine.boundary.counts.pending == other.boundary.counts.pending == 1


# ----------------------------------------------------------------------------------------------------- hostile sessions


def test_call_and_its_cancellation_in_one_read():
    """Both events come in their order; the executor refuses the action, and no answer is owed."""
    talk = Talk()
    action, cancelled = talk.events(call(), notification("notifications/cancelled", requestId=7))
    assert cancelled == Cancelled(action, False)
    with pytest.raises(Exception, match="cancelled by the client"):
        talk.recorder.execute(action)
    assert talk.recorder.calls == [] and talk.boundary.counts.cancelled == 1


@pytest.mark.parametrize("request_id", [True, 7.0, None, [7], {"a": 7}, "7"])
def test_cancellation_with_another_type_of_id_takes_nothing_back(request_id):
    """7 is neither "7" nor 7.0 nor true; what is no id at all is refused, and never answered."""
    talk = Talk(policy="keep-open", handshake="2025-06-18")
    (action,) = talk.events(call())
    assert talk.events(notification("notifications/cancelled", requestId=request_id)) == []
    talk.recorder.execute(action)
    assert messages(talk.boundary.complete(action, "x"))[0]["id"] == 7


def test_flood_of_cancellations_is_linear():
    """Ten thousand actions that wait, each cancelled: found by its id, not by looking through all."""
    talk = Talk()
    frames = [call(request_id=number) for number in range(3000)]
    actions = talk.events(*frames)
    cancels = [notification("notifications/cancelled", requestId=number) for number in range(3000)]
    events = talk.events(*cancels)
    assert [event.action for event in events] == actions
    assert talk.boundary.counts.cancelled == 3000 and talk.boundary.counts.pending == 0


def test_handshake_of_the_other_era_does_not_switch_a_session():
    """With unknown methods merely noted, initialize is still no method of a session that has no handshake."""
    lenient = Strictness(unknown_methods="note")
    talk = Talk(handshake=None, policy="keep-open", strictness=lenient)
    assert "result" in talk.say(call(meta=MODERN_META))[0]
    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    (reply,) = talk.say(request("initialize", 8, meta=MODERN_META, **params))
    assert reply["error"]["code"] == -32601
    assert talk.boundary.revision == "2026-07-28"
    assert "result" in talk.say(call(request_id=9, meta=MODERN_META))[0]


@pytest.mark.parametrize(
    "version", [SECRET, "2026-07-28\n" + SECRET, "20" + SECRET, "2026-07-28" * 9, "x" * 60, "\uff12\uff1026-07-28"]
)
def test_what_is_no_date_is_not_repeated(version):
    """-32022 names the version that was asked for when it looks like one; other text of the peer's stays out."""
    meta = {**MODERN_META, META + "protocolVersion": version}
    (reply,) = Talk(handshake=None).say(request("server/discover", 1, meta=meta))
    assert reply["error"]["code"] == -32022
    assert reply["error"]["data"]["requested"] == ""


@pytest.mark.parametrize("version", ["2027-01-01", "DRAFT-2026-v1"])
def test_version_that_was_asked_for_is_named(version):
    """MCP 2026-07-28: data.requested."""
    meta = {**MODERN_META, META + "protocolVersion": version}
    (reply,) = Talk(handshake=None).say(request("server/discover", 1, meta=meta))
    assert reply["error"]["data"]["requested"] == version


LEAKS = [
    call(SECRET),
    call(arguments={"target": 1, SECRET: SECRET}),
    call(**{SECRET: SECRET}),
    request(SECRET, 7),
    notification(SECRET),
    notification("notifications/cancelled", requestId=7, reason=[SECRET]),
    line({"jsonrpc": "2.0", "id": 7, "method": "ping", SECRET: SECRET}),
    line({"jsonrpc": SECRET, "id": 7, "method": "ping"}),
    line({"jsonrpc": "2.0", "id": {"x": SECRET}, "method": "ping"}),
    line({"jsonrpc": "2.0", "id": 7, "result": {"x": SECRET}}),
    line({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": SECRET}}),
    line({"jsonrpc": "2.0", "id": 7, "error": {"code": SECRET, "message": SECRET}}),
    line([SECRET]),
    line(SECRET),
    f'{{"{SECRET}":1,"{SECRET}":2}}\n'.encode(),
    f"{SECRET}\n".encode(),
    f'{{"x":"{SECRET}\n'.encode(),
    f"Authorization: Bearer {SECRET}\r\n".encode(),
    f'{{"x":{SECRET}}}\n'.encode(),
    request("tools/call", 7, name="deploy", arguments=SECRET),
    request("initialize", 8, protocolVersion=SECRET, clientInfo={"name": SECRET, "version": SECRET}),
    request("logging/setLevel", 8, level=SECRET),
    request("resources/read", 8, uri=SECRET),
    call(meta={"progressToken": [SECRET]}),
]


@pytest.mark.parametrize("frame", LEAKS, ids=range(len(LEAKS)))
def test_nothing_of_the_peer_is_in_audit_reply_or_ending(frame):
    """Neither names, values nor text of what was refused: codes of ours, sizes and a keyed fingerprint."""
    talk = Talk()
    events = talk.events(frame)
    assert talk.recorder.refusals and talk.recorder.calls == []
    told = b"".join(event.data for event in events if isinstance(event, Reply)).decode()
    told += repr([refusal.as_dict() for refusal in talk.recorder.refusals]) + repr(talk.closed)
    assert SECRET not in told


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("size", [1, 2, 99, 100, 101])
def test_batches_by_revision(revision, size):
    """An array is a batch under 2025-03-26 alone, up to a hundred; everywhere else nothing of it happens."""
    talk = Talk(handshake=None, revision=revision, policy="keep-open")
    meta = {"_meta": MODERN_META} if revision == "2026-07-28" else {}
    if not meta:
        talk.say(initialize(revision) + INITIALIZED)
    members = [json.loads(call(request_id=number, **meta)) for number in range(size)]
    talk.say(line(members))
    runs = size if revision == "2025-03-26" and size <= 100 else 0
    assert talk.recorder.names == ["deploy"] * runs
    assert len(talk.recorder.refusals) == (0 if runs else 1)
    assert "result" in talk.say(call(request_id="after", **meta))[0]


@pytest.mark.parametrize("revision", ["auto", "2024-11-05", "2026-07-28"])
def test_no_method_passes_before_a_session_is_open(revision):
    """Before the handshake (or with no version in _meta) nothing but its own requests is taken, and nothing runs."""
    for frame in (call(), request("tools/list", 1), notification("notifications/initialized"), INITIALIZED + call()):
        talk = Talk(handshake=None, revision=revision)
        assert not any(isinstance(event, AuthorizedAction) for event in talk.events(frame))
        assert talk.recorder.refusals


def test_settings_that_make_no_sense():
    """No authoriser is no permission: there is no default that allows."""
    with pytest.raises(ValueError, match="authorise must be a callable"):
        Boundary([Tool("t")], True)
