"""The method tables say what the published schemas say."""

import json
from pathlib import Path
from typing import Any

import pytest
from wire.tables import DATA

from stdout_guard import _mcp_methods
from stdout_guard.revisions import LEVELS, MCP_REVISIONS, META, Revision, revision_named

UNIONS = {
    "ServerRequest": ("requests", "server-to-client"),
    "ServerNotification": ("notifications", "server-to-client"),
    "ClientRequest": ("requests", "client-to-server"),
    "ClientNotification": ("notifications", "client-to-server"),
}
# members that are checked for every message, or on another level
ELSEWHERE = {"_meta"}
# the schema leaves these to a union of shapes; the table holds what the shapes have in common
UNION_PARAMS = {"elicitation/create": {"message": "string"}}


class Schema:
    def __init__(self, revision: str) -> None:
        self.whole = json.loads((DATA / f"mcp-schema/{revision}.schema.json").read_text())
        self.defs: dict[str, Any] = self.whole.get("$defs") or self.whole["definitions"]

    def resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            node = self.defs[node["$ref"].rsplit("/", 1)[1]]
        if "allOf" in node:
            parts = [self.resolve(part) for part in node["allOf"]]
            return {
                "properties": {name: value for part in parts for name, value in part.get("properties", {}).items()},
                "required": [name for part in parts for name in part.get("required", [])],
            }
        return node

    def methods(self, union: str) -> dict[str, dict[str, Any]]:
        """method -> the schema of its params."""
        node = self.defs.get(union)
        if node is None:
            return {}
        members = [self.resolve(member) for member in node.get("anyOf", [node])]
        return {m["properties"]["method"]["const"]: self.resolve(m["properties"].get("params", {})) for m in members}

    def kind(self, node: dict[str, Any]) -> str:
        node = self.resolve(node)
        if node.get("type") == ["string", "integer"]:
            return "id"
        if set(node.get("enum", ())) == set(LEVELS):
            return "level"
        if "anyOf" in node:
            kinds = {self.kind(member) for member in node["anyOf"]}
            return kinds.pop() if len(kinds) == 1 else "any"
        kind = node.get("type", "any")
        return kind if isinstance(kind, str) else "any"


def table_of(revision: Revision, union: str) -> dict[str, dict[str, str]]:
    attribute, direction = UNIONS[union]
    return getattr(revision, attribute)[direction]


@pytest.mark.parametrize("union", UNIONS)
@pytest.mark.parametrize("name", MCP_REVISIONS)
def test_methods_of_the_schema(name, union):
    """Each revision has exactly the methods of its schema, per direction and kind."""
    assert set(table_of(MCP_REVISIONS[name], union)) == set(Schema(name).methods(union))


@pytest.mark.parametrize("union", UNIONS)
@pytest.mark.parametrize("name", MCP_REVISIONS)
def test_members_of_the_schema(name, union):
    """Each method's params have the members of the schema, with the same type, required or not."""
    schema = Schema(name)
    for method, params in schema.methods(union).items():
        if "anyOf" in params:
            assert table_of(MCP_REVISIONS[name], union)[method] == UNION_PARAMS[method]
            for shape in map(schema.resolve, params["anyOf"]):
                assert set(UNION_PARAMS[method]) <= set(shape["required"])
            continue
        required = set(params.get("required", ()))
        wanted = {
            member if member in required else member + "?": schema.kind(node)
            for member, node in params.get("properties", {}).items()
            if member not in ELSEWHERE
        }
        assert table_of(MCP_REVISIONS[name], union)[method] == wanted, method


@pytest.mark.parametrize("name", MCP_REVISIONS)
def test_params_that_the_schema_requires(name):
    """Where params must be there though none of its members must, the tables say so (or _meta has to be there)."""
    schema, revision = Schema(name), MCP_REVISIONS[name]
    for union, (attribute, _) in UNIONS.items():
        node = schema.defs.get(union, {"anyOf": []})
        for member in map(schema.resolve, node.get("anyOf", [node])):
            method = member["properties"]["method"]["const"]
            members = table_of(revision, union)[method]
            bare = "params" in member["required"] and all(key.endswith("?") for key in members)
            by_meta = revision.result_type and attribute == "requests"
            assert bare <= (method in _mcp_methods.NEEDS_PARAMS or by_meta), method


@pytest.mark.parametrize("name", MCP_REVISIONS)
def test_envelope_of_the_schema(name):
    """Whether an error may lack its id, whether batches exist and whether a result has a type come from the schema."""
    schema, revision = Schema(name), MCP_REVISIONS[name]
    error = schema.defs.get("JSONRPCErrorResponse") or schema.defs["JSONRPCError"]
    assert revision.envelope.error_id_optional is ("id" not in error["required"])
    shapes = schema.defs["JSONRPCMessage"]["anyOf"]
    assert revision.batches is any(shape.get("type") == "array" for shape in shapes)
    assert revision.result_type is ("resultType" in schema.defs["Result"].get("required", ()))


@pytest.mark.parametrize("name", MCP_REVISIONS)
def test_request_meta_of_the_schema(name):
    """A revision whose results are typed is the one whose requests must name version and capabilities in _meta."""
    required = set(Schema(name).defs.get("RequestMetaObject", {}).get("required", ()))
    wanted = {META + "protocolVersion", META + "clientCapabilities"} if MCP_REVISIONS[name].result_type else set()
    assert required == wanted


def test_error_codes_of_the_schema():
    """The codes that 2026-07-28 defines in its reserved range are those of its error definitions."""
    schema = Schema("2026-07-28")
    text = json.dumps(schema.whole)
    codes = {code for code in range(-32099, -32019) if f'"const": {code}' in text}
    assert MCP_REVISIONS["2026-07-28"].spec_codes == codes


def test_unknown_revision_names_the_known_ones():
    """A typing error in a revision is answered with the list."""
    with pytest.raises(ValueError, match=r"unknown revision '2025-01-01'.*2025-11-25.*dap"):
        revision_named("2025-01-01")


def test_tables_are_data():
    """The method tables import nothing of ours."""
    source = Path(_mcp_methods.__file__).read_text(encoding="utf-8")
    assert "stdout_guard" not in source.split('"""', 2)[2]
