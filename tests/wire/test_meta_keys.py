"""The keys of _meta: their grammar, their types, and what is kept for the specification."""

import json
import re
import time

import pytest
from wire.tables import DATA

from stdout_guard import _mcp_methods
from stdout_guard._meta_keys import bad_key
from stdout_guard.revisions import MCP_REVISIONS, META
from stdout_guard.transcript import judge

WITH_GRAMMAR = ["2025-06-18", "2025-11-25", "2026-07-28"]
WITHOUT = ["2024-11-05", "2025-03-26"]
GOOD = [
    "",
    "a",
    "7",
    "progressToken",
    "traceparent",
    "a-b_c.d",
    "com.example/",
    "com.example/a",
    "x/y",
    "a1-b.c2/d",
    "A/B",
    META + "related-task",
    "dev.mcp/x",
]
BAD = [
    "_fastmcp",
    "a_",
    "-a",
    "a.",
    "a b",
    "é",
    "a\n",
    "/a",
    "a//b",
    "a/b/c",
    "1a/b",
    "a-/b",
    ".a/b",
    "a./b",
    "a..b/c",
    "a_b/c",
    "com.example /a",
]
NAMED = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def line(message):
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


def codes(report):
    return [finding.code for finding in report.findings]


def result(meta):
    return line({"id": 1, "result": {"resultType": "complete", "_meta": meta}})


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize("revision", MCP_REVISIONS)
def test_a_key_of_the_grammar(revision, key):
    """Prefix of labels, slash, name; either may be missing."""
    assert judge(result({key: 1}), revision=revision).ok or key in _mcp_methods.META_KEYS


@pytest.mark.parametrize("key", BAD)
def test_a_key_outside_the_grammar(key):
    """Refused from 2025-06-18, when the grammar came; before it any key is one; auto takes what any revision allows."""
    found = {revision: codes(judge(result({"a": 1, key: 1}), revision=revision)) for revision in MCP_REVISIONS}
    assert found == {revision: ["meta-key"] for revision in WITH_GRAMMAR} | {revision: [] for revision in WITHOUT}
    assert judge(result({key: 1})).ok


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/tools/list_changed", "params": {"_meta": {"a b": 1}}},
        {"method": "notifications/progress", "params": {"_meta": {"a b": 1}, "progressToken": 1, "progress": 1}},
        {"id": 1, "method": "ping", "params": {"_meta": {"a b": 1}}},
        {"id": 1, "result": {"_meta": {"a b": 1}}},
    ],
)
def test_every_meta_of_the_top_level(message):
    """Requests, notifications and results alike; the finding shows the key and names the rule."""
    (finding,) = judge(line(message), revision="2025-11-25").findings
    assert (finding.code, finding.stage) == ("meta-key", "method")
    assert "'a b'" in finding.why
    assert "_meta" in finding.rule


def test_reserved_prefixes_are_noted():
    """A prefix whose second label is the specification's own, under a key that no revision defines, is a note."""
    for key in ("io.modelcontextprotocol/x", "dev.mcp/x", "com.mcp.tools/x"):
        report = judge(result({key: 1}), revision="2025-11-25")
        assert report.ok
        assert [note.code for note in report.notes] == ["reserved-meta-key"]
    for key in ("com.example.mcp/x", "mcp/x", META + "related-task", "traceparent"):
        assert not judge(result({key: {}}), revision="2025-11-25").notes


@pytest.mark.parametrize(
    ("meta", "fault"),
    [
        (NAMED, None),
        (NAMED | {META + "clientInfo": "x"}, "meta"),
        (NAMED | {META + "clientInfo": {"name": "x", "version": "1"}}, None),
        (NAMED | {META + "logLevel": "loud"}, "meta"),
        (NAMED | {META + "logLevel": "info"}, None),
        (NAMED | {META + "protocolVersion": 1}, "meta"),
        (NAMED | {META + "clientCapabilities": []}, "meta"),
        (NAMED | {"progressToken": True}, "meta"),
        ({META + "protocolVersion": "2026-07-28"}, "meta"),
    ],
)
def test_types_of_request_meta(meta, fault):
    """2026-07-28: version and capabilities are there, and each known member is of its type."""
    message = line({"id": 1, "method": "tools/list", "params": {"_meta": meta}})
    report = judge(message, revision="2026-07-28", direction="client-to-server")
    assert codes(report) == ([fault] if fault else [])


@pytest.mark.parametrize(("kind", "name"), [("response", "serverInfo"), ("response", "subscriptionId")])
def test_types_of_result_meta(kind, name):
    """serverInfo is an object, subscriptionId an id; before 2026-07-28 neither means anything."""
    data = result({META + name: 1.5})
    assert codes(judge(data, revision="2026-07-28")) == ["meta"]
    assert judge(data, revision="2025-11-25").ok


def test_the_table_is_the_schemas():
    """What 2026-07-28 defines in _meta of requests, notifications and results: names, types, required or not."""
    defs = json.loads((DATA / "mcp-schema/2026-07-28.schema.json").read_text())["$defs"]
    kinds = {
        "request": ["RequestMetaObject"],
        "notification": ["NotificationMetaObject"],
        "response": ["ResultMetaObject", "SubscriptionsListenResultMetaObject"],
    }
    for kind, names in kinds.items():
        members = {name: node for definition in names for name, node in defs[definition]["properties"].items()}
        required = set(defs[names[0]].get("required", ()))
        table = _mcp_methods.META_NAMES_REVISION[kind]
        assert {name for name in table if not name.endswith("?")} == required
        assert {name.rstrip("?") for name in table} == set(members)
    text = "".join((DATA / f"mcp-schema/{name}.schema.json").read_text() for name in MCP_REVISIONS)
    named = set(re.findall(re.escape(META) + r"[\w-]*\w", text))
    assert named <= _mcp_methods.META_KEYS


@pytest.mark.parametrize("key", ["a-" * 300_000, "a." * 300_000, "a_" * 300_000 + "!", "-" * 600_000])
def test_a_long_key_costs_no_more(key):
    """Linear: a key of half a mebibyte is settled in a moment."""
    started = time.process_time()
    assert bad_key([key]) == key
    assert time.process_time() - started < 5
