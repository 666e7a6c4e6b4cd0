"""``stdout-guard check``: run a server's real command under every condition and judge all that it writes.

Exit status: 0 clean, 1 broken (an executed refused frame and a stale expected failure count), 2 usage, 3 could not be
tested, which is never called clean.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from stdout_guard.testing import gate
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import ConfigError, Plan, choose, limits_from, load, protocol
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.protocols import PROTOCOLS
from stdout_guard.testing.records import Limits
from stdout_guard.testing.run import Server, name_of

if TYPE_CHECKING:  # loaded while the server starts
    from stdout_guard.testing.safe import Redactor

HELP = "run a server under many conditions, judge every byte of its stdout, and name who wrote what should not be there"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add = parser.add_argument
    add("command", nargs="*", metavar="COMMAND", help="the command of production, behind --")
    add("--config", metavar="FILE", help="a stdout-guard.toml with servers, conditions and expected failures")
    add("--server", action="append", metavar="NAME", help="only this server of the configuration (repeatable)")
    add(
        "--condition",
        action="append",
        metavar="NAME",
        help=f"only this condition (repeatable): {', '.join(CONDITIONS)}",
    )
    add("--protocol", default="mcp", choices=tuple(PROTOCOLS), help="what the server speaks (default: mcp)")
    add("--framing", choices=("ndjson", "content-length"), help="when it is not the protocol's own")
    add(
        "--call", action="append", metavar="NAME[=JSON]", help="tool or method to call, with its arguments (repeatable)"
    )
    add("--env", action="append", metavar="NAME=VALUE", help="a variable for the server (repeatable)")
    add("--cwd", metavar="DIR", help="folder to start the server in")
    add("--effects", action="append", metavar="PATH", help="a path that must not change while refused lines are sent")
    add("--exit", action="append", type=int, metavar="N", help="an exit status that is right (default: 0)")
    add("--start-failure", metavar="JSON", help='forces a start-up failure: {"env": {...}, "arguments": [...]}')
    add("--limit", action="append", metavar="NAME=SECONDS", help="a deadline: start, answer, quiet, grace, term, drain")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--wheel", metavar="PATH", help="install this wheel into a fresh environment and run it there")
    form.add_argument(
        "--package", metavar="NAME", help="install this package into a fresh environment and run it there"
    )
    add("--corpus", action="store_true", help="also send the corpus of hostile inbound frames, one start for each")
    add("--no-culprit", action="store_true", help="do not run a dirty server a second time to find who wrote it")
    add("--jobs", type=int, default=0, metavar="N", help="conditions at a time (default: one more than processors)")
    add("--json", nargs="?", const="-", metavar="FILE", help="the report as JSON (default: to stdout, instead of text)")
    add("--junit", metavar="FILE", help="the report as JUnit XML")
    add(
        "--out", metavar="DIR", help="a folder for stdin.bin, stdout.bin, stderr.txt, report.json, repro.sh and env.txt"
    )


def execute(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit status."""
    try:
        plans = _plans(args)
    except ConfigError as error:
        print(f"stdout-guard check: {error}", file=sys.stderr)
        return 2
    try:
        results = [_run(plan, args) for plan in plans]
    except KeyboardInterrupt:
        print("stdout-guard check: interrupted; nothing was judged", file=sys.stderr)
        return 3
    from stdout_guard.testing.safe import Redactor

    redactor = Redactor.from_environment(dict(os.environ), *(plan.server.env for plan in plans))
    try:
        _report(results, redactor, args)
    except OSError as error:
        print(f"stdout-guard check: the report could not be written: {error}", file=sys.stderr)
        return max(gate.status(results), 3) if gate.status(results) != 1 else 1
    return gate.status(results)


def _run(plan: Plan, args: argparse.Namespace) -> gate.ServerResult:
    progress = _progress(plan.server.name) if sys.stderr.isatty() else None
    try:
        return gate.check(plan, jobs=args.jobs, progress=progress, find_culprits=not args.no_culprit)
    finally:
        if progress is not None:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _progress(server: str) -> gate.Progress:
    def show(condition: str, done: int, total: int) -> None:
        line = "".join(char for char in f"[{done + 1}/{total}] {server}: {condition}" if char.isprintable())
        print(f"\r\x1b[K{line[:76]}", end="", file=sys.stderr, flush=True)

    return show


def _report(results: Sequence[gate.ServerResult], redactor: Redactor, args: argparse.Namespace) -> None:
    # each report's module is loaded when it is asked for: the gate must cost little beside the server's own start
    attached: dict[int, list[str]] = {}
    if args.out:
        from stdout_guard.testing import artefacts

        attached = artefacts.write(args.out, results, redactor)
    if args.junit:
        from stdout_guard.testing import junit

        junit.write(args.junit, results, redactor, attached)
    if args.json:
        from stdout_guard.testing import jsonreport

        report = json.dumps(jsonreport.render(results, redactor), indent=1) + "\n"
        if args.json == "-":
            _print(report)
        else:
            with open(args.json, "w", encoding="utf-8") as file:
                file.write(report)
    from stdout_guard.testing import text

    if args.json != "-":
        _print(text.render(results, redactor))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from stdout_guard.testing import github

        stream = sys.stderr if args.json == "-" else sys.stdout
        for line in github.commands(results, redactor):
            print(line, file=stream, flush=True)
        github.write_summary(results, redactor)


def _print(report: str) -> None:
    """To stdout whatever its encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    print(report.encode(encoding, "backslashreplace").decode(encoding), end="", flush=True)


def _plans(args: argparse.Namespace) -> list[Plan]:
    if args.config:
        if args.command or args.wheel or args.package:
            raise ConfigError("give --config or a command, not both")
        settings = load(args.config)
        names = [plan.server.name for plan in settings.plans]
        for name in args.server or ():
            if name not in names:
                raise ConfigError(f"no server {name!r} in {args.config}; there are {', '.join(names)}")
        chosen = [plan for plan in settings.plans if not args.server or plan.server.name in args.server]
        if args.condition:
            picked, skipped = choose(settings.table, args.condition, None)
            chosen = [replace(plan, conditions=picked, skipped=skipped, expected=()) for plan in chosen]
        return chosen
    if not args.command and not (args.wheel or args.package):
        raise ConfigError("no command: write it behind --, or give --config, --wheel or --package")
    failure = _json(args.start_failure, "--start-failure") if args.start_failure else None
    conditions, skipped = choose(CONDITIONS, args.condition, failure)
    return [Plan(_server(args), conditions, skipped, (), args.wheel, args.package, args.corpus)]


def _server(args: argparse.Namespace) -> Server:
    packaged = str(args.wheel or args.package)
    return Server(
        name=name_of(args.command) if args.command else os.path.basename(packaged),
        command=tuple(args.command),
        protocol=protocol(args.protocol, args.framing),
        env=dict(_pair(word, "--env") for word in args.env or ()),
        cwd=args.cwd,
        calls=tuple(_call(word) for word in args.call or ()),
        effects=tuple(args.effects or ()),
        exits=tuple(args.exit or (0,)),
        limits=_limits(args.limit or ()),
    )


def _limits(words: Sequence[str]) -> Limits:
    try:
        return limits_from(dict(_pair(word, "--limit") for word in words))
    except ValueError as error:
        raise ConfigError(f"--limit: {error}") from error


def _call(word: str) -> Call:
    name, equals, arguments = word.partition("=")
    return Call(name, _json(arguments, f"--call {name}") if equals else {})


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise ConfigError(f"{option} {word!r}: write NAME=VALUE")
    return name, value


def _json(value: str, option: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{option}: a JSON object is wanted, not {value!r}")
    return cast(dict[str, Any], found)
