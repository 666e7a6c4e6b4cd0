"""``stdout-guard run``: a Python server that cannot be edited, under the guard, in this same process."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

HELP = "run a Python server (SCRIPT, -m MODULE or an installed COMMAND) under the guard"
USAGE = 2
EXAMPLE = """examples:
  stdout-guard run server.py --port 0
  stdout-guard run --mode strict -m my_server
  stdout-guard run mcp-server-time --local-timezone UTC

The exit status and signals are the server's own; strict mode adds status 120 for a run with stray writes.
Everything after SCRIPT, MODULE or COMMAND belongs to the server."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLE
    parser.add_argument("--mode", choices=("off", "redirect", "strict"), help="as STDOUT_GUARD, which wins")
    parser.add_argument(
        "-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module, as python -m"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT | COMMAND [ARGS]")


def execute(args: argparse.Namespace) -> int:
    """Run the server; does not return before it ends. 2 when there is no Python program by that name."""
    target: list[str] = args.module or args.command
    if target[:1] == ["--"]:
        target = target[1:]
    if not target:
        return _refuse("nothing to run: give a SCRIPT, -m MODULE, or an installed COMMAND")
    start = _module(target) if args.module else _program(target)
    if isinstance(start, str):
        return _refuse(start)
    if (os.environ.get("STDOUT_GUARD") or args.mode) != "off":
        from ._guard import install_from

        install_from(None, {"mode": args.mode})  # no installer: the application is what runs as __main__
    sys.argv = target
    sys.exit(start())  # type: ignore[arg-type]


def _refuse(why: str) -> int:
    print(f"stdout-guard run: {why}", file=sys.stderr)
    return USAGE


def _module(target: list[str]) -> Callable[[], object]:
    import runpy

    sys.path.insert(0, os.getcwd())
    return lambda: runpy.run_module(target[0], run_name="__main__", alter_sys=True) and None


def _program(target: list[str]) -> Callable[[], object] | str:
    """How to run a script by path, or an installed command by name or path; a text when it is neither."""
    name = target[0]
    if os.path.isdir(name) and os.path.isfile(os.path.join(name, "__main__.py")):
        return _script(name)
    command = os.path.basename(name)
    point = next((point for point in entry_points(group="console_scripts") if point.name == command), None)
    if point is not None and (_is_stub(name, point.module) if os.path.isfile(name) else command == name):
        return lambda: _load_entry(point, target)
    path = name if os.path.isfile(name) else shutil.which(name)
    if path is None:
        return f"{name!r} is neither a file nor a command on PATH; is it installed in this environment ({sys.prefix})?"
    python = path.endswith((".py", ".pyw", ".pyz")) or _is_zip(path) or _is_ours(path)
    return _script(path) if python else _not_python(path)


def _is_stub(path: str, module: str) -> bool:
    """True for the few lines that an installer writes for a command whose function lies in ``module``."""
    with open(path, "rb") as file:
        head = file.read(2048)
    return module.encode() in head and b"sys.exit(" in head


def _load_entry(point: Any, target: list[str]) -> object:
    """What the console script's own two lines do."""
    sys.argv[0] = shutil.which(target[0]) or target[0]
    from . import current

    guard = current()
    function = point.load()
    if guard is not None:
        module = sys.modules[point.module]
        guard.sites.learn(vars(module), getattr(module, "__file__", None) or "<entry>")
    return function()


def _script(path: str) -> Callable[[], object]:
    import runpy

    if os.path.isdir(path) or _is_zip(path):
        return lambda: runpy.run_path(path, run_name="__main__") and None
    return lambda: _run_main(path)


def _run_main(path: str) -> None:
    """Execute a script as the real ``__main__`` (multiprocessing and pickle look for it there)."""
    path = os.path.abspath(path)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=__builtins__, __spec__=None, __cached__=None, __loader__=None)
    sys.modules["__main__"] = main
    sys.path.insert(0, os.path.dirname(path))
    exec(code, vars(main))


def _is_zip(path: str) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def _is_ours(path: str) -> bool:
    """True for a Python script that names this interpreter (or the one it links to) in its first lines."""
    with open(path, "rb") as file:
        head = file.read(512)
    if not head.startswith(b"#!") or b"python" not in head:
        return False
    words = head.decode("utf-8", "replace").replace("'''exec'", " ").replace('"', " ").split()
    named = [word.lstrip("#!") for word in words if "python" in os.path.basename(word)]
    return any(
        os.path.basename(word) == word
        or os.path.dirname(word) == os.path.dirname(sys.executable)
        or word.endswith("/env")
        for word in named
    )


def _not_python(path: str) -> str:
    with open(path, "rb") as file:
        head = file.read(512)
    if head.startswith(b"#!") and b"python" in head:
        interpreter = head[2:].split(b"\n")[0].decode("utf-8", "replace").strip()
        return (
            f"{path} belongs to another interpreter ({interpreter}); install stdout-guard there and run "
            f"'{interpreter} -m stdout_guard run ...'"
        )
    kind = "a binary program" if b"\0" in head else "not a Python program"
    return (
        f"{path} is {kind}: the guard works inside a Python process only; to judge another program's stdout from "
        "outside, use 'stdout-guard check -- COMMAND'"
    )
