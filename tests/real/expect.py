"""What a noisy server's two streams should hold: the lines that strayed, and the names the report must give them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SERVERS = Path(__file__).parent / "servers"
PHASES = ("before", "during", "after", "exit")
HEARD = PHASES[:2]  # while a client listens: most send SIGTERM soon after they close stdin, maybe before the rest
KINDS = (
    "print",
    "flushed",
    "buffer",
    "write",
    "original",
    "logging",
    "warning",
    "child",
    "descriptor",
    "native",
    "held",
)

OWN_PRINT = 'print("noise async print", end="", flush=True)'
GUARD = "import stdout_guard.auto  # noqa: F401"
# what stands above the server's first line in each import order; {sdk} is the SDK's own package
ORDERS = {"bare": "", "guard first": f"{GUARD}\n", "sdk first": f"import {{sdk}}\n{GUARD}\n"}


def stage(folder: Path, server: str, order: str, sdk: str, *, quiet: bool = False) -> Path:
    """Write server `server` with its guard line (or none) into `folder`, its modules beside it; return its path.

    `quiet` takes the noise out: what is left is what the SDK itself writes.
    """
    for module in ("noise.py", "people/__init__.py", "files/__init__.py"):
        (folder / module).parent.mkdir(exist_ok=True)
        shutil.copy(SERVERS / module, folder / module)
    path = folder / f"{server}_server.py"
    path.write_text(ORDERS[order].format(sdk=sdk) + (SERVERS / f"{server}.py").read_text("utf-8"), "utf-8")
    if quiet:
        (folder / "noise.py").write_text("def make(phase):\n    pass\n", "utf-8")
        for source in (path, folder / "people" / "__init__.py"):
            source.write_text(source.read_text("utf-8").replace(OWN_PRINT, "pass"), "utf-8")
    return path


def stage_pylsp_plugin(folder: Path) -> None:
    """Install, by hand, a plugin of python-lsp-server that makes noise whenever it is asked for symbols."""
    for module in ("noise.py", "noisy_pylsp.py"):
        shutil.copy(SERVERS / module, folder)
    metadata = folder / "noisy_pylsp-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy-pylsp\nVersion: 1\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[pylsp]\nnoisy = noisy_pylsp\n", "utf-8")


def strayed(stdout: bytes) -> set[tuple[str, str]]:
    """The (phase, kind) of every noise line that reached the wire."""
    return {(a.decode(), b.decode()) for a, b in re.findall(rb"noise (\w+) (\w+)", stdout)}


def unnamed(
    report: str, server: Path, phases: Sequence[str] = PHASES, *, own: bool = True, behind: str = ""
) -> list[str]:
    """The noise lines which the report does not name as it must, each with the pattern that was looked for.

    Python writes by file, line and function; a child's line by its program and the line that started it; what reached
    the descriptor otherwise is tagged, without a guess. The print of `server` (the staged file) carries that file,
    and is left out unless `own`. Where the noise is a dependency, `behind` is the pattern of the application's place.
    """
    wanted = [(f"noise {phase} {kind}", _pattern(phase, kind, behind)) for phase in phases for kind in KINDS]
    # MCP SDKs record the warnings of a handler and keep them to themselves; what libc holds comes with the next phase
    not_yet = {"noise during warning", *(f"noise {phase} held" for phase in phases[-1:] if phase != "exit")}
    wanted = [(text, pattern) for text, pattern in wanted if text not in not_yet]
    if own:
        wanted.append(("noise async print", _own_print(server.parent)))
    return [f"{text}: no line like {pattern}" for text, pattern in wanted if not re.search(pattern, report, re.M)]


def _own_print(folder: Path) -> str:
    """The print in the handler of the staged server, or of the package that holds its handlers."""
    own = [path for path in folder.rglob("*.py") if path.name.endswith("_server.py")]
    (path, line), *_ = [
        (path, number)
        for path in [*own, folder / "people" / "__init__.py"]
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        if OWN_PRINT in text
    ]
    return rf"^stdout-guard: {re.escape(str(path.relative_to(folder)))}:{line} in [\w.]+: noise async print$"


def _pattern(phase: str, kind: str, behind: str) -> str:
    text = f"noise {phase} {kind}"
    line = _line_of(SERVERS / "noise.py", _MARKS[kind])
    if kind == "warning":  # Python's own format, whichever way it took to stderr
        return rf"noise\.py:{line}: UserWarning: {text}$"
    if kind == "child":
        return rf"^stdout-guard: \[child \d+ echo, started at noise\.py:{line}{behind and f' from {behind}'}\]: {text}$"
    if (phase, kind) == ("exit", "held"):  # libc's own exit comes after everything that could add a tag
        return rf"^(stdout-guard: \[fd 1\]: )?{text}$"
    if kind in ("descriptor", "native", "held"):
        return rf"^stdout-guard: \[fd 1\]: {text}$"
    source = rf" \(from {behind}\)" if behind else ""
    return rf"^stdout-guard: noise\.py:{line} in make{source}: {text}$"


_MARKS = {kind: f"{{phase}} {kind}" for kind in KINDS} | {"logging": '"noise %s logging"'}


def _line_of(path: Path, text: str) -> int:
    (number,) = [n for n, line in enumerate(path.read_text("utf-8").splitlines(), 1) if text in line]
    return number


def messages(stdout: bytes, framing: str) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Split a captured stdout into protocol messages and everything that is not one."""
    return _content_length(stdout) if framing == "content-length" else _lines(stdout)


def _lines(data: bytes) -> tuple[list[dict[str, Any]], list[bytes]]:
    found: list[dict[str, Any]] = []
    strays: list[bytes] = []
    for line in data.splitlines(keepends=True):
        message = _object(line) if line.endswith(b"\n") else None
        strays.append(line) if message is None else found.append(message)
    return found, strays


def _content_length(data: bytes) -> tuple[list[dict[str, Any]], list[bytes]]:
    found: list[dict[str, Any]] = []
    strays: list[bytes] = []
    header = re.compile(rb"Content-Length: (\d+)\r\n(?:Content-Type: [^\r\n]+\r\n)?\r\n")
    place = 0
    while place < len(data):
        match = header.search(data, place)
        start = match.start() if match else len(data)
        if start > place:
            strays.append(data[place:start])
        if match is None:
            break
        place = match.end() + int(match[1])
        message = _object(data[match.end() : place])
        strays.append(data[start:place]) if message is None else found.append(message)
    return found, strays


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and ("jsonrpc" in value or "type" in value) else None


def answered(stdout: bytes, framing: str) -> list[object]:
    """The ids of all responses, in the order in which they came."""
    return [m["id"] for m in messages(stdout, framing)[0] if "id" in m and "method" not in m]
