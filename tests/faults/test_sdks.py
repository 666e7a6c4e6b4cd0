"""Faults 41 to 43: protocol writers that were never edited, in their shapes; the SDKs themselves run in tests/real."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import PRELUDE, Child

# The ways in which published SDKs reach stdout, cut to a module each: (module, its text, how a frame is sent).
SHAPES = {
    "mcp 1": (
        "mcp.server.stdio",
        "import sys\nfrom io import TextIOWrapper\n"
        "def send(text):\n"
        "    stdin = TextIOWrapper(sys.stdin.buffer, encoding='utf-8')\n"
        "    out = TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\n"
        "    out.write(text)\n    out.flush()\n",
    ),
    "mcp 2": (
        "mcp.server.stdio",
        "import os, sys\nfrom io import TextIOWrapper\n"
        "def claim(fd, stream):\n"
        "    try: backed = stream.buffer.fileno() == fd\n"
        "    except (OSError, ValueError, AttributeError): backed = False\n"
        "    if not backed: return stream.buffer\n"
        "    private = os.dup(fd)\n    os.dup2(2, fd)\n    return open(private, 'wb', 0)\n"
        "def send(text):\n"
        "    out = TextIOWrapper(claim(1, sys.stdout), encoding='utf-8')\n    out.write(text)\n    out.flush()\n",
    ),
    "pygls": (
        "pygls.server",
        "import sys\nclass Server:\n    def start_io(self, stdout=None):\n        return stdout or sys.stdout.buffer\n"
        "def send(text):\n    out = Server().start_io()\n    out.write(text.encode())\n    out.flush()\n",
    ),
    "acp": (
        "acp.stdio",
        "import asyncio, sys\n"
        "async def streams():\n    loop = asyncio.get_running_loop()\n"
        "    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)\n"
        "    return asyncio.StreamWriter(transport, protocol, None, loop), transport\n"
        "loop, writer = asyncio.new_event_loop(), None\n"
        "async def main(text):\n    global writer\n"
        "    if writer is None: writer, transport = await streams()\n"
        "    writer.write(text.encode())\n    await writer.drain()\n"
        "def send(text):\n    loop.run_until_complete(main(text))\n",
    ),
    "singer": (
        "singer.messages",
        "import sys\ndef send(text):\n    sys.stdout.write(text)\n    sys.stdout.flush()\n",
    ),
    "singer fork": (
        "singer.messages",
        "import sys\ndef send(text):\n    sys.stdout.buffer.write(text.encode())\n    sys.stdout.buffer.flush()\n",
    ),
    "from sys import": (
        "singer.messages",
        "from sys import stdout\ndef send(text):\n    stdout.write(text)\n    stdout.flush()\n",
    ),
    "named by the user": ("my_sdk.out", "def send(text):\n    print(text, end='')\n"),
}
SERVER = """
print("before")
def served(n): {module}.send(frame(n).decode())
served(1)
print("during")
os.write(1, b"below\\n")
os.system("echo child")
served(2)
print("after", end="")
import ctypes
ctypes.CDLL(None).printf(b"held back")
import atexit
atexit.register(lambda: print("at exit"))
"""


def install(folder: Path, module: str, text: str) -> None:
    """Write package ``module`` below ``folder``."""
    package = folder
    for part in module.split(".")[:-1]:
        package = package / part
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
    (package / (module.rpartition(".")[2] + ".py")).write_text(text)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ["guard first", "sdk first"])
@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_every_shape_in_both_orders(
    launch: Callable[..., Child], tmp_path: Path, wire: str, unbuffered: bool, shape: str, order: str, mode: str
) -> None:
    """Fault 41: the frames of a writer module that nobody edited arrive, imported before the guard or after it, with
    noise before, during and after, all of which is on stderr.

    Seen to fail with the modules that are imported already not looked for.
    """
    module, text = SHAPES[shape]
    install(tmp_path / "sdk", module, text)
    strict = mode == "strict"
    body = SERVER.format(module=module)
    if strict:
        body = re.sub(
            r"^print\((.*)\)$", r"try: print(\1)\nexcept stdout_guard.StrayWriteError: pass", body, flags=re.M
        )
    path = f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n"
    child = launch(
        (PRELUDE + f"import {module}\n" if order == "guard first" else f"import {module}\n" + PRELUDE) + body,
        prelude=path,
        wire=wire,
        unbuffered=unbuffered,
        mode=mode,
        env={"STDOUT_GUARD_WRITERS": "my_sdk.out"},
    )
    assert child.finish() == (120 if strict else 0)
    assert child.ids() == [1, 2]
    for noise in ("before", "during", "below", "child", "after", "held back"):
        assert noise in child.text
    assert "does not fit" not in child.text


UNKNOWN = {
    "print": "print(text)",
    "write": "sys.stdout.write(text + chr(10))",
    "buffer": "sys.stdout.buffer.write(text.encode() + b'\\n')",
    "os.write": "os.write(1, text.encode() + b'\\n')",
    "child": "import subprocess; subprocess.run(['/bin/echo', text])",
    "content-length": "sys.stdout.buffer.write(b'Content-Length: %d\\r\\n\\r\\n' % len(text) + text.encode())",
}


@pytest.mark.parametrize("way", UNKNOWN)
@pytest.mark.parametrize("mode", ["redirect", "strict"])
def test_an_unknown_sdk(launch: Callable[..., Child], tmp_path: Path, wire: str, way: str, mode: str) -> None:
    """Fault 42 and hazard 53: protocol frames from a module that is not a named writer do not reach the wire in
    silence: the message says so and names the setting, or guard.wire, that mends it.

    Seen to fail with the look for frames in stray text taken out.
    """
    install(
        tmp_path / "sdk",
        "strange.wire",
        f"import os, sys\ndef send(text):\n    {UNKNOWN[way]}\n    sys.stdout.flush()\n",
    )
    child = launch(
        'import strange.wire\ntry: strange.wire.send(\'{"jsonrpc":"2.0","id":66,"result":0}\')\n'
        "except stdout_guard.StrayWriteError as e: os.write(2, b'raised: ' + str(e).encode())\nsend(1)\n",
        prelude=f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n" + PRELUDE,
        wire=wire,
        mode=mode,
    )
    assert child.finish() == (120 if mode == "strict" else 0)
    assert child.ids() == [1]
    assert "this looks like a protocol frame" in child.text
    python = way in ("print", "write", "buffer", "content-length")
    assert ("STDOUT_GUARD_WRITERS=strange.wire" if python else "guard.wire") in child.text
    if mode == "strict" and python:
        assert "raised: stray write" in child.text


MUTATIONS = {
    "other stream": "import os\ndef send(text):\n    os.write(1, text.encode())\n",
    "moved away": "from mcp.server._impl import send\n",
    "empty": "",
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("order", ["guard first", "sdk first"])
def test_an_sdk_that_changed(launch: Callable[..., Child], tmp_path: Path, mutation: str, order: str) -> None:
    """Fault 43: a known SDK whose source no longer reads sys.stdout where the table says is reported by name, with
    what to do; nothing else of the server suffers.

    Seen to fail with the adapter's own check left out.
    """
    install(tmp_path / "sdk", "mcp.server.stdio", MUTATIONS[mutation])
    (tmp_path / "sdk/mcp/server/_impl.py").write_text("import sys\ndef send(t):\n    sys.stdout.write(t)\n")
    sdk = "import mcp.server.stdio\n"
    child = launch(
        (PRELUDE + sdk if order == "guard first" else sdk + PRELUDE) + "print('noise')\nsend(1)\n",
        prelude=f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n",
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "the adapter does not fit this version of mcp.server.stdio" in child.text
    assert "STDOUT_GUARD_WRITERS" in child.text and "guard.wire" in child.text


def test_an_adapter_that_cannot_be_loaded(launch: Callable[..., Child], tmp_path: Path) -> None:
    """Decision 7: without wrapt the guard stands; it says what will not work, and what to do.

    Seen to fail with the ImportError let through into the user's import.
    """
    install(tmp_path / "sdk", *SHAPES["mcp 1"])
    child = launch(
        "sys.modules['wrapt'] = None\nimport mcp.server.stdio\nprint('noise')\nsend(1)\n",
        prelude=f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n" + PRELUDE,
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "the SDK adapters could not be loaded" in child.text and "wrapt" in child.text


@pytest.mark.parametrize("order", ["guard first", "sdk first", "subprocess first"])
def test_one_subprocess_module(launch: Callable[..., Child], tmp_path: Path, order: str) -> None:
    """Decision 7: importing wrapt while another module is being found loads nothing twice: one Popen class.

    Seen to fail with the adapters loaded when ``subprocess`` is looked for.
    """
    install(tmp_path / "sdk", *SHAPES["mcp 1"])
    imports = {
        "guard first": PRELUDE + "import mcp.server.stdio, subprocess\n",
        "sdk first": "import mcp.server.stdio\n" + PRELUDE + "import subprocess\n",
        "subprocess first": "import subprocess\n" + PRELUDE + "import mcp.server.stdio\n",
    }[order]
    child = launch(
        imports
        + """
import asyncio, asyncio.subprocess, asyncio.base_events, gc
popens = [c for c in gc.get_objects() if isinstance(c, type) and c.__name__ == "Popen" and c.__module__ == "subprocess"]
assert len(popens) == 1, popens
assert asyncio.base_events.subprocess is subprocess is sys.modules["subprocess"]
assert subprocess.run(["/bin/echo", "one child"]).returncode == 0
send(1)
""",
        prelude=f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r})\n",
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert re.search(r"\[child \d+ echo, started at server.py:\d+\]: one child", child.text)
