"""The judge against tables that others, or a person with the specification open, have judged."""

import base64
import json

import pytest
from corpus_adapters import is_json, session, validate
from wire.tables import DATA, channel, json_files, rows

from stdout_guard.transcript import judge

DUPLICATE_KEYS = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}


@pytest.mark.parametrize(("name", "text"), json_files(), ids=lambda value: value if isinstance(value, str) else "")
def test_json_test_suite(name, text):
    """JSONTestSuite: y_ is accepted, n_ refused, i_ is either; duplicate keys are refused by our rule; no crash."""
    verdict = is_json(text)
    if name in DUPLICATE_KEYS:
        assert verdict is False
    elif name[0] in "yn":
        assert verdict is (name[0] == "y")


@pytest.mark.parametrize("row", rows("wire_lines.jsonl"), ids=lambda row: f"{row['id']} {row['name']}")
def test_wire_line(row):
    """A row's verdict and the class of the reason; where either is legal, the recommended one."""
    verdict, reason = validate(
        channel(row), framing=row["framing"], direction=row["direction"], revision=row["revision"]
    )
    if row["verdict"] == "either":
        assert verdict is (row["recommend"] == "accept"), reason
    else:
        assert (verdict, reason) == (row["verdict"] == "accept", row["reason"])


@pytest.mark.parametrize("revision", ["auto", "row"])
@pytest.mark.parametrize("row", rows("sessions.jsonl"), ids=lambda row: f"{row['id']} {row['name']}")
def test_session(row, revision):
    """A recorded run is judged by what the client sent, under the row's revision and under what it negotiates."""
    stdout, sent = base64.b64decode(row["stdout_b64"]), base64.b64decode(row["sent_b64"])
    found = session(stdout, sent, row["exit"], row["revision"] if revision == "row" else "auto")
    assert found == (row["verdict"] == "accept", row["reason"])


@pytest.mark.parametrize("row", [r for r in rows("sessions.jsonl") if r["reason"] == "session"], ids=lambda r: r["id"])
def test_session_severity(row):
    """What the specification only discourages is a warning, what it forbids an error."""
    report = judge(base64.b64decode(row["stdout_b64"]), sent=base64.b64decode(row["sent_b64"]))
    assert {finding.severity for finding in report.findings} == {row["severity"]}


REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_specification_examples(revision):
    """Every example message of the specification stands under its revision in one direction, placeholders apart."""
    exceptions = {
        (row["file"], row["n"])
        for row in json.loads((DATA / "mcp-docs-examples/EXCEPTIONS.json").read_text())
        if row["revision"] == revision
    }
    refused = set()
    for row in rows(f"mcp-docs-examples/{revision}.jsonl"):
        line = json.dumps(row["message"]).encode() + b"\n"
        verdicts = [validate(line, framing="ndjson", direction=way, revision=revision)[0] for way in ("s2c", "c2s")]
        if not any(verdicts):
            refused.add((row["file"], row["n"]))
    assert refused == exceptions


@pytest.mark.parametrize("row", rows("jsonrpc-spec-examples.jsonl"), ids=lambda row: row["line"][:40])
def test_jsonrpc_specification_examples(row):
    """JSON-RPC 2.0 section 7: what it answers with -32700 is a json fault, with -32600 a jsonrpc fault."""
    stage = {"accept": None, -32700: "json", -32600: "jsonrpc"}[row["expect"]]
    verdict, reason = validate(row["line"].encode() + b"\n", framing="ndjson", direction="c2s", revision="jsonrpc")
    assert (verdict, reason) == (stage is None, stage)
