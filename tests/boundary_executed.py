"""What published servers execute of the corpus' damaged frames: measure it, and write it down as a table.

`python tests/boundary_executed.py` (with the package's directory on the path) sends the corpus to every server of the
table and renews the data beside it; the Markdown for the README goes to stdout. The tool of each server writes down
what it executes, so that a frame which is never answered counts too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import environments

from stdout_guard.testing import corpus, inbound
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.records import Limits
from stdout_guard.testing.run import Server

HERE = Path(__file__).parent / "boundary"
DATA = HERE / "executed.json"
CALL = Call("record", {"target": "t"})
LIMITS = Limits(quiet=3.0, start=60.0, answer=20.0, grace=2.0)

#: What is wrong with a frame, and the cases in which it is nothing but that.
KINDS: Mapping[str, tuple[str, ...]] = {
    "bytes that are not UTF-8": ("H034k", "H036k", "H039k", "H212k", "H213k", "H214k", "H215k"),
    "NaN, Infinity, 1e400": ("H041k", "H216k", "H217k", "H218k"),
    "a member given twice": ("H045k", "H046k", "H048k", "H226k", "H227k", "H228k"),
    "an integer of 400 or 5000 digits": ("H043k", "H230k"),
    "arguments nested 200 to 5000 deep": ("H050k", "H231k", "H232k"),
    "a carriage return between tokens": ("H015k",),
    "an id that is true, false or 7.0": ("H057k", "H238k", "H240k"),
    "a request that is an answer too": ("H064k", "H065k"),
    "a member nobody knows": ("H245k", "H246k"),
    "`_meta` null, or a progress token that is true or 1.5": ("H093k", "H267k", "H268k"),
    "2026-07-28 without the client's capabilities": ("H286k",),
    "the 101st bad frame, then a good one": ("H121k",),
}


@dataclass(frozen=True)
class Column:
    """One published server: its name and version, the environment it lives in, and our script on it."""

    name: str
    environment: str
    script: str


COLUMNS = (
    Column("mcp 1.9.4", "oldest", "recorder_mcp1.py"),
    Column("mcp 1.30.0", "mcp1", "recorder_mcp1.py"),
    Column("mcp 2.3.0", "newest", "recorder_mcp2.py"),
    Column("fastmcp 2.14.7", "fastmcp2", "recorder_fastmcp.py"),
    Column("fastmcp 3.4.11", "mcp1", "recorder_fastmcp.py"),
    Column("fastmcp 4.2.3", "newest", "recorder_fastmcp.py"),
    Column("TypeScript SDK 1.32.2", "npm", "recorder_ts.cjs"),
)


def server(column: Column) -> Server:
    """The column's server, ready to be started."""
    script = str(HERE / "servers" / column.script)
    if column.environment == "npm":
        path = str(environments.node_modules() / "node_modules")
        return Server(column.name, ("node", script), env={"NODE_PATH": path}, limits=LIMITS)
    python = str(environments.python(column.environment))
    return Server(column.name, (python, script), limits=LIMITS)


def measure(column: Column, jobs: int = 2, cases: Callable[[str], bool] = lambda case_id: True) -> list[str]:
    """The ids of the cases whose refused frame reached the server's tool, sorted."""
    load = corpus.load
    inbound.corpus.load = lambda: [case for case in load() if cases(case.id)]
    try:
        return sorted(inbound.put(server(column), CALL, jobs)[1])
    finally:
        inbound.corpus.load = load


def kinds_of(case_id: str) -> list[str]:
    """The kinds a case belongs to."""
    return [kind for kind, ids in KINDS.items() if case_id in ids]


def markdown(found: Mapping[str, list[str]]) -> str:
    """The table: how many of a kind's frames each server executed."""
    names = [column.name for column in COLUMNS]
    lines = [f"| the frame holds | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for kind, ids in KINDS.items():
        cells = [str(len(set(ids) & set(found[name]))) for name in names]
        lines.append(f"| {kind} ({len(ids)}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every server, renew the data and print the table."""
    found = {column.name: measure(column) for column in COLUMNS}
    DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
