"""The short way of an ordinary call and the long way of everything say and do the same."""

import copy
import itertools
import json

import pytest
from boundary_talk import line
from hypothesis import given, settings, strategies as st

from stdout_guard._inbound import Session
from stdout_guard.boundary import AuthorizedAction, Boundary, Tool
from stdout_guard.recorder import Refusal

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "a"}}}
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
ODD = (
    None,
    True,
    False,
    0,
    7,
    -1,
    2**53,
    1.0,
    1.5,
    "",
    "7",
    "echo",
    "other",
    "2.0",
    "tools/call",
    "x" * 65,
    [],
    {},
    [1],
)
PLACES = [("jsonrpc",), ("id",), ("method",), ("params",), ("extra",), ("result",), ("error",)] + [
    ("params", name) for name in ("name", "arguments", "_meta", "task", "extra")
]
PLACES += [("params", "arguments", name) for name in ("text", "more")]


def valid(arguments):
    """Changes what it is given, too."""
    return isinstance(arguments.pop("text", None), str)


def told(event):
    """An event as data; of an action, everything that it carries."""
    if not isinstance(event, AuthorizedAction):
        return repr(event)
    names = ("name", "request_id", "revision", "client", "serial", "decision")
    return event.arguments_copy(), [(type(value), value) for value in (getattr(event, name) for name in names)]


def heard(frames, revision, opening, short):
    """Events, counts and audit of one session, opened so far, with or without the short way."""
    audit = list[Refusal]()
    tools = [Tool("echo", validate=valid), Tool("other", validate=lambda arguments: 1 / 0)]
    boundary = Boundary(
        tools,
        lambda call: call.arguments.get("more") != "denied",
        policy="keep-open",
        revision=revision if revision == REVISIONS[-1] else "auto",
        schema_errors="isError",
        audit=audit.append,
        clock=lambda: 0.0,
    )
    if not short:
        boundary._passage._session = Long(boundary._passage._session)
    info = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    hello = [{"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": info}]
    hello += [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    events = [told(event) for frame in [*map(line, hello[:opening]), *frames] for event in boundary.feed(frame)]
    records = [(one.stage, one.reason, one.id_type, one.size, one.tool, one.note) for one in audit]
    return events, boundary.counts, records, boundary.revision, boundary.closed


class Long:
    """A session that knows no ordinary call."""

    def __init__(self, session):
        object.__setattr__(self, "session", session)

    def __getattr__(self, name):
        return (lambda value: None) if name == "ordinary" else getattr(self.session, name)


def changed(place, value):
    """The call with one member changed, or taken out (value Ellipsis)."""
    message = copy.deepcopy(CALL)
    holder = message
    for name in place[:-1]:
        holder = holder[name]
    if value is ...:
        holder.pop(place[-1], None)
    else:
        holder[place[-1]] = value
    return message


def same(frames, revision, opening=2):
    assert heard(frames, revision, opening, True) == heard(frames, revision, opening, False)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_member_changed_once(revision):
    """Whatever one member of a call is, or when it is missing: both ways give the same events, counts and audit."""
    frames = [line(changed(place, value)) for place, value in itertools.product(PLACES, (*ODD, ...))]
    for frame in frames:
        same([frame, frame], revision)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("opening", [0, 1, 2])
def test_whenever_it_comes(revision, opening):
    """Before initialize, before initialized and after: both ways give the same."""
    same([line(CALL), line(CALL)], revision, opening)


def test_ordinary_call_takes_the_short_way(monkeypatch):
    """The short way is taken at all: else nothing here would compare it."""
    monkeypatch.setattr(Session, "judge", lambda *args: pytest.fail("the long way"))
    session = Session({"echo": Tool("echo", validate=valid)}, {}, {}, None, phase="ready")
    session.revision = "2025-11-25"
    assert session.ordinary(copy.deepcopy(CALL)).request_id == 7


values = st.recursive(
    st.sampled_from(ODD) | st.text(max_size=3) | st.sampled_from(["denied", float("nan"), 10**400, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def frames(draw):
    """A call with some members changed, its members in any order, and now and then some bytes of it too."""
    message = changed(draw(st.sampled_from(PLACES)), draw(values | st.just(...)))
    if isinstance(message.get("params"), dict) and draw(st.booleans()):
        message["params"]["arguments"] = draw(values)
    names = draw(st.permutations(list(message)))
    text = json.dumps({name: message[name] for name in names}, ensure_ascii=draw(st.booleans()))
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from(b'{}[]":,\\01 a\xff\r\n'))
    return bytes(data) + b"\n"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(frames(), min_size=1, max_size=4), st.sampled_from(REVISIONS), st.sampled_from([2, 2, 1, 0]))
def test_any_frames(sent, revision, opening):
    """Any frames, mutated ones too, with ids used again: both ways give the same events, counts and audit."""
    same(sent, revision, opening)
