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
MOST_KEPT = 1 << 16  # bytes of one write that are told


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
    """Where a frame begins in it; -1 when there is none. A byte order mark or an array's bracket belongs to it."""
    if b"\0" in data and not frame_in(data.replace(b"\0", b"")):
        return 0  # two bytes for a character
    found = [place for place in (data.find(b'{"jsonrpc"'), data.find(b"Content-Length:")) if place >= 0]
    if not found:
        return 0 if data.lstrip().startswith((b"{", b"[")) and b'"jsonrpc"' in data[:400] else -1
    start = min(found)
    return start if data[:start].strip(b" \t\r\n[\xef\xbb\xbf\xff\xfe") else 0


def let_frames_pass(guard: "Any") -> None:
    """Hand frames to the wire and everything else to the guard; ``print`` sends the line's end by itself.

    What passes is told to the gate with the line that wrote it: a frame may be at fault, too.
    """
    import _thread

    took, ended, torn = guard.bottom._took, set[int](), set[int]()
    write = guard.wire.write

    def to_wire(data: bytes, frame: object) -> None:
        tell_passed(guard, data, frame)
        write(data)

    def told(data: bytes) -> int:
        tell_passed(guard, bytes(data), sys._getframe(1))
        return int(write(data))

    def sort(data: bytes, frame: object) -> None:
        thread = _thread.get_ident()
        if thread in ended and data.startswith((b"\n", b"\r\n")):
            ended.discard(thread)
            end = data.index(b"\n") + 1
            to_wire(data[:end], frame)
            data = data[end:]
        start = frame_in(data)
        if start < 0:
            ended.discard(thread)
            if data:
                took(data, frame)
                (torn.discard if data.endswith(b"\n") else torn.add)(thread)
            return
        if start:
            took(data[:start], frame)
        if start or thread in torn:
            took(b"\n", frame)  # else it would be put before whatever this thread prints next
            torn.discard(thread)
        to_wire(data[start:], frame)
        (ended.discard if data.endswith(b"\n") else ended.add)(thread)

    guard.bottom._took = sort
    guard.wire.write = told  # an SDK's own frames


def tell_passed(guard: "Any", data: bytes, frame: "Any") -> None:
    """A record for the gate: a header with the length, file, line, function and caller, then the bytes."""
    try:
        where = [str(part) for part in guard.sites.find(frame)[:4]]
    except Exception:  # the place is an extra: the frame goes out whatever happens
        where = []
    head = data[:MOST_KEPT]
    header = "\t".join((str(len(head)), *where)).replace("\n", " ")
    with open(os.path.join(HERE, f"passed-{os.getpid()}"), "ab") as file:
        file.write(header.encode("utf-8", "backslashreplace") + b"\n" + head)


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
