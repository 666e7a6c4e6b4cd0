"""What the guard loads, and when: nothing that costs, nothing before fd 1 is diverted, nothing twice."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from guard.harness import FRAME, UNDER_TEST, Result
from guard.test_adapters import fake

Run = Callable[..., Result]
COSTLY = ["wrapt", "typing", "dataclasses", "threading", "logging", "json", "inspect", "asyncio", "subprocess"]
COSTLY += [
    "re",
    "collections",
    "functools",
    "contextlib",
    "enum",
    "importlib.metadata",
    "importlib.util",
    "typing_extensions",
]
COSTLY += [
    "traceback",
    "linecache",
    "weakref",
    "ctypes",
    "socket",
    "signal",
    "tempfile",
    "warnings",
    "datetime",
    "queue",
]


@pytest.mark.parametrize("options", [(), ("-I",), ("-S",), ("-I", "-S")], ids=lambda o: " ".join(o) or "plain")
def test_a_bare_server_loads_nothing_that_costs(run: Run, options: tuple[str, ...]) -> None:
    """import stdout_guard.auto in a bare server adds none of the costly modules to sys.modules, and a stray print adds
    none either; compared before and after, since some interpreters preload a few."""
    done = run(f"""
import sys
sys.path.insert(0, {UNDER_TEST!r})
before = set(sys.modules)
from stdout_guard.auto import guard
added = set(sys.modules) - before
bad = sorted(set({COSTLY!r}) & added)
assert not bad, bad
print("hello"); print("a", "b", end="")
guard.wire.write({FRAME!r})
more = sorted(set({COSTLY!r}) & (set(sys.modules) - before))
assert not more, more
ours = sorted(n for n in added if n.startswith("stdout_guard"))
third = sorted(n for n in added - set(ours) if "." not in n and n not in sys.stdlib_module_names)
assert not third, third
below = {{"writer", "framing", "jsonrpc", "revisions", "transcript", "boundary", "recorder", "adapters", "testing", "cli"}}
assert not below & {{n.split(".")[1] for n in ours if "." in n}}, ours
""", prelude="", options=options)  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 0), done.text


ORDERS = {
    "guard-subprocess": "import stdout_guard.auto\nimport subprocess",
    "subprocess-guard": "import subprocess\nimport stdout_guard.auto",
    "guard-asyncio": "import stdout_guard.auto\nimport asyncio, subprocess",
    "guard-from": "import stdout_guard.auto\nfrom subprocess import Popen\nimport subprocess\nassert Popen is subprocess.Popen",
    "guard-mcp": "import stdout_guard.auto\nimport mcp.server.stdio\nimport subprocess",
    "guard-subprocess-mcp": "import stdout_guard.auto\nimport subprocess\nfirst = subprocess.Popen\n"
    "import mcp.server.stdio\nassert subprocess.Popen is first",
    "mcp-guard": "import mcp.server.stdio\nimport stdout_guard.auto\nimport subprocess",
    "mcp-in-subprocess-user": "import stdout_guard.auto\nimport uses_both\nimport subprocess",
    "logging-first": "import stdout_guard.auto\nimport logging.handlers, concurrent.futures\nimport mcp.server.stdio, subprocess",
    "importlib": "import stdout_guard.auto\nimport importlib\nsubprocess = importlib.import_module('subprocess')",
    "in-a-thread": "import stdout_guard.auto, _thread, time\n_thread.start_new_thread(__import__, ('subprocess',))\n"
    "import mcp.server.stdio\nimport subprocess",
    "multiprocessing-first": "import stdout_guard.auto\nimport multiprocessing.util, multiprocessing.popen_spawn_posix\nimport subprocess",
}


@pytest.mark.parametrize("order", ORDERS)
def test_one_popen_class_in_every_import_order(run: Run, tmp_path: Path, order: str) -> None:
    """Whatever is imported first, there is one subprocess module and one Popen class; its children are named, the SDK
    has its wire, and the module's loader and spec are the real ones."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.buffer.write(b'frame\\n'); sys.stdout.buffer.flush()\n")
    (tmp_path / "uses_both.py").write_text("import mcp.server.stdio\nimport subprocess\nkept = subprocess.Popen\n")
    done = run(f"""
{ORDERS[order]}
import asyncio.subprocess, gc, importlib.util, sys
popens = [c for c in gc.get_objects() if isinstance(c, type) and c.__name__ == "Popen" and c.__module__ == "subprocess"]
assert popens == [subprocess.Popen], popens
assert asyncio.subprocess.subprocess is subprocess is sys.modules["subprocess"]
assert not [m for m in sys.modules if m.startswith("uses_both")] or sys.modules["uses_both"].kept is subprocess.Popen
assert type(subprocess.__loader__).__module__.startswith(("_frozen_importlib", "importlib", "zipimport")), subprocess.__loader__
assert subprocess.__spec__.loader is subprocess.__loader__
assert importlib.util.find_spec("subprocess").origin == subprocess.__file__
subprocess.run(["echo", "hello"])  #@a
import mcp.server.stdio
mcp.server.stdio.send()
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"frame\n", 0), done.text
    (said,) = done.report
    assert said.endswith(done.at("echo, started at server.py:{a}]: hello")[0]), said


def slow(folder: Path, name: str, *, husk: bool = False) -> None:
    """Module ``name`` of the standard library, found in ``folder`` first: it sleeps, imports another, and then is the
    real one, or (``husk``) puts the real one in its place in sys.modules."""
    folder.mkdir()
    real = Path(os.__file__).with_name(f"{name}.py")
    rest = f"exec(compile(open({str(real)!r}).read(), {str(real)!r}, 'exec'))"
    if husk:
        rest = f"import sys; sys.path.remove({str(folder)!r}); del sys.modules[{name!r}]; import {name}"
    (folder / f"{name}.py").write_text(f"import time\ntime.sleep(0.5)\nimport colorsys\n{rest}\n")


@pytest.mark.parametrize(
    ("needed", "wanted", "husk"),
    [
        ("inspect", "mcp.server.stdio", False),
        ("types", "mcp.server.stdio", True),
        ("functools", "subprocess", False),
    ],
)
def test_no_import_waits_for_another_thread_that_needs_the_import_lock(
    run: Run, tmp_path: Path, needed: str, wanted: str, husk: bool
) -> None:
    """What an adapter loads may be in the middle of another thread's import, which goes on to import more: both come to
    their end. A finder that loaded it would hold the one lock that the other needs. A module that replaces itself in
    sys.modules, as collections.abc does, is a husk to the thread that waited for it: that is no misfit."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.buffer.write(b'frame\\n'); sys.stdout.buffer.flush()\n")
    slow(tmp_path / "in_place", needed, husk=husk)
    done = run(f"""
import sys, time, _thread
sys.path.insert(0, {str(tmp_path / "in_place")!r})
import stdout_guard.auto
assert not {{{needed!r}, "colorsys"}} & set(sys.modules)
_thread.start_new_thread(__import__, ({needed!r},))
while {needed!r} not in sys.modules: time.sleep(0.01)
import {wanted}
assert "colorsys" in sys.modules
import subprocess, mcp.server.stdio
subprocess.run(["echo", "hello"])  #@a
mcp.server.stdio.send()
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"frame\n", 0), done.text
    (said,) = done.report
    assert said.endswith(done.at("echo, started at server.py:{a}]: hello")[0]), said


def test_a_reloaded_module_of_an_sdk_has_the_wire_again(run: Run, tmp_path: Path) -> None:
    """Its body has run anew and put the real streams back; the frames still go out, before and after."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.write('frame\\n')\n")
    done = run("""
import importlib, subprocess
import mcp.server.stdio
mcp.server.stdio.send()
importlib.reload(mcp.server.stdio).send()
importlib.reload(subprocess).run(["echo", "hello"])  #@a
mcp.server.stdio.send()
""")
    assert (done.wire, done.status) == (b"frame\n" * 3, 0), done.text
    (said,) = done.report
    assert said.endswith(done.at("echo, started at server.py:{a}]: hello")[0]), said


def test_the_guard_may_come_while_another_thread_imports_subprocess(run: Run, tmp_path: Path) -> None:
    """It waits for the module's body, whose Popen it wraps."""
    slow(tmp_path / "in_place", "selectors")
    done = run(f"""
import sys, time, _thread
sys.path.insert(0, {str(tmp_path / "in_place")!r})
_thread.start_new_thread(__import__, ("subprocess",))
while "selectors" not in sys.modules: time.sleep(0.01)
import stdout_guard.auto
assert "Popen" in vars(sys.modules["subprocess"])
import subprocess
subprocess.run(["echo", "hello"])  #@a
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (b"", 0), done.text
    (said,) = done.report
    assert said.endswith(done.at("echo, started at server.py:{a}]: hello")[0]), said


def test_wrapt_comes_only_with_a_known_package(run: Run, tmp_path: Path) -> None:
    """wrapt is loaded with a known SDK's writer module, not for a package whose name only begins so, nor for a failed
    import, nor because a module is looked for."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.write('x')\n")
    (tmp_path / "mcpx.py").write_text("")
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "mcp.py").write_text("")
    done = run("""
import sys, importlib.util
import mcpx, my.mcp, subprocess, json
try: import acpnothing
except ImportError: pass
import mcp
assert importlib.util.find_spec("mcp.server.stdio").origin.endswith("stdio.py")
assert "wrapt" not in sys.modules
import mcp.server.stdio
assert "wrapt" in sys.modules
answer()
""")
    assert (done.wire, done.status) == (FRAME, 0), done.text


def test_a_known_package_that_is_not_installed_is_an_ordinary_import_error(run: Run) -> None:
    """try: import mcp / except ImportError works as ever where mcp is not installed."""
    done = run("""
from importlib.machinery import PathFinder
missing = [name for name in ("mcp", "pygls", "acp", "singer", "singer_sdk", "airbyte_cdk") if not PathFinder.find_spec(name)]
assert missing, "every known SDK is installed here: nothing was tested"
import importlib.util
for name in missing:
    assert importlib.util.find_spec(name) is None
    try: __import__(name)
    except ModuleNotFoundError as error: assert error.name == name and str(error) == f"No module named {name!r}", error
    else: raise SystemExit("imported")
answer()
""")
    assert (done.wire, done.status, done.text) == (FRAME, 0, "")


def test_our_modules_below_the_line_come_after_fd_1_is_diverted(run: Run) -> None:
    """Only built-in or loaded modules and our own files above the line are imported before fd 1 is another file; what
    prints at its import later (a planted errno-like module) is a stray, not a frame."""
    done = run(f"""
import os, sys
sys.path.insert(0, {UNDER_TEST!r})
out = os.fstat(1)
seen = []
class Spy:
    def find_spec(self, name, path=None, target=None):
        now = os.fstat(1)
        seen.append((name, (now.st_dev, now.st_ino) == (out.st_dev, out.st_ino)))
sys.meta_path.insert(0, Spy())
calls = []
def audit(event, args):
    if event == "import" and args: calls.append(args[0])
sys.addaudithook(audit)
from stdout_guard.auto import guard
early = [name for name, still in seen if still]
above = {{"", "auto", "errors", "_fd", "_ledger", "_guard"}}
ours = {{n.partition(".")[2] for n in early if n.partition(".")[0] == "stdout_guard"}}
assert ours <= above, ours - above
others = {{n for n in early if n.partition(".")[0] != "stdout_guard"}}
allowed = {{"os", "sys", "io", "fcntl", "select", "atexit", "errno", "time", "_thread"}}
assert others <= allowed | set(sys.builtin_module_names), others - allowed
assert seen and calls
answer = guard.wire.write({FRAME!r})
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 0), done.text


@pytest.mark.parametrize("name", ["_json", "_socket", "ctypes", "typing", "stat", "re", "importlib.metadata", "wrapt"])
def test_a_module_that_prints_at_its_import_cannot_reach_the_wire_through_us(
    run: Run, tmp_path: Path, name: str
) -> None:
    """A file beside the server that shadows a module which we may load is a nuisance, never a frame: the guard stands
    first."""
    if "." in name:
        return
    (tmp_path / f"{name}.py").write_text("print('shadowing')\nraise ImportError('shadowed')\n")
    done = run("print('x')\nanswer()\n")
    assert done.wire in (FRAME, b"")
    assert b"shadowing" not in done.wire


def test_the_watcher_forgets_nothing_when_imports_fail(run: Run, tmp_path: Path) -> None:
    """An SDK whose first import fails half way is adapted when a second attempt works."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.write('frame\\n')\n")
    (tmp_path / "mcp" / "__init__.py").write_text("import os\nif 'FAIL' in os.environ: raise ImportError('not yet')\n")
    done = run("""
import os, sys
os.environ["FAIL"] = "1"
try: import mcp
except ImportError: pass
del os.environ["FAIL"]
import mcp.server.stdio
mcp.server.stdio.send()
""")
    assert (done.wire, done.status) == (b"frame\n", 0), done.text


def test_an_sdk_imported_lazily_inside_a_tool(run: Run, tmp_path: Path) -> None:
    """The SDK may be imported at any time, in any thread."""
    fake(tmp_path, "import sys\ndef send(): sys.stdout.write('frame\\n')\n")
    done = run("""
import threading
def work():
    import mcp.server.stdio
    mcp.server.stdio.send()
t = threading.Thread(target=work); t.start(); t.join()
import asyncio
async def main():
    from mcp.server.stdio import send
    await asyncio.to_thread(send)
asyncio.run(main())
""")
    assert (done.wire, done.status) == (b"frame\nframe\n", 0), done.text
