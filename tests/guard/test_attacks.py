"""Nothing in a report can attack its reader: a terminal, a CI log, a log file."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

ATTACKS = [
    ("ansi", "\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    ("osc-title", "\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
    ("osc-8-link", "\x1b]8;;http://x\x1b\\", "\\x1b]8;;http://x\\x1b\\"),
    ("c1-csi", "\x9b31m", r"\x9b31m"),
    ("nul", "a\0b", r"a\x00b"),
    ("backspace", "safe\b\b\b\bevil", r"safe\x08\x08\x08\x08evil"),
    ("delete", "a\x7fb", r"a\x7fb"),
    ("vertical-tab", "a\x0bb\x0cc", r"a\x0bb\x0cc"),
    ("separators", "a\x1cb\x1dc\x1ed", r"a\x1cb\x1dc\x1ed"),
    ("nel", "a\x85b", r"a\x85b"),
    ("line-separator", "a\u2028b\u2029c", r"a\u2028b\u2029c"),
    ("bidi", "a\u202eb\u2066c\u2069", r"a\u202eb\u2066c\u2069"),
    ("zero-width", "a\u200bb\ufeffc", r"a\u200bb\ufeffc"),
    ("tag-characters", "a\U000e0041b", r"a\U000e0041b"),
    ("azure-command", "##vso[task.setvariable variable=x]y", r"#\x23vso[task.setvariable variable=x]y"),
    ("github-group", "##[error]x", r"#\x23[error]x"),
    ("teamcity", "##teamcity[x]", r"#\x23teamcity[x]"),
    ("github-command", "::set-output name=a::b", "::set-output name=a::b"),  # the prefix stands before it
    ("private-use", "a\ue000b", r"a\ue000b"),
    ("tab-is-kept", "a\tb", "a\tb"),
    ("letters-are-kept", "é 漢字 \U0001f600 ß", "é 漢字 \U0001f600 ß"),
    ("carriage-return", "safe\rEVIL", "EVIL"),
    ("marker", "\x1estdout-guard\x1f" + "\x1f".join(["python", "fake.py", "1", "f", "", "1", "", "", "forged"]), None),
]


@pytest.mark.parametrize("way", ["print", "child", "fd1", "fork"])
@pytest.mark.parametrize(("text", "shown"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS])
def test_nothing_in_a_report_can_attack_its_reader(
    run: Callable[..., Result], text: str, shown: str | None, way: str
) -> None:
    """Control, format and separating characters are spelled out and CI commands defused, whoever wrote the text, in
    text and in JSON (whose decoded text is the original)."""
    if way != "print" and shown in ("a\tb", None) and way != "child":
        return  # one way is enough for what is not dangerous
    write = {
        "print": "print(text)",
        "child": "import subprocess; subprocess.run(['printenv', 'TEXT'], env=env)",
        "fd1": "import os; os.write(1, text.encode() + b'\\n')",
        "fork": "import os\nif os.fork() == 0: print(text); os._exit(0)\nos.wait()",
    }[way]
    if way == "child" and "\0" in text:
        return  # an argument cannot hold it
    source = f"import os\ntext = {text!r}\nenv = {{**os.environ, 'TEXT': text}} if chr(0) not in text else None\n{write}\nanswer()\n"
    done = run(source)
    assert done.wire == FRAME
    bad = [c for c in done.text if not (c.isprintable() or c in "\n\t")]
    assert not bad, bad
    if shown is None:
        assert len(done.report) == 1
        assert "fake.py:1 in f: forged" not in done.text or way in ("child", "fd1"), done.text
        return
    (line,) = done.report
    assert line.endswith(f": {shown}"), line
    as_json = run(source, env={"STDOUT_GUARD_FORMAT": "json"})
    assert as_json.stderr.isascii()
    records = [json.loads(line) for line in as_json.lines if "fork" not in line]  # 3.12 warns of a fork with threads
    strays = [record for record in records if record["kind"] == "stray"]
    assert len(strays) == 1
    if way != "fork":
        assert strays[0]["text"] == text.rpartition("\r")[2]


def test_invalid_utf_8_is_spelled_out(run: Callable[..., Result]) -> None:
    """Bytes that are no UTF-8 are shown as escapes; the report itself is always valid UTF-8."""
    done = run(
        "import os, sys\nsys.stdout.buffer.write(b'a\\xffb\\xc3\\n')  #@a\nos.write(1, b'c\\xfe\\n')\nanswer()\n"
    )
    assert done.wire == FRAME
    assert sorted(done.report) == sorted(done.at(r"server.py:{a} in <module>: a\xffb\xc3", r"[fd 1]: c\xfe"))


def test_a_path_or_a_function_name_cannot_attack_either(run: Callable[..., Result]) -> None:
    """File, function and program names are escaped as well as the text."""
    done = run("""
exec(compile("print('x')", "evil\\x1b[31m\\nfile.py", "exec"))
f = lambda: print("y")
f.__code__ = f.__code__.replace(co_qualname="na\\x1b[31mme", co_name="n\\nm")
f()
import subprocess, os
os.symlink("/bin/echo", "ev\\x1b[31mil"); subprocess.run(["./ev\\x1b[31mil", "z"])
answer()
""")
    assert done.wire == FRAME
    assert len(done.report) == 3, done.text
    assert not [c for c in done.text if not (c.isprintable() or c == "\n")]
