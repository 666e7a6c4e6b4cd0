"""Every byte a noisy server writes on stdout, on each SDK: dirty without the guard, clean and accounted for with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import environments
import pytest
from real import conversations, drive, expect

from stdout_guard.transcript import Report, judge

SHOUT = conversations.mcp(("shout", {"text": "hello"}), ("whisper", {"text": "HELLO"}))
HELLO = conversations.lsp(conversations.HOVER, conversations.WHISPER)
EARLY = {("before", "flushed"), ("before", "descriptor"), ("before", "child")}
CALL = {("during", kind) for kind in ("flushed", "buffer", "logging", "descriptor", "child")}


@dataclass(frozen=True)
class Subject:
    """A noisy server and what is known of it: `leaks` are lines it must show on an unguarded wire, else the test
    could not fail."""

    environment: str
    server: str
    sdk: str
    talk: conversations.Messages
    leaks: frozenset[tuple[str, str]]
    framing: Literal["ndjson", "content-length"] = "ndjson"
    revision: str = "auto"  # what the package's own judge is told
    slow: bool = False


def subject(environment: str, server: str, sdk: str, talk: conversations.Messages, leaks: set[tuple[str, str]], **more):
    return Subject(environment, server, sdk, talk, frozenset(leaks), **more)


LSP = {"framing": "content-length", "revision": "lsp"}
SUBJECTS = {
    "mcp 1.30": subject("mcp1", "mcp1", "mcp.server.stdio", SHOUT, EARLY | CALL),
    "mcp 2.3": subject("newest", "mcp2", "mcp.server.stdio", SHOUT, EARLY),
    "fastmcp 3.4": subject("mcp1", "fastmcp_any", "fastmcp", SHOUT, EARLY | CALL),
    "fastmcp 4.2": subject("newest", "fastmcp_any", "fastmcp", SHOUT, EARLY),
    "pygls 2.1": subject("newest", "pygls2", "pygls.server", HELLO, EARLY | CALL, **LSP),
    "acp 0.12": subject("newest", "acp_agent", "acp", conversations.acp(), EARLY | CALL, revision="jsonrpc"),
    "mcp 1.9": subject("oldest", "mcp1", "mcp.server.stdio", SHOUT, EARLY | CALL, slow=True),
    "fastmcp 2.14": subject("fastmcp2", "fastmcp_any", "fastmcp", SHOUT, EARLY | CALL, slow=True),
    "pygls 1.3": subject("oldest", "pygls1", "pygls.server", HELLO, EARLY | CALL, slow=True, **LSP),
}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * entry.slow) for name, entry in SUBJECTS.items()]
# each buffering with each order at least once, without the whole product
RUNS = [("guard first", False), ("sdk first", True)]
MORE_RUNS = [("guard first", True), ("sdk first", False)]


def run(
    entry: Subject, folder: Path, order: str, unbuffered: bool, *, quiet: bool = False, **settings: str
) -> tuple[Path, drive.Run]:
    """Stage the server in `folder`, talk to it, return its file and the finished run."""
    server = expect.stage(folder, entry.server, order, entry.sdk, quiet=quiet)
    command = [environments.python(entry.environment), server.name]
    env = drive.environment(unbuffered=unbuffered, **settings)
    return server, drive.exchange(command, entry.talk, cwd=folder, framing=entry.framing, env=env)


def judged(entry: Subject, done: drive.Run) -> Report:
    """What the package's own judge says of the same bytes."""
    return judge(done.stdout, framing=entry.framing, revision=entry.revision, sent=done.sent)


def check_wire(entry: Subject, done: drive.Run) -> None:
    """Every answer once, in order, and nothing else, by this folder's own reading and by the package's judge."""
    requests = [m["id"] for m in entry.talk if "id" in m]
    found, strays = expect.messages(done.stdout, entry.framing)
    assert not strays, f"{strays[:3]} on the wire\n{done}"
    assert expect.answered(done.stdout, entry.framing) == requests, f"{found}\n{done}"
    assert not [m for m in found if "error" in m], f"{found}\n{done}"
    verdict = judged(entry, done)
    assert verdict.ok, f"{verdict.findings}\n{done}"


def check_clean(entry: Subject, server: Path, done: drive.Run) -> None:
    """A clean wire, every stray line named, and the server's own good end."""
    check_wire(entry, done)
    missing = expect.unnamed(done.report, server)
    assert not missing, "\n".join([*missing, str(done)])
    assert done.status == 0, f"{done}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
def test_without_the_guard_the_wire_is_dirty(name: str, unbuffered: bool, tmp_path: Path) -> None:
    """The servers of this file are noisy where they say they are: a clean run with the guard means something."""
    entry = SUBJECTS[name]
    _, done = run(entry, tmp_path, "bare", unbuffered)
    assert entry.leaks <= expect.strayed(done.stdout), f"{entry.leaks - expect.strayed(done.stdout)}\n{done}"
    assert expect.messages(done.stdout, entry.framing)[1], f"no stray bytes\n{done}"
    assert not judged(entry, done).ok, f"the package's judge saw nothing\n{done}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("order", "unbuffered"), RUNS)
def test_with_the_guard_every_answer_and_nothing_else(name: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """One import, first or after the SDK: stdout holds each answer once and nothing else; stderr names every line."""
    check_clean(SUBJECTS[name], *run(SUBJECTS[name], tmp_path, order, unbuffered))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_strict_has_nothing_to_say_about_the_sdk_itself(name: str, order: str, tmp_path: Path) -> None:
    """A server without noise runs in strict mode as it does without the guard: no SDK write is taken for a stray."""
    _, done = run(SUBJECTS[name], tmp_path, order, False, quiet=True, STDOUT_GUARD="strict")
    check_wire(SUBJECTS[name], done)
    assert done.status == 0 and "stdout-guard" not in done.report, f"{done}"


@pytest.mark.parametrize("name", NAMES)
def test_strict_ends_a_noisy_server_with_its_own_status(name: str, tmp_path: Path) -> None:
    """In strict mode the first print raises where it is written; the wire stays clean and the status tells."""
    _, done = run(SUBJECTS[name], tmp_path, "guard first", False, STDOUT_GUARD="strict")
    assert not expect.messages(done.stdout, SUBJECTS[name].framing)[1], f"{done}"
    assert "StrayWriteError" in done.report and "noise.py:18" in done.report, f"{done}"
    assert done.status == 120, f"{done}"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SUBJECTS))
@pytest.mark.parametrize(("order", "unbuffered"), MORE_RUNS)
def test_the_other_half_of_orders_and_buffering(name: str, order: str, unbuffered: bool, tmp_path: Path) -> None:
    """The rule does not depend on which import order meets which buffering."""
    check_clean(SUBJECTS[name], *run(SUBJECTS[name], tmp_path, order, unbuffered))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SUBJECTS))
def test_the_channel_without_a_thread(name: str, tmp_path: Path) -> None:
    """With the plain descriptor channel the wire is as clean; the lines that bypass Python then carry no tag."""
    entry = SUBJECTS[name]
    _, done = run(entry, tmp_path, "guard first", False, STDOUT_GUARD_CHANNEL="dup")
    check_wire(entry, done)
    assert "noise during native" in done.report, f"{done}"
