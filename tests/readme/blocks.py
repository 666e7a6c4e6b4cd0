"""The README taken apart: its fenced blocks with their names, its headings and its links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
MARK = re.compile(r"<!-- test: (\w+) -->\n\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block: its name from the comment above it ("" without one), language, text and line."""

    name: str
    language: str
    text: str
    line: int

    @property
    def commands(self) -> list[str]:
        """The lines after a ``$`` prompt."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def all_blocks() -> list[Block]:
    """Every fenced block, in order."""
    found: list[Block] = []
    for match in FENCE.finditer(TEXT):
        mark = MARK.search(TEXT[: match.start()])
        line = TEXT.count("\n", 0, match.start()) + 1
        found.append(Block(mark[1] if mark else "", match[1], match[2], line))
    return found


BLOCKS = {block.name: block for block in all_blocks()}


def anchors() -> set[str]:
    """What GitHub makes of each heading: lower case, punctuation out, spaces to hyphens."""
    without_code = FENCE.sub("", TEXT)
    headings = re.findall(r"^#+ (.*)$", without_code, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links() -> list[str]:
    """The targets of all links."""
    return re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", TEXT))


def words(command: str) -> list[str]:
    """A command's words, as a shell parts them."""
    return shlex.split(command)
