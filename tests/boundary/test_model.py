"""Fuzzing against a second opinion: no exception leaves the boundary, no action without a valid authorised frame.

The model below shares no code with the package: it judges one line with the standard library alone.
"""

import json
import math

import pytest
from boundary_talk import INITIALIZED, Talk, call, initialize, notification, request
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize as first, invariant, precondition, rule

from stdout_guard.boundary import AuthorizedAction, Reply, SessionClosed
from stdout_guard.testing.corpus import load

OPEN = initialize() + INITIALIZED


class Invalid(Exception):
    pass


def unique(pairs):
    if len({key for key, _value in pairs}) != len(pairs):
        raise Invalid
    return dict(pairs)


def invalid(text):
    raise Invalid


def whole(text):
    if len(text.lstrip("-")) > 308:
        raise Invalid
    return int(text)


def finite(text):
    if math.isinf(float(text)):
        raise Invalid
    return float(text)


def depth(value):
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(depth, below), default=0)


def authorised(name):
    return name == "deploy"


def judged_call(line):
    """(id, name, arguments) when this line, without its LF, is a valid call of a registered tool; else None."""
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
        if text.startswith("\ufeff") or "\r" in text or "\0" in text:
            return None
        value = json.loads(text, object_pairs_hook=unique, parse_constant=invalid, parse_int=whole, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode()
    except (Invalid, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or set(value) != {"jsonrpc", "id", "method", "params"} or depth(value) > 128:
        return None
    params = value["params"]
    if value["jsonrpc"] != "2.0" or value["method"] != "tools/call" or type(value["id"]) not in (int, str):
        return None
    if not isinstance(params, dict) or not set(params) <= {"name", "arguments", "_meta"}:
        return None
    name, arguments, meta = params.get("name"), params.get("arguments", {}), params.get("_meta", {})
    if name not in ("deploy", "other") or not isinstance(arguments, dict) or not isinstance(meta, dict):
        return None
    if type(meta.get("progressToken", 0)) not in (int, str):
        return None
    if not isinstance(arguments.get("target"), str) or not set(arguments) <= {"target", "tags", "more"}:
        return None
    if not isinstance(arguments.get("tags", []), list) or not isinstance(arguments.get("more", {}), dict):
        return None
    return value["id"], name, arguments


class Model:
    """Which calls of a stream are valid, authorised, and use an id nobody used before."""

    def __init__(self):
        self.tail = b""
        self.used = {(str, "init")}
        self.owed = []

    def feed(self, data):
        *lines, self.tail = (self.tail + data).split(b"\n")
        for line in lines:
            found = judged_call(line)
            if found is None or (type(found[0]), found[0]) in self.used:
                continue
            self.used.add((type(found[0]), found[0]))
            if authorised(found[1]):
                self.owed.append(found[1:])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
ids = st.integers(31, 60) | st.sampled_from(["0", "a", "init"]) | json_values
names = st.sampled_from(["deploy", "other", "deploy ", "DEPLOY", "nobody", ""]) | json_values
some_arguments = st.fixed_dictionaries(
    {"target": st.text(max_size=8)}, optional={"tags": st.lists(json_values, max_size=3), "more": json_values}
)
good_calls = st.builds(
    lambda request_id, arguments: call("deploy", request_id, arguments=arguments),
    st.integers(31, 10**6),
    some_arguments,
)
odd_calls = st.builds(
    lambda request_id, name, arguments: call(name, request_id, arguments=arguments),
    ids,
    names,
    some_arguments | json_values,
)
harmless = st.sampled_from(
    [
        request("ping", "ping-7f3a"),
        INITIALIZED,
        notification("notifications/cancelled", requestId=1),
        request("tools/list", "list-7f3a"),
    ]
)


#: Requests that are answered without being calls: they would use up ids behind the model's back.
ACCEPTED = (b'"ping"', b"setLevel")


def small_chunks():
    return [
        chunk
        for case in load()
        if case.framing == "ndjson" and len(case.record["chunks"]) < 9 and "gen" not in case.record["chunks"][0]
        for chunk in case.chunks
        if len(chunk) < 2000 and not any(word in chunk for word in ACCEPTED)
    ]


hostile = st.sampled_from(small_chunks())


tokens = st.sampled_from([b'"', b"{", b"}", b",", b"\n", b"\r", b"\\"])


@st.composite
def damaged(draw):
    """A valid call with bytes cut out, put in, changed or repeated."""
    data = bytearray(draw(good_calls | odd_calls))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["cut", "put", "change", "repeat", "swap"]))
        if kind == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif kind == "put":
            data[at:at] = draw(
                st.binary(min_size=1, max_size=4) | st.sampled_from([b'"', b"{", b"}", b",", b"\n", b"\r", b"\\"])
            )
        elif kind == "change" and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == "repeat":
            data[at:at] = data[at : at + draw(st.integers(1, 40))]
        else:
            data[at : at + 2] = data[at : at + 2][::-1]
    return bytes(data)


frames = good_calls | odd_calls | damaged() | harmless | hostile | st.binary(max_size=40) | st.just(b"\n")


def released(events):
    return [(event.name, event.arguments_copy()) for event in events if isinstance(event, AuthorizedAction)]


def check_stream(chunks, policy):
    """Feed the chunks; what was released must be what the model owes (close: the beginning of it)."""
    talk = Talk(authorise=lambda call: authorised(call.name), policy=policy, max_rejections=10**6)
    model, got = Model(), []
    for chunk in chunks:
        if talk.closed is None:
            model.feed(chunk)
        events = talk.events(chunk)
        got += released(events)
        assert talk.boundary.counts.balanced
        assert "internal-error" not in talk.reasons
        for event in events:
            assert isinstance(event, AuthorizedAction | Reply | SessionClosed) or type(event).__name__ == "Cancelled"
    talk.boundary.eof()
    if policy == "keep-open" and not (talk.closed and talk.closed.refused):
        assert got == model.owed
    else:
        assert got == model.owed[: len(got)]


@pytest.mark.parametrize("policy", ["close", "keep-open"])
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_valid_authorised_frames_become_actions(policy, data):
    """Whatever arrives, in whatever pieces: the actions are exactly those the model finds."""
    stream = b"".join(data.draw(st.lists(frames, min_size=1, max_size=6)))
    size = data.draw(st.sampled_from([1, 3, 17, 10**6]))
    check_stream([stream[at : at + size] for at in range(0, len(stream), size)], policy)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("policy", ["close", "keep-open"])
@given(data=st.data())
@settings(max_examples=40_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_only_valid_authorised_frames_become_actions_at_length(policy, data):
    """The same for as long as one likes."""
    stream = b"".join(data.draw(st.lists(frames, min_size=1, max_size=6)))
    check_stream([stream], policy)


@pytest.mark.parametrize("framing", ["ndjson", "content-length"])
@given(data=st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_no_bytes_are_an_exception(framing, data):
    """Noise alone, before any handshake, in either framing, under either policy."""
    for policy in ("close", "keep-open"):
        talk = Talk(handshake=None, framing=framing, policy=policy)
        assert released(talk.events(data)) == []
        talk.boundary.eof()
        assert talk.boundary.counts.balanced


class Sessions(RuleBasedStateMachine):
    """One session step by step: bytes in any pieces, results, failures and cancellations in between."""

    @first(policy=st.sampled_from(["close", "keep-open"]))
    def begin(self, policy):
        self.talk = Talk(authorise=lambda call: authorised(call.name), policy=policy, max_rejections=10**6)
        self.model, self.got, self.held = Model(), [], []
        self.keep = policy == "keep-open"

    def feed(self, data):
        open_before = self.talk.closed is None
        if open_before:
            self.model.feed(data)
        events = self.talk.events(data)
        if not open_before:
            assert events == [self.talk.closed]
        self.got += released(events)
        for event in events:
            if isinstance(event, AuthorizedAction):
                self.held.append(event)
            elif type(event).__name__ == "Cancelled" and not event.started:
                self.held.remove(event.action)

    @rule(frame=frames)
    def whole_frame(self, frame):
        self.feed(frame)

    @rule(frame=good_calls | damaged(), data=st.data())
    def frame_in_two_pieces(self, frame, data):
        at = data.draw(st.integers(0, len(frame)))
        self.feed(frame[:at])
        self.feed(frame[at:])

    @precondition(lambda self: self.held)
    @rule(data=st.data(), value=json_values)
    def complete_or_fail(self, data, value):
        action = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if isinstance(value, str) and data.draw(st.booleans()):
            try:
                self.talk.boundary.complete(action, value)
            except Exception as error:
                assert type(error).__name__ == "LocalProtocolError"
                self.talk.boundary.fail(action, error)
        else:
            self.talk.boundary.fail(action)
        with pytest.raises(Exception, match="not pending"):
            self.talk.boundary.fail(action)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def cancel(self, data):
        action = data.draw(st.sampled_from(self.held))
        self.feed(notification("notifications/cancelled", requestId=action.request_id))

    @invariant()
    def nothing_is_lost(self):
        counts = self.talk.boundary.counts
        assert counts.balanced
        assert counts.pending == len(self.held)
        assert "internal-error" not in self.talk.reasons

    @invariant()
    def actions_are_the_models(self):
        lost = self.talk.closed is not None
        assert self.got == (self.model.owed[: len(self.got)] if lost or not self.keep else self.model.owed)


Sessions.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSessions = Sessions.TestCase
