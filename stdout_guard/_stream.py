"""What stands in for sys.stdout: a genuine TextIOWrapper whose bottom is ours.

Rules: everything that code asks of a stdout works (``.buffer``, ``.raw``, ``detach()``, ``reconfigure()``, isinstance,
``fileno()`` == 1) because only the lowest layer is replaced; it is not buffered, so the writer's frame is on the stack
at the moment of the write; ``close()`` is inert; ``flush()`` raises nothing before the interpreter's own last flush.
"""

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from typing_extensions import Buffer


class StrayRaw(io.RawIOBase):
    """The stand-in's bottom: each write goes to ``took(data, frame of the writer)``, each flush to ``flushed()``."""

    name = "<stdout>"
    mode = "wb"
    closefd = False
    closed = False  # pyright: ignore  # not to be closed by whoever wrapped it

    def __init__(
        self, guard: object, took: "Callable[[bytes, FrameType | None], None]", flushed: "Callable[[], None]"
    ) -> None:
        self.stdout_guard = guard  # how a second copy of this package notices the first
        self._took, self._flushed = took, flushed

    # Bound at definition: module globals may be gone when an object's destructor prints.
    def write(self, data: "Buffer", /, _frame: "Callable[[], FrameType]" = sys._getframe) -> int:
        """Take bytes; a str is a TypeError, as it is for the real buffer."""
        piece = data if type(data) is bytes else bytes(memoryview(data))
        if piece:
            self._took(piece, _frame().f_back)  # None when C code alone called print: atexit.register(print, "bye")
        return len(piece)

    def flush(self) -> None:
        self._flushed()

    def fileno(self) -> int:
        return 1

    @property
    def raw(self) -> "StrayRaw":
        return self

    def detach(self) -> "StrayRaw":
        return self

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Inert: a wrapper that is collected must not take everybody's stream with it."""


def text_over(raw: io.RawIOBase, **options: "Any") -> io.TextIOWrapper:
    """A text stream over a bottom of ours: UTF-8, each write() handed down at once. Unless the options say otherwise,
    noise never raises and never becomes invalid UTF-8, whatever the locale."""
    bottom: Any = raw  # io wants a buffered object, and asks of it only what StrayRaw has
    chosen: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "write_through": True, **options}
    stream: Any = io.TextIOWrapper(bottom, **chosen)
    stream.mode = "w"
    return stream  # type: ignore[no-any-return]


def hook(stream: "Any", write: "Callable[..., Any]") -> "Callable[[], object]":
    """Give the *instance* another ``write``, for those who took hold of it before us; returns the undo. An object that
    has no __dict__ keeps its own: the descriptor still catches it, unnamed."""
    names: dict[str, Any] = getattr(stream, "__dict__", {})
    names["write"] = write
    return lambda: names.pop("write") if names.get("write") is write else None
