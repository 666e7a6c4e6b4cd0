"""The README's links, length and first screen; and that its tables say what is tested."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import environments
import pytest
from readme.blocks import README, ROOT, TEXT, all_blocks, anchors, links

from stdout_guard._guard import VARIABLES
from stdout_guard.cli import VERBS

FIVE_MINUTES = 3000  # words at 600 a minute, skimmed: code and tables are looked at, not read out


@pytest.mark.parametrize("link", links())
def test_a_link_leads_somewhere(link: str) -> None:
    """A file of the project, or a heading of the page; a link to the net is none of these, and there is none."""
    path, _, anchor = link.partition("#")
    assert "://" not in link, "links that need the net are not checked, so there are none"
    if path:
        assert (README.parent / path.replace("\\", "")).exists(), link
    else:
        assert anchor in anchors(), sorted(anchors())


def test_files_named_in_the_text_exist() -> None:
    """Every `path/file.py` in backquotes is there."""
    names = re.findall(r"`((?:examples|tests|stdout_guard|\.ci)/[\w./-]+)`", TEXT)
    assert names
    for name in names:
        assert (ROOT / name).exists(), name


def test_the_first_screen() -> None:
    """One sentence and a half, then code before line 15."""
    assert all_blocks()[0].line < 15


def test_the_length() -> None:
    """What cannot be read in five minutes is not read; what is folded away does not count."""
    assert len(re.sub(r"<details>.*?</details>", "", TEXT, flags=re.S).split()) < FIVE_MINUTES


def test_every_variable_and_verb_is_there() -> None:
    """The page documents each environment variable and each verb, and no variable that does not exist."""
    real = set(VARIABLES) | {"STDOUT_GUARD_RECORDER"}  # that one the gate sets
    assert set(re.findall(r"\bSTDOUT_GUARD(?:_[A-Z]+)?\b", TEXT)) == real
    for verb in VERBS:
        assert f"stdout-guard {verb}" in TEXT


def test_the_versions_in_the_table_are_those_that_are_tested() -> None:
    """Each version of the SDK table is pinned in an environment of the tests."""
    pins = {pin for recipe in environments.RECIPES.values() for pin in (*recipe.packages, *recipe.alone)}
    pinned = {re.sub(r"\[.*\]", "", pin) for pin in pins}
    rows = re.findall(r"^\| ([a-z][\w, ()-]+?) \| ([\d., ]+) \|", TEXT, re.M)
    assert len(rows) >= 8
    for packages, versions in rows:
        names = re.sub(r"\(.*\)", "", packages).split(",")
        for version in re.findall(r"[\d.]+\d", versions):
            assert any(f"{name.strip()}=={version}" in pinned for name in names), (packages, version)


def test_the_python_that_is_asked_for() -> None:
    """The page and the metadata name the same oldest Python."""
    (wanted,) = re.findall(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert f"Python {wanted} or later" in TEXT
    assert sys.version_info >= tuple(int(part) for part in wanted.split("."))
    assert Path(README).name == "README.md"
