"""The house's plan: imports go down only, the ten-minute read stays one, and nothing of a machine is in the tree."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "stdout_guard"
ABOVE = ["__init__", "auto", "errors", "_fd", "_ledger", "_guard"]
MOST_LINES = 1200  # what a reader grasps in ten minutes

PROTOCOL = ["framing", "jsonrpc", "revisions", "transcript", "boundary", "recorder", "writer", "compat", "loops"]
MEETING = {"adapters", "testing", "pytest_plugin", "cli", "__main__", "_run", "_validate"}  # where the halves meet
SHARED = {"errors"}


def modules() -> list[str]:
    """Every module of the package, dotted, without the package's own name."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts))
    return names


def tree(module: str) -> ast.Module:
    """The syntax tree of a module by its dotted name."""
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text("utf-8"), str(path))


def imported(module: str, typing_too: bool = False) -> Iterator[str]:
    """Dotted names that ``module`` imports, anywhere in it; what only a type checker reads is left out."""
    here = module.split(".") if (PACKAGE.joinpath(*module.split("."))).is_dir() else module.split(".")[:-1]

    def walk(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing_too:
            for child in node.orelse:
                yield from walk(child)
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = ["stdout_guard", *here][: len(here) + 2 - node.level]
                stem = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            else:
                stem = node.module or ""
            for alias in node.names:
                yield f"{stem}.{alias.name}"
            yield stem
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(tree(module))


def ours(module: str) -> set[str]:
    """Top parts of our own modules that ``module`` imports (``adapters`` for ``stdout_guard.adapters.sdk``)."""
    tops = {name.split(".")[1] for name in imported(module) if name.startswith("stdout_guard.")}
    known = {name.split(".")[0] for name in modules()}
    return {top for top in tops if top in known}


def top(module: str) -> str:
    return module.split(".")[0]


def half(roots: list[str]) -> dict[str, set[str]]:
    """Each module that ``roots`` import, at any time and through any other: what it imports itself of ours."""
    found: dict[str, set[str]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and name not in SHARED | MEETING:
            found[name] = ours(name)
            waiting += sorted(found[name])
    return found


def test_the_guard_knows_no_protocol() -> None:
    """The files above the line, and all that they load later, import no module of the protocol half, and none where
    the halves meet but the adapters of one file (the SDKs' by dotted name, the children's)."""
    guard = half([name for name in ABOVE if name not in SHARED])
    assert {"_outlets"} <= guard.keys()
    for module, names in guard.items():
        assert not names & set(PROTOCOL), (module, names)
        assert not names & MEETING - ({"adapters"} if module == "_guard" else set()), (module, names)


def test_the_protocol_half_knows_no_guard() -> None:
    """No module of the protocol half, nor any that it loads, is one of the guard or one where they meet."""
    guard = half([name for name in ABOVE if name not in SHARED]).keys()
    for module, names in half(PROTOCOL).items():
        wrong = (names | {module}) & (guard | MEETING) - {"__init__"}
        assert not wrong, (module, wrong)


IO = {
    "socket",
    "select",
    "selectors",
    "subprocess",
    "logging",
    "asyncio",
    "multiprocessing",
    "tempfile",
}
IO |= {"pathlib", "shutil", "urllib", "http", "ssl", "signal", "io"}

CLOCKS_AND_LOCKS = {
    "os.urandom",
    "time.time",
    "time.monotonic",
    "threading.Lock",
    "threading.RLock",
    "threading.get_ident",
}
CLOCKS_AND_LOCKS |= {"_thread.allocate_lock", "_thread.RLock", "_thread.get_ident", "_thread._local"}


@pytest.mark.parametrize("module", ["framing", "jsonrpc", "revisions", "transcript", "boundary", "recorder"])
def test_the_protocol_half_does_no_io(module: str) -> None:
    """Bytes in, events out: nothing that reads, writes, sleeps or logs is imported or called, in the module or in one
    of its half that it loads; of os only urandom, of time only the clocks, of threading only the locks."""
    for name in half([module]):
        names = {dotted.split(".")[0] for dotted in imported(name)}
        assert not names & IO, (name, names & IO)
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = f"{node.value.id}.{node.attr}"
                if node.value.id in ("os", "time", "threading", "_thread") and node.value.id in names:
                    assert used in CLOCKS_AND_LOCKS, (name, used)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"print", "open", "input", "breakpoint"}, (name, node.func.id)


def test_imports_go_down_only() -> None:
    """No module is imported, at any depth, by one that it imports itself at its own import (no cycles at the top
    level)."""
    graph = {name: _at_import(name) for name in modules()}

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, (*path, name))
        done.add(name)

    done: set[str] = set()
    for name in graph:
        visit(name, ())


def _at_import(module: str) -> set[str]:
    """Our modules that ``module`` imports when it is itself imported."""
    body = [
        node
        for node in tree(module).body
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    ]
    known = set(modules())
    here = module.split(".") if PACKAGE.joinpath(*module.split(".")).is_dir() else module.split(".")[:-1]
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom):
                stem = (["stdout_guard", *here][: len(here) + 2 - inner.level] if inner.level else []) + (
                    inner.module or ""
                ).split(".")
                dotted = ".".join(part for part in stem if part)
                for alias in inner.names:
                    for name in (f"{dotted}.{alias.name}", dotted):
                        short = name.removeprefix("stdout_guard.")
                        if name.startswith("stdout_guard.") and short in known:
                            found.add(short)
                            break
            elif isinstance(inner, ast.Import):
                found |= {
                    a.name.removeprefix("stdout_guard.")
                    for a in inner.names
                    if a.name.removeprefix("stdout_guard.") in known
                }
    return found - {module}


def test_only_one_file_imports_wrapt() -> None:
    """wrapt is imported by adapters/sdk.py alone."""
    users = [name for name in modules() if any(top(n) == "wrapt" for n in imported(name, typing_too=True))]
    assert users == ["adapters.sdk"], users


def test_third_party_imports() -> None:
    """Nothing but wrapt, typing_extensions, jsonschema (in a function) and pytest (in the plugin and the gate) is
    imported from outside the standard library."""
    import sys

    allowed = {
        "wrapt": {"adapters.sdk"},
        "typing_extensions": None,
        "jsonschema": None,
        "pytest": None,
        "_pytest": None,
        "sitecustomize": {"testing._witness"},
    }
    for module in modules():
        for name in imported(module):
            first = top(name)
            if first in sys.stdlib_module_names or first in ("stdout_guard", "__future__", ""):
                continue
            assert first in allowed, (module, name)
            assert allowed[first] is None or module in (allowed[first] or ()), (module, name)
            if first in ("pytest", "_pytest"):
                assert top(module) in ("pytest_plugin", "testing"), (module, name)


def test_the_ten_minute_read() -> None:
    """The files above the line have at most 1,200 lines in all."""
    lines = {name: len((PACKAGE / f"{name}.py").read_text("utf-8").splitlines()) for name in ABOVE}
    assert sum(lines.values()) <= MOST_LINES, (sum(lines.values()), lines)


def test_each_file_says_what_it_is_for() -> None:
    """Every module opens with a docstring whose first line is a sentence."""
    for module in modules():
        text = ast.get_docstring(tree(module))
        assert text and text.splitlines()[0].strip(), module


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60, check=False)
    if listed.returncode:  # an unpacked sdist
        return [path for path in ROOT.rglob("*") if path.is_file() and ".git" not in path.parts]
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_nothing_of_a_machine_is_in_the_tree() -> None:
    """Machine paths, package-registry hosts and the like are nowhere in the tree."""
    words = [
        "/wo" + "rk/",
        "/ro" + "ot/",
        "/tm" + "p/w/",
        "pypi" + ".org",
        "files.python" + "hosted",
        "registry.npm" + "js",
    ]
    words += ["index" + "-url", "find" + "-links"]
    found = []
    for path in _tracked():
        if not path.is_file():
            continue
        text = path.read_bytes()
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word.encode() in text]
    assert not found, found
