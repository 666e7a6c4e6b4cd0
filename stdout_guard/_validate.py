"""``stdout-guard validate``: judge a captured channel from a file or stdin.

Exit statuses: 0 clean, 1 contract broken, 2 usage, 3 the input could not be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import IO

from stdout_guard.framing import FRAMINGS
from stdout_guard.revisions import DIRECTIONS, REVISIONS
from stdout_guard.transcript import Report, Transcript, explain

HELP = "judge captured stdout (or stdin, with --direction) to the last byte"
_PIECE = 1 << 16


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="captured bytes; - reads stdin (default)")
    parser.add_argument("--framing", choices=FRAMINGS, default="ndjson", help="default: %(default)s")
    parser.add_argument("--direction", choices=DIRECTIONS, default=DIRECTIONS[0], help="default: %(default)s")
    parser.add_argument(
        "--revision", choices=("auto", *REVISIONS), default="auto", help="default: what the transcript negotiated"
    )
    parser.add_argument("--sent", metavar="FILE", help="what the other side wrote: judges the session too")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")


def execute(args: argparse.Namespace) -> int:
    """Judge and print; the exit status."""
    try:
        report = _judge(args)
    except OSError as error:
        print(f"stdout-guard: cannot read {error.filename or args.file}: {error.strerror}", file=sys.stderr)
        return 3
    if args.format == "json":
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print(explain(report))
        for note in report.notes[:10]:
            print(f"note: line {note.line}: {note.why} ({note.code})")
        if len(report.notes) > 10:
            print(f"note: and {len(report.notes) - 10} more")
    return 0 if report.ok else 1


def _judge(args: argparse.Namespace) -> Report:
    sent = None
    if args.sent is not None:
        with open(args.sent, "rb") as file:
            sent = file.read()
    transcript = Transcript(framing=args.framing, direction=args.direction, revision=args.revision, sent=sent)
    if args.file == "-":
        _feed(transcript, sys.stdin.buffer)
    else:
        with open(args.file, "rb") as file:
            _feed(transcript, file)
    return transcript.close()


def _feed(transcript: Transcript, source: IO[bytes]) -> None:
    while piece := source.read(_PIECE):
        transcript.feed(piece)
