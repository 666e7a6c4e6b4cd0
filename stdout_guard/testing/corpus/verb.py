"""`stdout-guard corpus list|show|add`: look at the hostile corpus from a terminal, and add the defect just found."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from stdout_guard.recorder import STAGES
from stdout_guard.testing.corpus import HOME, CorpusError, adding, find, load

_SHOWN = 400


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb; ``--dir`` names another corpus folder, such as one of your own tests."""
    verbs = parser.add_subparsers(dest="corpus_verb", metavar="list|show|add", required=True)
    listing = verbs.add_parser("list", help="one line for each case")
    listing.add_argument("--stage", choices=[*STAGES, "none"], help="only cases that must end at this stage")
    listing.add_argument("--format", choices=["text", "json"], default="text")
    show = verbs.add_parser("show", help="one case: its bytes and what must happen")
    show.add_argument("id")
    add = verbs.add_parser("add", help="append the bytes of a defect, close and keep-open")
    add.add_argument("file", help="the raw frame, delimiter included (- for stdin); @EVIL@ stands for the action name")
    for name in ("title", "source", "stage"):
        add.add_argument(f"--{name}", required=True, choices=STAGES if name == "stage" else None)
    add.add_argument("--why", default="")
    add.add_argument("--code", type=int, help="the error code owed; by default the stage's own")
    add.add_argument("--error-id", type=json.loads, help="the id (JSON) the reply must echo; by default null or none")
    add.add_argument("--framing", choices=["ndjson", "content-length"], default="ndjson")
    add.add_argument("--revision", default="2025-11-25")
    add.add_argument("--silent", action="store_true", help="no reply is allowed")
    add.add_argument("--fatal", action="store_true", help="the stream is lost: no keep-open variant")
    add.add_argument("--last", action="store_true", help="the input ends after these bytes")
    for sub in (listing, show, add):
        sub.add_argument("--dir", type=Path, default=HOME, help="corpus folder; by default the package's own")


def execute(args: argparse.Namespace) -> int:
    """Run one of the three; 0 done, 2 the request makes no sense, 3 the corpus cannot be read."""
    try:
        return {"list": _list, "show": _show, "add": _add}[args.corpus_verb](args)
    except (CorpusError, OSError) as error:
        print(f"stdout-guard {error}", file=sys.stderr)
        return 2 if args.corpus_verb == "add" else 3


def _list(args: argparse.Namespace) -> int:
    for case in load(args.dir):
        stage = case.expect["stage"]
        if args.stage not in (None, stage):
            continue
        if args.format == "json":
            print(json.dumps(dict(case.record)))
        else:
            print(f"{case.id:6} {stage:13} {case.policy:9} {case.framing:14} {case.revision}  {case.title}")
    return 0


def _show(args: argparse.Namespace) -> int:
    case = find(args.id, args.dir)
    for label, value in _facts(case.record):
        print(f"{label:10} {value}")
    for chunk in case.chunks:
        cut = "" if len(chunk) <= _SHOWN else f" ... ({len(chunk)} bytes)"
        print(f"{'bytes':10} {chunk[:_SHOWN]!r}{cut}")
    print(json.dumps(dict(case.expect), indent=2))
    return 0


def _facts(record: Any) -> list[tuple[str, Any]]:
    names = ("id", "title", "source", "why", "framing", "revision", "policy", "preamble", "eof")
    return [(name, record[name]) for name in names]


def _add(args: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    defect = adding.Defect(
        data=data,
        title=args.title,
        source=args.source,
        stage=args.stage,
        why=args.why,
        code=args.code,
        error_id=args.error_id,
        framing=args.framing,
        revision=args.revision,
        silent=args.silent,
        fatal=args.fatal,
        last=args.last,
    )
    print(*adding.append(defect, home=args.dir), sep="\n")
    return 0
