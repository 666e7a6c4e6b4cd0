"""A noisy Airbyte source through spec, check, discover and read, and a noisy destination: every message whole, and
nothing else on the wire."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import environments
import pytest
from real import drive, expect

ORDERS = [("guard first", False), ("sdk first", True)]
CATALOGUE = {
    "streams": [
        {
            "stream": {"name": "people", "json_schema": {"type": "object"}, "supported_sync_modes": ["full_refresh"]},
            "sync_mode": "full_refresh",
            "destination_sync_mode": "append",
        }
    ]
}
VERBS = {  # arguments -> the kinds of message that must be there, beside LOG
    "spec": (["spec"], {"SPEC"}),
    "check": (["check", "--config", "config.json"], {"CONNECTION_STATUS"}),
    "discover": (["discover", "--config", "config.json"], {"CATALOG"}),
    "read": (["read", "--config", "config.json", "--catalog", "catalog.json"], {"RECORD", "STATE", "TRACE"}),
}


def run(
    folder: Path,
    order: str,
    arguments: list[str],
    *,
    server: str = "airbyte_source",
    config: dict[str, Any] | None = None,
    said: list[dict[str, Any]] | None = None,
    quiet: bool = False,
    **env: Any,
) -> tuple[Path, drive.Run]:
    """Stage a connector, run it, and give back its file and what it did."""
    path = expect.stage(folder, server, order, "airbyte_cdk", quiet=quiet)
    (folder / "config.json").write_text(json.dumps(config or {}), "utf-8")
    (folder / "catalog.json").write_text(json.dumps(CATALOGUE), "utf-8")
    line = [str(environments.python("airbyte")), path.name, *arguments]
    return path, drive.exchange(line, said or [], cwd=folder, env=drive.environment(**env))


def unnamed(done: drive.Run, path: Path, *, own: bool = True) -> list[str]:
    """What the report does not name; the SDK's declarative part takes the line from all warnings of the process."""
    missing = expect.unnamed(done.report, path, own=own)
    return [line for line in missing if not re.match(r"noise \w+ warning:", line)]


@pytest.mark.parametrize(
    ("verb", "order", "unbuffered"),
    [
        pytest.param(verb, *order, marks=[pytest.mark.slow] * (verb != "read" and order == ORDERS[1]))
        for verb in VERBS
        for order in ORDERS
    ],
)
def test_a_source_writes_its_messages_and_nothing_else(verb: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """Each verb's messages and the connector's logging are whole lines on stdout; every stray line is named."""
    arguments, kinds = VERBS[verb]
    path, done = run(tmp_path, order, arguments, unbuffered=unbuffered)
    found, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{strays[:3]}\n{done}"
    assert {message["type"] for message in found} - {"LOG"} == kinds, f"{done}"
    assert done.status == 0, f"{done}"
    assert not expect.strayed(done.stdout), f"{done}"
    missing = unnamed(done, path, own=verb == "read")
    assert not missing, "\n".join([*missing, str(done)])


@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_records_logs_and_states_keep_their_order(order: str, tmp_path: Path) -> None:
    """What the source logs before a record reaches the client before it, although the SDK collects what it writes; its
    own stderr stays on stderr."""
    _, done = run(tmp_path, order, VERBS["read"][0])
    found, _ = expect.messages(done.stdout, "ndjson")
    flow = [m["record"]["data"]["id"] if m["type"] == "RECORD" else m.get("log", {}).get("message", "") for m in found]
    flow = [step for step in flow if isinstance(step, int) or step.startswith("row")]
    assert flow == ["row 0", 0, "row 1", "row seen by a thread", 1, "row 2", 2], f"{done}"
    assert found[-1]["type"] != "RECORD", f"{done}"
    assert "\nnoise on stderr\n" in done.report, f"{done}"


def test_without_the_guard_a_source_is_dirty(tmp_path: Path) -> None:
    """The same source is noisy, so that the clean runs mean something; it even fails, since what the SDK puts in the
    place of sys.stdout takes no bytes."""
    _, done = run(tmp_path, "bare", VERBS["read"][0])
    leaked = {("before", "flushed"), ("before", "child"), ("before", "descriptor"), ("during", "print")}
    assert leaked <= expect.strayed(done.stdout), f"{done}"
    assert done.status == 1, f"{done}"


@pytest.mark.parametrize("verb", [pytest.param(v, marks=[pytest.mark.slow] * (v in ("spec", "check"))) for v in VERBS])
def test_strict_has_nothing_to_say_about_the_sdk_itself(verb: str, tmp_path: Path) -> None:
    """A source without noise runs in strict mode to a good end: no write of the SDK's own is taken for a stray."""
    _, done = run(tmp_path, "sdk first", VERBS[verb][0], quiet=True, STDOUT_GUARD="strict")
    assert done.status == 0 and "stdout-guard" not in done.report, f"{done}"
    assert VERBS[verb][1] <= {m["type"] for m in expect.messages(done.stdout, "ndjson")[0]}, f"{done}"


@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_an_exception_is_a_trace_message(order: str, tmp_path: Path) -> None:
    """An uncaught exception leaves as FATAL log and TRACE message, whole, with the secrets of the configuration
    hidden, and with the status that it has without the guard."""
    config = {"token": "s3cr3t-of-mine", "fail": True}
    _, done = run(tmp_path, order, VERBS["check"][0], config=config)
    found, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{strays[:3]}\n{done}"
    assert [m["trace"]["error"]["message"] for m in found if m["type"] == "TRACE"][-1] == "it failed", f"{done}"
    assert b"s3cr3t-of-mine" not in done.stdout, f"{done}"
    assert done.status == 1, f"{done}"


@pytest.mark.parametrize(("order", "unbuffered"), ORDERS)
def test_a_destination_reads_its_input_and_writes_states(order: str, unbuffered: bool, tmp_path: Path) -> None:
    """A guarded destination gets every record from stdin and answers with its states alone."""
    record = {"type": "RECORD", "record": {"stream": "people", "emitted_at": 1, "data": {"id": 0}}}
    state = {"type": "STATE", "state": {"type": "STREAM", "stream": {"stream_descriptor": {"name": "people"}}}}
    arguments = ["write", "--config", "config.json", "--catalog", "catalog.json"]
    said: list[dict[str, Any]] = [record, record, state]
    path, done = run(tmp_path, order, arguments, server="airbyte_destination", said=said, unbuffered=unbuffered)
    found, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{strays[:3]}\n{done}"
    assert [m["type"] for m in found if m["type"] != "LOG"] == ["STATE"], f"{done}"
    assert (tmp_path / "stored.txt").read_text("utf-8") == "0\n0\n", f"{done}"
    assert done.status == 0, f"{done}"
    missing = unnamed(done, path)
    assert not missing, "\n".join([*missing, str(done)])
