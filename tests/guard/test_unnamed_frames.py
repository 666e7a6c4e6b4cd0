"""A protocol frame of whoever is no named writer: its own message, with a remedy that works."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, Result
from guard.test_sites_libraries import write

Run = Callable[..., Result]
TEXT = FRAME.decode().rstrip("\n")


LOOKS = [
    ("write", "sys.stdout.write(text + '\\n')"),
    ("print", "print(text)"),
    ("buffer", "sys.stdout.buffer.write(text.encode() + b'\\n')"),
    ("json-dump", "json.dump(json.loads(text), sys.stdout); print()"),
    ("pieces", "sys.stdout.write(text[:9]); sys.stdout.write(text[9:] + '\\n')"),
    ("codecs", "codecs.getwriter('utf-8')(sys.stdout.buffer).write(text + '\\n')"),
    ("click", "click.echo(text)"),
]


@pytest.mark.parametrize("source", [row[1] for row in LOOKS], ids=[row[0] for row in LOOKS])
@pytest.mark.parametrize(
    "text", ['{"jsonrpc": "2.0", "id": 1, "result": {}}', '{"id": 1, "result": {}, "jsonrpc": "2.0"}']
)
def test_a_frame_of_an_unnamed_module_gets_its_own_message(run: Run, tmp_path: Path, source: str, text: str) -> None:
    """A write that starts like a frame is reported with the module to name and the remedy, and that remedy works: the
    module to name is the one that sends, not the library it sends by; in strict mode the error says it."""
    write(tmp_path, {"hand.py": f"import click, codecs, json, sys\ndef send(text): {source}\n"})
    script = f"import hand\ntry: hand.send({text!r})\nexcept Exception as e: assert 'STDOUT_GUARD_WRITERS=hand' in str(e), e\nanswer()\n"
    done = run(script)
    assert (done.wire, done.status) == (FRAME, 0), done.text
    said = done.report[0]
    assert said.startswith(
        "hand.py:2 in send: this looks like a protocol frame, but module hand is not a named protocol writer"
    )
    assert "STDOUT_GUARD_WRITERS=hand" in said and "guard.wire" in said
    remedied = run(script, env={"STDOUT_GUARD_WRITERS": "hand"})
    assert remedied.report == [], remedied.text
    assert remedied.wire.count(b"\n") == 2
    if "pieces" not in source and "json.dump" not in source and "[:9]" not in source:
        strict = run(script, env={"STDOUT_GUARD": "strict"})
        assert (strict.wire, strict.status) == (FRAME, 120), strict.text


def test_a_frame_of_the_script_itself_gets_a_remedy_that_works(run: Run) -> None:
    """A hand-written server that prints its frames from __main__ is told to use guard.wire: __main__ cannot be named."""
    done = run(f"print({TEXT!r})  #@a\nanswer()\n")
    assert done.wire == FRAME
    (said,) = done.report
    assert said.startswith(done.at("server.py:{a} in <module>: this looks like a protocol frame")[0])
    assert "guard.wire" in said
    assert "STDOUT_GUARD_WRITERS=__main__" not in said


def test_a_content_length_frame_is_recognised(run: Run, tmp_path: Path) -> None:
    """Content-Length framing is recognised by its header."""
    write(
        tmp_path, {"hand.py": "import sys\ndef send(): sys.stdout.buffer.write(b'Content-Length: 2\\r\\n\\r\\n{}')\n"}
    )
    done = run("import hand\nhand.send()\nanswer()\n")
    assert done.wire == FRAME
    assert "module hand is not a named protocol writer" in done.report[0]
    named = run("import hand\nhand.send()\n", env={"STDOUT_GUARD_WRITERS": "hand"})
    assert (named.wire, named.text) == (b"Content-Length: 2\r\n\r\n{}", "")


@pytest.mark.parametrize(("write_it", "remedy"), [
    ("import os; os.write(1, text)", "it was written to fd 1"),
    ("import subprocess; subprocess.run(['cat'], input=text)", "stdout=guard.wire.fileno()"),
])  # fmt: skip
def test_frames_by_descriptor_and_by_children(run: Run, write_it: str, remedy: str) -> None:
    """A frame that came by fd 1 or from a child gets the remedy for that; the child's remedy works."""
    done = run(f"text = {FRAME!r}\n{write_it}\nanswer()\n")
    assert done.wire == FRAME
    (said,) = done.report
    assert "this looks like a protocol frame" in said and remedy in said
    if "subprocess" in write_it:
        fixed = run(f"import subprocess\nsubprocess.run(['cat'], input={FRAME!r}, stdout=guard.wire.fileno())\n")
        assert (fixed.wire, fixed.text) == (FRAME, "")


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', "jsonrpc", '[{"jsonrpc": 1}', "content-length: 5", '{"level": "info", "msg": "x"}', "{not json"],
)
def test_json_that_is_no_frame_is_an_ordinary_stray(run: Run, text: str) -> None:
    """JSON log lines and the like are reported as they are."""
    done = run(f"print({text!r})  #@a\nanswer()\n")
    assert done.wire == FRAME
    assert (
        done.report == done.at(f"server.py:{{a}} in <module>: {text}".replace("{not", "{{not"))
        or text in done.report[0]
    )
    assert "looks like" not in done.text


def test_a_default_argument_of_a_named_writer_is_told_truly(run: Run, tmp_path: Path) -> None:
    """A named writer that bound the stream in a default argument cannot be adapted: its frames are not lost silently,
    and nobody is told to name a module that is named already."""
    write(
        tmp_path,
        {"proto.py": "import sys\ndef send(text, out=sys.stdout): out.write(text + '\\n')\ndef other(): sys.stdout\n"},
    )
    done = run(f"import proto\nproto.send({TEXT!r})\nanswer()\n", env={"STDOUT_GUARD_WRITERS": "proto"})
    assert done.wire in (FRAME, FRAME + FRAME)
    if done.wire == FRAME:
        (said,) = done.report
        assert "this looks like a protocol frame" in said and "guard.wire" in said
        assert "is not a named protocol writer" not in said
