"""An executor takes only what the boundary issued, and each action once."""

import asyncio
import copy
import dataclasses
import gc
import inspect
import pickle
import weakref

import pytest
from boundary_talk import Talk, call

from stdout_guard.boundary import AuthorizedAction, Decision, only_authorized
from stdout_guard.errors import LocalProtocolError
from stdout_guard.recorder import Recorder


@pytest.fixture
def talk():
    talk = Talk(authorise=lambda call: Decision(True, grant="credential-7"))
    talk.hold = True
    return talk


@pytest.fixture
def action(talk):
    talk.say(call(arguments={"target": "t", "tags": [1, [2]], "more": {"a": {"b": []}}}))
    return talk.held[0]


def test_action_carries_what_was_decided(action):
    """The executor gets name, arguments, decision, id, revision and client of one call."""
    assert (action.name, action.request_id, action.revision, action.client) == (
        "deploy",
        7,
        "2025-11-25",
        ("c", "1.0"),
    )
    assert action.decision == Decision(True, grant="credential-7")
    assert action.serial == 1
    assert "credential-7" not in repr(action.decision)
    assert repr(action) == "<AuthorizedAction #1 'deploy'>"


@pytest.mark.parametrize("fake", [None, {"name": "deploy", "arguments": {}}, "deploy", object(), ("deploy", {})])
def test_executor_refuses_everything_else(fake):
    """A dict, text or any other object is a TypeError before anything is executed."""
    ran = []
    door = only_authorized(ran.append)
    with pytest.raises(TypeError, match="takes an AuthorizedAction"):
        door(fake)
    with pytest.raises(TypeError):
        Recorder().execute(fake)
    assert ran == []


def test_only_a_boundary_makes_one():
    """Calling the class, subclassing it or filling an empty one by hand gives nothing an executor takes."""
    with pytest.raises(TypeError, match=r"^AuthorizedAction: only a Boundary makes one"):
        AuthorizedAction("deploy", {})
    with pytest.raises(TypeError, match=r"^AuthorizedAction: cannot be subclassed"):
        type("Mine", (AuthorizedAction,), {})
    forged = object.__new__(AuthorizedAction)
    for name in AuthorizedAction.__annotations__:
        object.__setattr__(forged, name, "x")
    with pytest.raises(TypeError, match="was not issued by a Boundary"):
        only_authorized(lambda action: None)(forged)


@pytest.mark.parametrize(
    ("duplicate", "message"),
    [
        (copy.copy, "^AuthorizedAction: a copy would run twice"),
        (copy.deepcopy, "^AuthorizedAction: a copy would run twice"),
        (pickle.dumps, "^AuthorizedAction: cannot be pickled"),
        (lambda action: dataclasses.replace(action, name="other"), "dataclass"),
    ],
    ids=["copy", "deepcopy", "pickle", "replace"],
)
def test_action_cannot_be_duplicated(action, duplicate, message):
    """Whatever would make a second permission out of one is a TypeError."""
    with pytest.raises(TypeError, match=message):
        duplicate(action)


def test_action_is_read_only(action):
    """No attribute of an action changes or goes away."""
    with pytest.raises(AttributeError, match="read-only"):
        action.name = "other"
    with pytest.raises(AttributeError, match="read-only"):
        del action.arguments
    with pytest.raises(AttributeError):
        action.decision.allowed = True


def test_arguments_are_deep_frozen(action):
    """Arguments are mappings and tuples all the way down; the plain copy belongs to whoever asked for it."""
    arguments = action.arguments
    with pytest.raises(TypeError):
        arguments["target"] = "u"
    with pytest.raises(TypeError):
        arguments["more"]["a"]["b"] = 1
    assert arguments["tags"] == (1, (2,))
    plain = action.arguments_copy()
    assert plain == {"target": "t", "tags": [1, [2]], "more": {"a": {"b": []}}}
    plain["tags"][1].append(3)
    assert action.arguments["tags"] == (1, (2,))


def test_action_is_executed_once(action):
    """The second execution is an error, also through another door."""
    ran = []
    only_authorized(ran.append)(action)
    with pytest.raises(LocalProtocolError, match="already executed"):
        only_authorized(ran.append)(action)
    assert ran == [action]


def test_fake_executor_answers(talk, action):
    """The recorder's own result is text; a given one is made from the action."""
    assert Recorder().execute(action) == "ok"
    talk.say(call(request_id=8))
    assert Recorder(lambda action: action.serial).execute(talk.held[1]) == 2


def test_answered_action_no_longer_runs(talk, action):
    """An action that was answered without being executed cannot be executed afterwards."""
    talk.boundary.fail(action)
    with pytest.raises(LocalProtocolError):
        only_authorized(lambda action: None)(action)


def test_wrapping_twice_is_wrapping_once(action):
    """A wrapped executor may be given to a loop that wraps it again."""
    ran = []
    only_authorized(only_authorized(ran.append))(action)
    assert ran == [action]


def test_async_executor_is_wrapped_too(action):
    """An async executor claims the action when it is awaited, once."""

    async def execute(action):
        return action.name

    door = only_authorized(execute)
    assert only_authorized(door) is door
    assert inspect.iscoroutinefunction(door)
    assert asyncio.run(door(action)) == "deploy"
    with pytest.raises(LocalProtocolError):
        asyncio.run(door(action))


def test_registry_keeps_no_action_alive():
    """An answered action is forgotten: the registry of issued actions does not grow with the session."""
    talk = Talk()
    talk.say(call())
    gone = weakref.ref(talk.held.pop())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("wrong", [{"name": "deploy"}, None, "deploy"])
def test_boundary_takes_back_actions_only(talk, wrong):
    """complete and fail are for actions; anything else is a TypeError."""
    with pytest.raises(TypeError, match="takes back the AuthorizedAction"):
        talk.boundary.complete(wrong, "x")
    with pytest.raises(TypeError, match="takes back the AuthorizedAction"):
        talk.boundary.fail(wrong)


def test_action_is_answered_once(talk, action):
    """Two answers to one id never reach the wire, and another boundary cannot answer for this one."""
    with pytest.raises(LocalProtocolError, match="not pending here"):
        Talk().boundary.complete(action, "x")
    talk.boundary.complete(action, "x")
    with pytest.raises(LocalProtocolError, match="not pending here"):
        talk.boundary.complete(action, "x")
    with pytest.raises(LocalProtocolError, match="not pending here"):
        talk.boundary.fail(action)
    assert talk.boundary.counts.executed == 1
    assert talk.boundary.counts.balanced


def test_wrapped_executor_keeps_its_name():
    """What a log or a debugger shows of a wrapped executor is the executor, plain and async."""

    def plain(action):
        """Says so."""

    async def later(action):
        """Says so too."""

    for execute in (plain, later):
        door = only_authorized(execute)
        assert door is not execute and only_authorized(door) is door
        assert (door.__name__, door.__doc__, door.__wrapped__) == (execute.__name__, execute.__doc__, execute)


def test_error_says_why_nothing_was_executed(action):
    """Which action, why, and the rule."""
    door = only_authorized(lambda action: None)
    with pytest.raises(TypeError) as wrong:
        door({})
    assert str(wrong.value) == (
        "executor: takes an AuthorizedAction from Boundary.feed, not dict; nothing was executed"
    )
    door(action)
    with pytest.raises(LocalProtocolError) as again:
        door(action)
    assert str(again.value) == "executor: action 'deploy' already executed; an action is executed at most once"
