"""Protocol writer modules: known SDKs and the user's own, in both import orders, and what is said when one does not fit."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, PRELUDE, Result
from guard.test_sites_libraries import write

Run = Callable[..., Result]
TEXT = FRAME.decode().rstrip("\n")

# How a writer module of the user's may send a frame: its text after ``import json, sys``.
STYLES = {
    "print": "def send(text): print(text)",
    "print-flush": "def send(text): print(text, flush=True)",
    "print-pieces": "def send(text): print(text[:5], end=''); print(text[5:])",
    "print-end": "def send(text): print(text, end='\\n')",
    "print-file": "def send(text): print(text, file=sys.stdout)",
    "sys-stdout-write": "def send(text): sys.stdout.write(text + '\\n'); sys.stdout.flush()",
    "dunder-stdout": "def send(text): sys.__stdout__.write(text + '\\n'); sys.__stdout__.flush()",
    "buffer": "def send(text): sys.stdout.buffer.write(text.encode() + b'\\n'); sys.stdout.buffer.flush()",
    "from-sys-import-stdout": "from sys import stdout\ndef send(text): stdout.write(text + '\\n'); stdout.flush()",
    "from-sys-import-as": "from sys import stdout as out\ndef send(text): out.write(text + '\\n'); out.flush()",
    "import-sys-as": "import sys as system\ndef send(text): system.stdout.write(text + '\\n')",
    "json-dump": "def send(text): json.dump(json.loads(text), sys.stdout, separators=(',', ':')); sys.stdout.write('\\n')",
    "in-a-class": "class Out:\n    def send(self, text): print(text)\nsend = Out().send",
    "static": "class Out:\n    @staticmethod\n    def send(text): sys.stdout.write(text + '\\n')\nsend = Out.send",
    "nested": "def outer():\n    def send(text): print(text)\n    return send\nsend = outer()",
    "click-echo": "import click\ndef send(text): click.echo(text)",
    "click-echo-bytes": "import click\ndef send(text): click.echo(text.encode())",
    "from-click-import-echo": "from click import echo\ndef send(text): echo(text)",
    "async": "import asyncio\nasync def one(text): print(text)\ndef send(text): asyncio.run(one(text))",
    "writelines": "def send(text): sys.stdout.writelines([text, '\\n'])",
    "rewrapped": "import io\ndef send(text):\n    out = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')\n    out.write(text + '\\n'); out.flush()",
}  # fmt: skip


@pytest.mark.parametrize("order", ["guard-first", "writer-first"])
@pytest.mark.parametrize("style", STYLES)
def test_a_writer_module_of_the_users(run: Run, tmp_path: Path, style: str, order: str) -> None:
    """A module named in STDOUT_GUARD_WRITERS sends its frames whether it prints, writes to sys.stdout or took stdout by
    ``from sys import stdout``, imported after the guard or before it; everybody else's prints stay strays."""
    write(tmp_path, {"proto/__init__.py": "", "proto/out.py": f"import json, sys\n{STYLES[style]}\n"})
    first, second = ("import proto.out\n", "") if order == "writer-first" else ("", "import proto.out\n")
    done = run(f"""{second}
print("stray")  #@a
proto.out.send({TEXT!r})
print("stray")  #@b
proto.out.send({TEXT!r})
""", prelude=first + PRELUDE, env={"STDOUT_GUARD_WRITERS": "proto.out"})  # fmt: skip
    assert (done.wire, done.status) == (FRAME * 2, 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: stray", "server.py:{b} in <module>: stray")


def test_a_writer_module_named_by_argument(run: Run, tmp_path: Path) -> None:
    """writers= takes names, and modules that are imported."""
    write(
        tmp_path,
        {
            "one.py": "def send(text): print(text)\n",
            "two.py": "import sys\ndef send(text): sys.stdout.write(text + '\\n')\n",
        },
    )
    done = run(f"""
import stdout_guard, two
guard = stdout_guard.install(writers=["one", two])
import one
one.send({TEXT!r}); two.send({TEXT!r})
print("stray")  #@a
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (FRAME * 2, 0), done.text
    assert done.report == done.at("server.py:{a} in <module>: stray")


def test_a_writer_inside_the_application_that_is_being_started(run: Run, tmp_path: Path) -> None:
    """A module of the running package itself may be named: python -m app with app.proto as the writer."""
    import sys

    write(tmp_path, {
        "app/__init__.py": "", "app/proto.py": "import sys\ndef send(text): sys.stdout.write(text + '\\n')\n",
        "app/__main__.py": f"import stdout_guard.auto\nfrom app import proto\nprint('stray')\nproto.send({TEXT!r})\n",
    })  # fmt: skip
    done = run("", command=[sys.executable, "-m", "app"], env={"STDOUT_GUARD_WRITERS": "app.proto"})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.report == ["app/__main__.py:3 in <module>: stray"]


def test_what_a_writer_prints_elsewhere_stays_there(run: Run, tmp_path: Path) -> None:
    """print(file=sys.stderr) and click.echo(err=True) of a writer module go to stderr; its sys is the real one in all
    but the streams."""
    write(tmp_path, {"proto.py": """
import sys, click
def check():
    import sys as real
    print("to stderr", file=sys.stderr); click.echo("echoed to stderr", err=True)
    print("to a file", file=open("out.txt", "w"))
    assert sys.modules is real.modules and sys.argv is real.argv and sys.version == real.version
    sys.own = 1; assert real.own == 1
    assert sys.stdout.fileno() != 1 and sys.stdin is not None and hasattr(sys, "exit")
    try: sys.exit(3)
    except SystemExit as e: assert e.code == 3
    sys.stdout = kept = open("other.txt", "w")
    assert sys.stdout is kept and real.stdout is not kept
    print("after the swap", file=sys.stdout); kept.flush()
"""})  # fmt: skip
    done = run("import proto\nproto.check()\nanswer()\n", env={"STDOUT_GUARD_WRITERS": "proto"})
    assert (done.wire, done.status) == (FRAME, 0), done.text
    assert done.lines == ["to stderr", "echoed to stderr"]
    assert (tmp_path / "other.txt").read_text() == "after the swap\n"


def test_a_writers_stdin_is_the_clients(run: Run, tmp_path: Path) -> None:
    """A writer module that reads sys.stdin gets the client's frames; children then meet the null device."""
    write(tmp_path, {"proto.py": "import sys\ndef serve():\n    for line in sys.stdin: print('got ' + line, end='')\n"})
    done = run(
        "import proto, subprocess\nproto.serve()\nassert subprocess.run(['cat'], stdout=-1).stdout == b''\n",
        env={"STDOUT_GUARD_WRITERS": "proto"},
        stdin="a\nü\n".encode(),
    )
    assert (done.wire, done.status) == ("got a\ngot ü\n".encode(), 0), done.text


def test_uninstall_gives_the_writer_its_own_sys_back(run: Run, tmp_path: Path) -> None:
    """After uninstall() the writer's names are what they were; a second guard adapts it again."""
    write(
        tmp_path,
        {
            "proto.py": "import sys\nfrom sys import stdout\ndef send(text): print(text, flush=True)\ndef send2(text): sys.stdout.write(text); sys.stdout.flush()\n"
        },
    )
    done = run("""
import sys
early = sys.stdout
import proto, stdout_guard
before = dict(vars(proto))
guard = stdout_guard.install(writers=["proto"])
assert proto.sys is not sys and "print" in vars(proto)
proto.send("one")
stdout_guard.uninstall()
assert dict(vars(proto)) == before and proto.sys is sys and proto.stdout is early
proto.send("two"); proto.send2("three\\n")
guard = stdout_guard.install(writers=["proto"])
proto.send("four"); proto.send2("five\\n")
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"one\ntwo\nthree\nfour\nfive\n", 0), done.text
    assert done.text == ""


def fake(folder: Path, body: str, module: str = "mcp/server/stdio.py") -> None:
    """A package of a known SDK's name, whose writer module holds ``body``."""
    parts = module.split("/")
    files = {"/".join([*parts[:n], "__init__.py"]): "" for n in range(1, len(parts))}
    write(folder, {**files, module: body})


MISFITS = [
    ("opens-fd-1", "import os\ndef serve(): os.write(1, b'frame\\n')\n"),
    ("moved-elsewhere", "def serve(): pass\n"),
    ("no-sys", "import io\ndef serve(): open('/dev/stdout', 'w').write('frame\\n')\n"),
    ("sys-for-something-else", "import sys\ndef serve(): return sys.argv\n"),
]


@pytest.mark.parametrize("order", ["guard-first", "sdk-first"])
@pytest.mark.parametrize("body", [row[1] for row in MISFITS], ids=[row[0] for row in MISFITS])
def test_an_sdk_that_does_not_fit_any_more_is_reported_by_name(run: Run, tmp_path: Path, body: str, order: str) -> None:
    """A known SDK whose source no longer reads sys.stdout is said by the module's name with the remedy; the server
    goes on."""
    fake(tmp_path, body)
    first, second = ("import mcp.server.stdio\n", "") if order == "sdk-first" else ("", "import mcp.server.stdio\n")
    done = run(f"{second}answer()\n", prelude=first + PRELUDE)
    assert (done.wire, done.status) == (FRAME, 0), done.text
    (said,) = done.report
    assert said.startswith("the adapter does not fit this version of mcp.server.stdio (it does not read sys.stdout)")
    assert "guard.wire" in said and "STDOUT_GUARD_WRITERS" in said


def test_an_sdk_that_moved_its_writer_is_reported(run: Run, tmp_path: Path) -> None:
    """An SDK whose writer module is gone, and whose frames now come from another module, gets the message of unnamed
    writers with the module's new name."""
    write(
        tmp_path,
        {"mcp/__init__.py": "", "mcp/transport.py": "import sys\ndef send(text): sys.stdout.write(text + '\\n')\n"},
    )
    done = run(f"import mcp.transport\nmcp.transport.send({TEXT!r})\nanswer()\n")
    assert (done.wire, done.status) == (FRAME, 0), done.text
    (said,) = done.report
    assert "module mcp.transport is not a named protocol writer" in said
    named = run(f"import mcp.transport\nmcp.transport.send({TEXT!r})\n", env={"STDOUT_GUARD_WRITERS": "mcp.transport"})
    assert (named.wire, named.text) == (FRAME, "")
