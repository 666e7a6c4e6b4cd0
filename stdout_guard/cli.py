"""The command line: one table of verbs, each loaded only when it is called.

A verb is a module with ``HELP`` (one line), ``configure(parser)`` and ``execute(args) -> int`` (the exit status).
Exit statuses, the same for every verb: 0 clean, 1 contract broken, 2 usage, 3 could not be judged
(``run`` passes the server's own status through; strict adds 120).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

VERBS = {
    "run": "stdout_guard._run",
    "check": "stdout_guard.testing.check",
    "validate": "stdout_guard._validate",
    "corpus": "stdout_guard.testing.corpus",
}


def build_parser(wanted: str | None) -> argparse.ArgumentParser:
    """The parser with every verb listed; only the wanted one (all of them for ``--help``) is imported."""
    parser = argparse.ArgumentParser(prog="stdout-guard", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, module_name in VERBS.items():
        if wanted is not None and wanted in VERBS and wanted != name:
            continue
        module = importlib.import_module(module_name)
        sub = verbs.add_parser(name, help=module.HELP, description=module.HELP)
        sub.set_defaults(execute=module.execute)
        module.configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(arguments[0] if arguments else None)
    args = parser.parse_args(arguments)
    if args.version:
        from importlib.metadata import version

        print("stdout-guard", version("stdout-guard"))
        return 0
    if args.verb is None:
        parser.print_help()
        return 2
    status: int = args.execute(args)
    return status
