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
STATUSES = "exit status: 0 clean, 1 contract broken, 2 usage, 3 could not be judged"
EXAMPLES = {  # what a verb's --help ends with, unless the verb has an epilog of its own
    "check": """\
examples:
  stdout-guard check -- my-server --flag
  stdout-guard check --condition plain -- python -m my_server      (the quick look)
  stdout-guard check --package my-server --junit report.xml -- my-server
  stdout-guard check --call 'add={"a": 1, "b": 2}' -- my-server    (calls a tool of it)""",
    "validate": """\
examples:
  my-server <requests.jsonl >captured.bin; stdout-guard validate captured.bin --sent requests.jsonl
  my-language-server <session.bin | stdout-guard validate --framing content-length""",
    "corpus": """\
examples:
  stdout-guard corpus list --stage json
  stdout-guard corpus show ID       (an id of the list)
  stdout-guard check --corpus -- my-server""",
    "": """\
examples:
  stdout-guard run my-server --flag          the server, guarded
  stdout-guard check -- my-server --flag     does it keep stdout clean?
  stdout-guard VERB --help""",
}


def build_parser(wanted: str | None) -> argparse.ArgumentParser:
    """The parser with every verb listed; only the wanted one (all of them for ``--help``) is imported."""
    formatter = argparse.RawDescriptionHelpFormatter
    about = "Keep stdout for the protocol alone, and prove that it is so."
    parser = argparse.ArgumentParser("stdout-guard", description=about, epilog=_epilog(""), formatter_class=formatter)
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, module_name in VERBS.items():
        if wanted == "--version" or (wanted in VERBS and wanted != name):
            continue
        module = importlib.import_module(module_name)
        sub = verbs.add_parser(name, help=module.HELP, description=module.HELP, formatter_class=formatter)
        sub.set_defaults(execute=module.execute)
        module.configure(sub)
        sub.epilog = sub.epilog or _epilog(name)
    return parser


def _epilog(verb: str) -> str:
    return f"{EXAMPLES[verb]}\n\n{STATUSES}" if verb in EXAMPLES else STATUSES


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(arguments[0] if arguments else None)
    args = parser.parse_args(arguments)
    if args.version:
        from stdout_guard import __version__

        print("stdout-guard", __version__)
        return 0
    if args.verb is None:
        parser.print_help(sys.stderr)
        print("\nstdout-guard: no VERB given; begin with: stdout-guard check -- YOUR-SERVER", file=sys.stderr)
        return 2
    status: int = args.execute(args)
    return status
