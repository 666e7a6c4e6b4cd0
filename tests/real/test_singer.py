"""Noisy Singer taps, alone and piped into a published target, and a noisy Singer target."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import environments
import pytest
from real import drive, expect

PEOPLE = [{"id": number, "name": "Zoë"} for number in range(3)]
ORDERS = [("guard first", False), ("sdk first", True)]


@dataclass(frozen=True)
class Tap:
    """A noisy tap: the environment it runs in, its source, the SDK's own package."""

    environment: str
    source: str
    sdk: str
    slow: bool = False


TAPS = {
    "singer-python 6.8": Tap("singer", "singer_tap", "singer"),
    "singer-sdk 0.54": Tap("newest", "singer_sdk_tap", "singer_sdk"),
    "singer-sdk 0.54 msgspec": Tap("newest", "singer_sdk_msgspec_tap", "singer_sdk"),
    "singer-sdk 0.44": Tap("oldest", "singer_sdk_tap", "singer_sdk", slow=True),
    "pipelinewise 2.0": Tap("pipelinewise", "singer_tap", "singer", slow=True),
}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * tap.slow) for name, tap in TAPS.items()]


def command(tap: Tap, folder: Path, order: str, *arguments: str, quiet: bool = False) -> tuple[Path, list[str]]:
    """Stage the tap in `folder`; return its file and its command line."""
    path = expect.stage(folder, tap.source, order, tap.sdk, quiet=quiet)
    (folder / "config.json").write_text("{}", "utf-8")
    return path, [str(environments.python(tap.environment)), path.name, "--config", "config.json", *arguments]


def run(tap: Tap, folder: Path, order: str, unbuffered: bool, *arguments: str) -> tuple[Path, drive.Run]:
    path, line = command(tap, folder, order, *arguments)
    return path, drive.exchange(line, [], cwd=folder, env=drive.environment(unbuffered=unbuffered))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("order", "unbuffered"), ORDERS)
def test_a_tap_writes_its_messages_and_nothing_else(name: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """SCHEMA, three RECORDs and STATE on stdout, each on a line of its own; every stray line named on stderr."""
    path, done = run(TAPS[name], tmp_path, order, unbuffered)
    found, strays = expect.messages(done.stdout, "ndjson")
    assert not strays, f"{strays[:3]}\n{done}"
    assert [m["record"] for m in found if m["type"] == "RECORD"] == PEOPLE, f"{done}"
    assert {"SCHEMA", "RECORD", "STATE"} == {m["type"] for m in found}, f"{done}"
    assert done.status == 0, f"{done}"
    missing = expect.unnamed(done.report, path)
    assert not missing, "\n".join([*missing, str(done)])


@pytest.mark.parametrize("name", NAMES)
def test_without_the_guard_a_tap_is_dirty(name: str, tmp_path: Path) -> None:
    """The same taps are noisy, so that the clean runs mean something."""
    _, done = run(TAPS[name], tmp_path, "bare", False)
    leaked = {(phase, kind) for phase in ("before", "during") for kind in ("flushed", "child", "descriptor")}
    assert leaked <= expect.strayed(done.stdout), f"{done}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("order", "unbuffered"), ORDERS)
def test_a_catalogue_is_protocol(name: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """`--discover` writes one JSON document on stdout, whole, and nothing beside it."""
    _, done = run(TAPS[name], tmp_path, order, unbuffered, "--discover")
    try:
        catalogue = json.loads(done.stdout)
    except ValueError as error:
        pytest.fail(f"{error}\n{done}")
    assert [stream["tap_stream_id"] for stream in catalogue["streams"]] == ["people"], f"{done}"
    assert "noise before descriptor" in done.report, f"{done}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arguments", [[], ["--discover"]], ids=["sync", "discover"])
def test_strict_has_nothing_to_say_about_the_sdk_itself(name: str, arguments: list[str], tmp_path: Path) -> None:
    """A tap without noise runs in strict mode to a good end: none of the SDK's own writes is taken for a stray."""
    _, line = command(TAPS[name], tmp_path, "sdk first", *arguments, quiet=True)
    done = drive.exchange(line, [], cwd=tmp_path, env=drive.environment(STDOUT_GUARD="strict"))
    assert done.status == 0 and "stdout-guard" not in done.report, f"{done}"
    assert "people" in done.stdout.decode(), f"{done}"


def test_about_is_an_answer_too(tmp_path: Path) -> None:
    """`--about --format=json`, which orchestrators read, reaches stdout whole."""
    _, done = run(TAPS["singer-sdk 0.54"], tmp_path, "guard first", False, "--about", "--format=json")
    assert json.loads(done.stdout)["name"] == "tap-noisy", f"{done}"


def piped(tap: Tap, folder: Path, order: str) -> drive.Run:
    """Run `tap | target-jsonl` in a shell, as Singer's users do; the target's status is the pipe's."""
    (folder / "target.json").write_text(json.dumps({"do_timestamp_file": False, "destination_path": "out"}), "utf-8")
    _, line = command(tap, folder, order)
    target = [str(environments.script("target", "target-jsonl")), "--config", "target.json"]
    return drive.exchange(["/bin/sh", "-c", f"{shlex.join(line)} | {shlex.join(target)}"], [], cwd=folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_target_reads_a_guarded_tap(name: str, tmp_path: Path) -> None:
    """target-jsonl takes every record of a noisy tap and gives back its state."""
    done = piped(TAPS[name], tmp_path, "guard first")
    assert done.status == 0, f"{done}"
    lines = (tmp_path / "out" / "people.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == PEOPLE, f"{done}"
    assert len(done.stdout.splitlines()) == 1 and "people" in done.stdout.decode(), f"{done}"


@pytest.mark.parametrize("name", ["singer-python 6.8", "singer-sdk 0.54"])
def test_a_real_target_chokes_on_an_unguarded_tap(name: str, tmp_path: Path) -> None:
    """Without the guard the same target stops at the first stray line."""
    done = piped(TAPS[name], tmp_path, "bare")
    assert done.status != 0 and "Unable to parse" in done.report, f"{done}"


@pytest.mark.parametrize("environment", ["newest", pytest.param("oldest", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("order", "unbuffered"), ORDERS)
def test_a_target_reads_its_input_and_writes_only_state(
    environment: str, order: str, unbuffered: bool, tmp_path: Path
) -> None:
    """A guarded target reads every record from stdin and answers with its state alone."""
    path = expect.stage(tmp_path, "singer_sdk_target", order, "singer_sdk")
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    said = [{"type": "SCHEMA", "stream": "people", "schema": schema, "key_properties": ["id"]}]
    said += [{"type": "RECORD", "stream": "people", "record": person} for person in PEOPLE]
    said += [{"type": "STATE", "value": {"people": 2}}]
    line = [environments.python(environment), path.name]
    done = drive.exchange(line, said, cwd=tmp_path, env=drive.environment(unbuffered=unbuffered))
    assert json.loads(done.stdout) == {"people": 2}, f"{done}"
    lines = (tmp_path / "people.jsonl").read_text("utf-8").splitlines()
    assert [{k: v for k, v in json.loads(line).items() if k in ("id", "name")} for line in lines] == PEOPLE, f"{done}"
    assert done.status == 0, f"{done}"
    assert "noise during descriptor" in done.report, f"{done}"


def test_without_the_guard_a_target_is_dirty(tmp_path: Path) -> None:
    """The same target shows its noise when it is not guarded."""
    path = expect.stage(tmp_path, "singer_sdk_target", "bare", "singer_sdk")
    done = drive.exchange([environments.python("newest"), path.name], [], cwd=tmp_path)
    assert ("before", "descriptor") in expect.strayed(done.stdout), f"{done}"


@pytest.mark.parametrize("named", [True, False], ids=["named as a writer", "not named"])
def test_a_published_program_that_writes_for_itself(named: bool, tmp_path: Path) -> None:
    """target-jsonl writes its state with its own sys.stdout: the wire is its own once the user names its module."""
    said = [{"type": "STATE", "value": {"people": 2}}]
    line = [environments.python("target"), "-m", "stdout_guard", "run", "target-jsonl"]
    settings = {"STDOUT_GUARD_WRITERS": "target_jsonl"} if named else {}
    env = drive.environment(PATH=f"{environments.python('target').parent}:/usr/bin:/bin", **settings)
    done = drive.exchange(line, said, cwd=tmp_path, env=env)
    assert done.stdout == (b'{"people": 2}\n' if named else b""), f"{done}"
    assert ('in emit_state: {"people": 2}' in done.report) is not named, f"{done}"
    assert done.status == 0, f"{done}"
