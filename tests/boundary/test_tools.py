"""Tools are checked when they are registered; a validator can only refuse."""

import sys

import pytest
from boundary_talk import Talk, call, request

from stdout_guard.boundary import Tool
from stdout_guard.jsonrpc import Strictness
from stdout_guard.testing.refused import tripwire


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "target"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "array"},
        {},
        {"type": "object", "$ref": "https://example.invalid/schema.json"},
        {"type": "object", "properties": {"a": {"$ref": "other.json#/x"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "#anchor"}}},
        {"type": "object", "allOf": [{"$dynamicRef": "#node"}]},
        {"type": "object", "allOf": [{"$ref": "#/allOf/7"}]},
        {"type": "object", "allOf": [{}, {"$ref": "#/allOf/x"}, {}]},
        {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/other#/$defs/a"}}},
        {"type": "object", "allOf": [{"$recursiveRef": "https://example.invalid/x"}]},
        {"type": "object", "default": float("nan")},
    ],
)
def test_invalid_schema_is_an_error_at_registration(schema):
    """A schema that is invalid, is no object's, or leads elsewhere is found before any client calls."""
    with tripwire(), pytest.raises(ValueError, match=r"^tool 't': the|not JSON compliant"):
        Tool("t", schema=schema)


@pytest.mark.parametrize("name", ["", "a\nb", "a\0"])
def test_tool_name_is_printable(name):
    """A name that would break a log line is not registered."""
    with pytest.raises(ValueError, match="printable"):
        Tool(name)


def test_references_inside_the_schema_work():
    """Pointers, anchors and embedded ids resolve; so does a schema that refers to itself."""
    schema = {
        "type": "object",
        "properties": {
            "by_pointer": {"$ref": "#/$defs/a~1b"},
            "by_anchor": {"$ref": "#small"},
            "by_index": {"$ref": "#/$defs/list/anyOf/0"},
            "self": {"$ref": "#"},
            "by_id": {"$ref": "urn:example:embedded"},
            "by_id_and_anchor": {"$ref": "urn:example:embedded#/$defs/q"},
            "by_dynamic_anchor": {"$dynamicRef": "#node"},
            "tilde": {"$ref": "#/$defs/a~0b"},
        },
        "additionalProperties": False,
        "$defs": {
            "a/b": {"type": "integer"},
            "a~b": {"type": "boolean"},
            "e": {"$id": "urn:example:embedded", "type": "null", "$defs": {"q": {"const": 9}}},
            "n": {"$dynamicAnchor": "node", "enum": [7]},
            "s": {"$anchor": "small", "maximum": 3},
            "list": {"anyOf": [{"type": "string"}]},
        },
    }
    tool = Tool("t", schema=schema)
    assert tool.accepts({"by_pointer": 1, "by_anchor": 3, "by_index": "x", "self": {"self": {}}})
    assert tool.accepts({"by_id": None, "by_dynamic_anchor": 7, "tilde": True, "by_id_and_anchor": 9})
    for refused in ({"by_id": 1}, {"by_dynamic_anchor": 8}, {"tilde": 1}, {"by_id_and_anchor": 8}):
        assert not tool.accepts(refused)
    for refused in ({"by_pointer": "x"}, {"by_anchor": 4}, {"by_index": 1}, {"self": {"other": 1}}):
        assert not tool.accepts(refused)


def test_tool_without_schema_takes_no_arguments():
    """The default is the empty object."""
    tool = Tool("t")
    assert tool.accepts({}) and not tool.accepts({"a": 1})


def test_listing():
    """tools/list gets name, description, schema and what else was given; our copy is not theirs."""
    schema = {"type": "object", "properties": {"a": {}}}
    tool = Tool("t", schema=schema, description="d", listing={"title": "T", "name": "other"})
    schema["properties"]["b"] = {}
    assert tool.listed() == {
        "name": "t",
        "title": "T",
        "description": "d",
        "inputSchema": {"type": "object", "properties": {"a": {}}},
    }
    tool.listed()["inputSchema"]["x"] = 1
    assert "x" not in tool.listed()["inputSchema"]
    assert "description" not in Tool("t").listed()


@pytest.mark.parametrize("verdict", [None, True, 0, "anything"])
def test_validator_passes_by_not_refusing(verdict):
    """Any callable is a validator: what it returns is not used, unless it is False."""
    assert Tool("t", validate=lambda arguments: verdict).accepts({"a": 1})
    assert not Tool("t", validate=lambda arguments: False).accepts({"a": 1})


def test_validator_that_raises_refuses():
    """pydantic and others refuse by raising; a broken validator refuses as well."""
    for error in (ValueError, RecursionError, AttributeError):

        def validate(arguments, error=error):
            raise error("tok_SECRET")

        talk = Talk(tools=[Tool("deploy", validate=validate)])
        assert talk.code(call()) == -32602
        assert talk.recorder.stages == ["schema"] and talk.recorder.calls == []


def test_validator_cannot_change_the_call():
    """It works on a copy: what it adds or coerces is not what the executor gets."""

    def validate(arguments):
        arguments["target"] = "other"
        arguments["tags"].append("more")

    talk = Talk(tools=[Tool("deploy", validate=validate)])
    talk.say(call(arguments={"target": "t", "tags": [1]}))
    assert talk.recorder.calls == [("deploy", {"target": "t", "tags": [1]})]


def test_schema_needs_jsonschema_and_says_so(monkeypatch):
    """Without the extra, a schema is an error that names it; a callable needs nothing."""
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    with pytest.raises(RuntimeError, match=r"stdout-guard\[boundary\]"):
        Tool("t")
    assert Tool("t", validate=lambda arguments: None).accepts({})


@pytest.mark.parametrize("depth", [100, 300, 500, 900, 3000, 50_000])
def test_nesting_is_never_an_exception(depth):
    """With the depth limit switched off, whatever gives up first refuses: no exception, no call."""
    talk = Talk(strictness=Strictness(max_depth=1_000_000), authorise=lambda call: False)
    frame = call(arguments={"target": "t", "tags": 0}).replace(b'"tags":0', b'"tags":' + b"[" * depth + b"]" * depth)
    talk.say(frame)
    assert len(talk.recorder.refusals) == 1
    assert talk.boundary.counts.balanced


@pytest.mark.parametrize("part", ["decide", "classify"], ids=["the ordinary call", "all else"])
def test_fault_inside_the_boundary_closes_it(monkeypatch, part):
    """A defect of our own must not become the peer's way through: -32603, closed, nothing executed."""
    talk = Talk(policy="keep-open")
    monkeypatch.setattr(f"stdout_guard._passage.{part}", lambda *args: 1 / 0)
    first = call() if part == "decide" else request("ping", 7)
    assert talk.code(first, call(request_id=8)) == -32603
    assert talk.reasons == ["internal-error"]
    assert talk.closed is not None and talk.recorder.calls == []
