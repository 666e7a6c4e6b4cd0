"""The airbyte adapter on stand-ins of the SDK's odd modules: order, flush, and what is said when one does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guard.conftest import run as run  # a fixture
from guard.harness import FRAME, Result

BUFFER = """\
import sys
class PrintBuffer:
    def __init__(self): self.text = ""
    def write(self, text): self.text += text
    def flush(self): sys.__stdout__.write(self.text); self.text = ""
    def __enter__(self): self.old, sys.stdout, sys.stderr = sys.stdout, self, self; return self
    def __exit__(self, *error): self.flush(); sys.stdout = sys.stderr = self.old
"""
ENTRY = """\
import sys
from airbyte_cdk.utils.print_buffer import PrintBuffer
def launch(step):
    print(FRAMES[0], end="")
    with PrintBuffer() as buffer:
        buffer.write(FRAMES[1])
        print(FRAMES[2], end="")
        step()
        print("to a file", file=sys.stderr)
        print(FRAMES[3].strip(), flush=True)
        assert buffer.text == "", buffer.text
"""


def lay_out(folder: Path, entry: str) -> None:
    for name, text in {
        "airbyte_cdk/__init__.py": "",
        "airbyte_cdk/utils/__init__.py": "",
        "airbyte_cdk/utils/print_buffer.py": BUFFER,
        "airbyte_cdk/entrypoint.py": entry,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@pytest.mark.parametrize("first", ["guard", "sdk"])
def test_prints_and_logs_in_their_order(run: Callable[..., Result], tmp_path: Path, first: str) -> None:
    """What goes through the buffer and what is printed are one flow; the connector's own print is a stray."""
    frames = [FRAME.decode().replace("1,", f"{number},") for number in range(4)]
    lay_out(tmp_path, f"FRAMES = {frames!r}\n{ENTRY}")
    lines = ["import stdout_guard.auto", "import airbyte_cdk.entrypoint as entry"]
    done = run(
        "\nentry.launch(lambda: print('stray'))  #@a\nprint('after')  #@b\n",
        prelude="; ".join(lines if first == "guard" else reversed(lines)),
    )
    assert (done.wire, done.status) == ("".join(frames).encode(), 0), done.text
    assert done.report == done.at("server.py:{a} in <lambda>: stray", "server.py:{b} in <module>: after"), done.text
    assert "to a file" in done.lines, done.text


def test_a_release_that_prints_no_more_is_named(run: Callable[..., Result], tmp_path: Path) -> None:
    """An entry point whose frames leave some other way is reported by name, once."""
    lay_out(tmp_path, "def launch():\n    return 1\n")
    done = run("\nimport airbyte_cdk.entrypoint\nanswer()\n")
    said = "the adapter does not fit this version of airbyte_cdk.entrypoint (it does not print)"
    assert done.wire == FRAME and done.text.count(said) == 1, done.text
