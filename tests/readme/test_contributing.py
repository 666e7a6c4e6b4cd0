"""What the page tells contributors: an SDK's row is all it takes, and the machinery around the tests is in order."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import environments
import pytest
from guard.conftest import run as run  # a fixture
from guard.harness import FRAME, Result
from readme.blocks import ROOT, TEXT


@pytest.mark.parametrize("style", ["shadow", "printing"])
def test_an_sdk_adapter_is_one_row_and_one_name(run: Callable[..., Result], tmp_path: Path, style: str) -> None:
    """With the row and the top-level name added, as the page says, an SDK nobody knew has the wire in both orders."""
    ours = tmp_path / "changed" / "stdout_guard"
    shutil.copytree(ROOT / "stdout_guard", ours, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in [
        ("adapters/__init__.py", "ROWS = {\n", f'ROWS = {{\n    "newsdk.out": ("{style}", False),\n'),
        ("_guard.py", 'SDKS = ("mcp", ', 'SDKS = ("newsdk", "mcp", '),
    ]:
        text = (ours / name).read_text("utf-8")
        assert text.count(old) == 1, name
        (ours / name).write_text(text.replace(old, new), "utf-8")
    send = {"shadow": "sys.stdout.write(text)", "printing": "print(text, end='')"}[style]
    (tmp_path / "newsdk").mkdir()
    (tmp_path / "newsdk" / "__init__.py").touch()
    (tmp_path / "newsdk" / "out.py").write_text(f"import sys\ndef send(text):\n    {send}\n", "utf-8")
    for prelude in (
        "import stdout_guard.auto; import newsdk.out as out",
        "import newsdk.out as out; import stdout_guard.auto",
    ):
        source = f"\nprint('stray')  #@a\nout.send({FRAME.decode()!r})\n"
        done = run(source, prelude=prelude, env={"PYTHONPATH": str(ours.parent)})
        assert (done.wire, done.status) == (FRAME, 0), done.text
        assert done.report == done.at("server.py:{a} in <module>: stray"), done.text


def test_the_words_of_the_adapters_are_those_of_the_page() -> None:
    """The page names the ways that the table knows."""
    from stdout_guard.adapters import ROWS

    for how in ("shadow", "printing"):
        assert f"`{how}`" in TEXT and how in {row[0] for row in ROWS.values()}


@pytest.mark.timeout(900)
def test_the_workflow_says_what_has_not_been_seen() -> None:
    """The workflow is YAML; what has never run may fail, and everything else may not."""
    path = ROOT / ".github" / "workflows" / "test.yml"
    text = path.read_text("utf-8")
    assert text.startswith("# Not yet seen running")
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)['jobs']))"
    line = [environments.python("newest"), "-c", code]
    jobs = json.loads(subprocess.run(line, input=text, capture_output=True, text=True, timeout=60, check=True).stdout)
    matrix = jobs["wheel"]["strategy"]["matrix"]
    assert (matrix["os"], matrix["unseen"]) == (["ubuntu-latest"], [False])
    assert {"macos-latest", "windows-latest"} <= {row["os"] for row in matrix["include"]}
    assert all(row["unseen"] for row in matrix["include"])
    assert [step["run"] for step in jobs["everything"]["steps"] if "run" in step] == [".ci/run"]
