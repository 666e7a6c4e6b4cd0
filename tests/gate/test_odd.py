"""Servers that are wrong in an odd way are told the right reason: check, code, bytes, step, culprit and cure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Odd:
    """A kind of ``servers/odd.py``: the checks that must fail, the code, and what the problem must say."""

    kind: str
    check: str
    code: str
    raw: bytes | None = None  # in the bytes shown
    why: str = ""  # in the reason
    culprit: str = ""  # in who wrote it
    advice: str = ""  # in the cure
    step: str | None = None
    others: frozenset[str] = frozenset()  # checks that fail with it, rightly


WRITER = "written by the protocol writer itself ("
AT_ONCE = "requests at once"
ODD = [
    Odd(
        "indented",
        "framing",
        "spread-message",
        b'{\n  "jsonrpc": "2.0",\n  "id": 5',
        "one message spread over 12 lines",
        WRITER,
        "on one line",
        "call get_answer",
    ),
    Odd("line-break", "framing", "spread-message", b"4\n2", "unescaped inside a string", WRITER, "on one line"),
    Odd(
        "torn",
        "framing",
        "torn-message",
        b"WARN x\nid",
        r"torn apart by b'WARN x\n'",
        WRITER,
        "under one lock",
        "call get_answer",
        frozenset({"session"}),
    ),
    Odd("bom", "framing", "byte-order-mark", b"\xef\xbb\xbf{", "", WRITER, "utf-8-sig"),
    Odd("bom-first", "framing", "byte-order-mark", b"\xef\xbb\xbf{", "", "in bom_first", "utf-8-sig", "start-up"),
    Odd("nul", "framing", "nul-bytes", b"\0\0\0{", "3 NUL bytes", WRITER, "mend the message"),
    Odd("nul-in-tool", "framing", "nul-bytes", b"\0\0{", "2 NUL bytes", "no line to name", "stderr"),
    Odd("utf-16", "framing", "utf-16", b"\xff\xfe{\0", "this is UTF-16", WRITER, "write UTF-8"),
    Odd("array", "shape", "batch", b'[{"jsonrpc"', "no batches", WRITER, "no array"),
    Odd("glued", "framing", "glued-messages", b"}{", "2 messages on one line", WRITER, "newline"),
    Odd("traceback", "framing", "not-json", b"table\n", "a Python traceback", "in traceback_in_tool", "stderr"),
    Odd("stamp", "framing", "not-json", b" calling 0x", "", "in stamp", "stderr"),
    Odd(
        "executes-nameless",
        "effects",
        "executed-refused-frame",
        b"stdout-guard-hostile-",
        "with the id None",
        advice="before anything runs",
        others=frozenset({"shape"}),
    ),
    Odd("descriptor", "framing", "not-json", b"listing tables\n", "", " in tool", "stderr"),
    Odd("strict", "exit", "strict-verdict", None, "in strict mode", "", "names on stderr"),
    Odd("unknown-writer", "session", "unknown-writer", None, "the module 'mcpbase'", "", "install(writers="),
    Odd("http", "framing", "not-json", b"Uvicorn", "banner of an HTTP server", "in http", "stdio transport"),
    Odd(
        "interleaved",
        "framing",
        "interleaved-messages",
        b'{"jsonrpc"{"jsonrpc"',
        "two writers at once",
        "in put",
        "under one lock",
        AT_ONCE,
        frozenset({"session"}),
    ),
    Odd("float-id", "shape", "id", b'"id": 5.0', "", WRITER, "mend the message"),
    Odd("text-id", "session", "unknown-id", b'"id": "5"', "was sent as 5", WRITER, "type of id"),
    Odd("both", "shape", "result-and-error", b'"error"', "both result and error", WRITER, "mend the message"),
    Odd("sent", "framing", "not-json", b"# sent", "more after the JSON value", WRITER, "mend the message"),
    Odd("header", "framing", "content-length-framing", b"Content-Length: ", "", WRITER, "--framing content-length"),
    Odd("events", "framing", "not-json", b"data: {", "server-sent events", "odd.py", "stdio transport"),
    Odd("no-newline", "framing", "no-final-newline", b'{"jsonrpc"', "", WRITER, "end the last message with a newline"),
    Odd(
        "echo",
        "shape",
        "echoes-input",
        b'"method":"initialize"',
        "it echoes its input",
        "odd.py",
        "send the input back",
    ),
    Odd(
        "echo-and-serve",
        "shape",
        "echoes-input",
        b'"initialize"',
        "it echoes its input",
        "odd.py",
        "send the input back",
    ),
    Odd("debug", "framing", "not-json", b"recv: {", "", "odd.py", "file=sys.stderr"),
    Odd("prompt", "framing", "no-final-newline", b"Proceed? [y/N] ", "a prompt", "in prompt", "ask nobody"),
    Odd("stderr", "session", "answers-on-stderr", b'"result"', "on stderr", "", "answers to stdout"),
    Odd(
        "closes-stdout",
        "exit",
        "closed-stdout",
        None,
        "closed its stdout during 'list' and lived on",
        "",
        "keep stdout open",
        None,
        frozenset({"session"}),
    ),
    Odd(
        "closes-stdin",
        "session",
        "closed-stdin",
        None,
        "takes nothing more from its stdin",
        "",
        "read stdin",
        None,
        frozenset({"exit"}),
    ),
    Odd("mixed", "session", "mixed-answers", b'"id"', "they were sent at once", "", "keep the id", AT_ONCE),
    Odd(
        "last-only",
        "session",
        "lost-at-once",
        None,
        "4 of 5 requests sent at once; alone each was answered",
        "",
        "answer each",
        AT_ONCE,
    ),
    Odd(
        "numbers-only",
        "session",
        "lost-at-once",
        None,
        "no answer to 'ping', 'ping'",
        "",
        "numbers or strings",
        AT_ONCE,
    ),
    Odd("twice", "session", "answered-twice", b'"id": 7', "", "mcpbase.py", "once", AT_ONCE),
    Odd("printing", "framing", "not-json", b"busy\n", "", "in printing", "stderr", AT_ONCE),
    Odd(
        "tearing",
        "framing",
        "torn-message",
        b'"id": 7, "r{"jsonrpc"',
        "two writers at once",
        "in put",
        "under one lock",
        AT_ONCE,
        frozenset({"session"}),
    ),
    Odd(
        "crashing",
        "exit",
        "ended-early",
        None,
        "during 'at-once', before its input did, killed by SIGABRT",
        "",
        "end of stderr",
        None,
    ),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.kind)
def test_the_reason_is_the_right_one(check, command_of, odd):
    """No other check is blamed, and the first problem of that check says what is wrong, who did it and what to do."""
    result = check([*command_of("odd"), odd.kind], limits={"quiet": 1.5})
    (outcome,) = result.outcomes
    assert result.status == "broken"
    failed = {name for name, verdict in outcome.verdicts.items() if verdict == "fail"}
    assert failed - odd.others == {odd.check}, outcome.problems
    problem = next(problem for problem in outcome.problems if problem.check == odd.check)
    assert problem.code == odd.code
    assert odd.raw is None or odd.raw in (problem.raw or b"")
    assert odd.why in problem.why
    assert odd.culprit in "; ".join(problem.culprits)
    assert odd.advice in problem.advice
    assert odd.step in (None, problem.step)


@pytest.mark.parametrize("kind", ["crlf", "bytes", "backwards", "refuses-null"])
def test_what_is_odd_and_allowed_is_clean(check, command_of, kind):
    """CR LF, one byte a write, answers in another order, an invalid request refused with id null: no finding."""
    result = check([*command_of("odd"), kind])
    assert result.status == "clean" and result.outcomes[0].problems == []


def test_an_answer_in_its_own_time_is_not_called_a_buffer(check, command_of):
    """It came just after the end of the input, and would have come without: a second, patient run shows it."""
    result = check([*command_of("odd"), "slow-loop"], conditions=["plain", "no-home"], limits={"quiet": 1.5})
    assert result.status == "clean"
    assert [outcome.run.server.limits.quiet for outcome in result.outcomes] == [12.0, 12.0]


@pytest.mark.parametrize(("kind", "asked"), [("indented", 14), ("text-id", 14), ("bom", 14), ("events", 14)])
def test_a_faulty_server_is_driven_to_its_end(check, command_of, kind, asked):
    """An answer that a strict client cannot read does not end the session: every step takes place."""
    (outcome,) = check([*command_of("odd"), kind], find_culprits=False).outcomes
    steps = ["start-up", "initialized", "list", "call get_answer", AT_ONCE, "hostile lines", "idle", "exit"]
    assert [mark.step for mark in outcome.run.marks] == steps
    assert len(outcome.run.session.dialogue.messages) == asked


def test_a_command_that_works_in_one_folder_only_is_told_so(check, command_of, tmp_path):
    """Compared with the plain run, which answered: the working directory is the only difference, and is named."""
    (tmp_path / "data.json").write_text("{}")
    conditions = ["plain", "empty-cwd", "read-only-cwd", "no-home"]
    result = check([*command_of("odd"), "data-file"], conditions=conditions, cwd=str(tmp_path))
    plain, empty, read_only, no_home = result.outcomes
    assert (plain.status, no_home.status, result.status) == ("clean", "clean", "untested")
    for outcome in (empty, read_only):
        assert outcome.untested.startswith("exited before answering, exit 1; the plain run answered")
        assert "working directory" in outcome.untested and outcome.run.cwd in outcome.untested
        assert set(outcome.reasons.values()) == {outcome.untested}


def test_a_server_that_needs_a_variable_is_told_so(check, servers, tmp_path):
    """The same for the environment: the variables that differ from the plain run are named."""
    script = tmp_path / "server.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(1, {str(servers)!r})\nimport mcpbase\nos.environ['HOME']\nmcpbase.serve()\n"
    )
    result = check([sys.executable, str(script)], conditions=["plain", "no-home"])
    assert result.outcomes[1].untested.endswith("; the plain run answered, and differs in HOME alone")


def test_without_a_harmless_request_nothing_is_sent_at_once(check, command_of):
    """LSP has no request that every server answers: not exercised, and said so."""
    (outcome,) = check(command_of("lsp"), protocol="lsp").outcomes
    assert outcome.status == "clean"
    assert any(note.startswith("requests at once: not exercised") for note in outcome.notes)


def test_requests_at_once_have_numbers_and_strings_for_ids(check):
    """Five requests in one write, each answered once with its own id and type of id; in the plain run only."""
    plain, other = check("clean", conditions=["plain", "empty-cwd"]).outcomes
    ids = plain.run.session.dialogue.at_once
    assert sorted(map(str, ids)) == ["11", "7", "9", "at-once-10", "at-once-8"]
    assert {type(one) for one in ids} == {int, str}
    assert other.run.session.dialogue.at_once == set()


def test_a_pipeline_that_merges_stderr_is_named(check, command_of):
    """`server 2>&1 | tee log`: the log's lines are on the wire because of the wrapper, as with 2>&1 alone."""
    words = " ".join(f"'{word}'" for word in command_of("chatty_stderr"))
    result = check(["/bin/sh", "-c", f"{words} 2>&1 | cat"])
    codes = {problem.code: problem for problem in result.outcomes[0].problems}
    assert set(codes) == {"not-json", "merged-streams"}
    assert (
        "the wrapper (2>&1) is at fault" in codes["not-json"].culprits[0] and "2>&1" in codes["merged-streams"].advice
    )
