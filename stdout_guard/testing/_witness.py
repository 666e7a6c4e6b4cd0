"""Copied as ``sitecustomize.py`` into a folder on PYTHONPATH: puts the guard into a server that knows nothing of it.

Rules: only the process whose stdout is the wire of the gate is touched; what the server's own environment holds comes
first, ours last; a protocol frame that the guard does not know the writer of is let through, because this run asks who
wrote the noise, not whether the server is set up for the guard; the environment's own sitecustomize still runs.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
WIRE = "_STDOUT_GUARD_WITNESS_WIRE"


def on_the_wire() -> bool:
    try:
        status = os.fstat(1)
    except OSError:
        return False
    return f"{status.st_dev}:{status.st_ino}" == os.environ.get(WIRE)


def say(text: str) -> None:
    """Tell the gate how it went in this process."""
    with open(os.path.join(HERE, f"state-{os.getpid()}"), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def frame_in(data: bytes) -> int:
    """Where a frame begins in ``data``; -1 when there is none."""
    found = [place for place in (data.find(b'{"jsonrpc"'), data.find(b"Content-Length:")) if place >= 0]
    if found:
        return min(found)
    return 0 if data.startswith(b"{") and b'"jsonrpc"' in data[:400] else -1


def let_frames_pass(guard: "Any") -> None:
    """Hand frames to the wire and everything else to the guard; ``print`` sends the line's end by itself."""
    import _thread

    took, ended = guard.bottom._took, set[int]()

    def sort(data: bytes, frame: object) -> None:
        thread = _thread.get_ident()
        if thread in ended and data.startswith(b"\n"):
            ended.discard(thread)
            guard.wire.write(b"\n")
            data = data[1:]
        start = frame_in(data)
        if start < 0:
            ended.discard(thread)
            if data:
                took(data, frame)
            return
        if start:
            took(data[:start], frame)
        guard.wire.write(data[start:])
        (ended.discard if data.endswith(b"\n") else ended.add)(thread)

    guard.bottom._took = sort


def stand() -> None:
    if sys.hexversion < 0x030B0000:
        say(f"Python {sys.version.split()[0]} is older than the guard can stand in")
        return
    package = os.path.join(HERE, "package")
    sys.path.insert(0, package)
    try:
        import stdout_guard

        sys.path.remove(package)
        sys.path.append(os.path.join(HERE, "needs"))
        guard = stdout_guard.install()
        let_frames_pass(guard)
        say("guarded")
    except BaseException as error:
        say(f"the guard could not stand: {type(error).__name__}: {error}")


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]
if on_the_wire():
    stand()
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # type: ignore[import-not-found]  # the environment's own  # noqa: F401
except ImportError as error:
    if error.name != "sitecustomize":
        raise
