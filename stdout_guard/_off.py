"""STDOUT_GUARD=off: the same names, nothing touched."""

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer


class PlainWire(io.RawIOBase):
    """``sys.stdout.buffer``, with the text that is pending above it flushed first, so that order holds."""

    def write(self, data: "Buffer", /) -> int:
        sys.stdout.flush()
        written = sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return written

    def flush(self) -> None:
        sys.stdout.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.stdout.fileno()

    def close(self) -> None:
        """Inert, as the guarded wire is."""


class OffGuard:
    """Stands for a Guard where the guard is switched off."""

    mode = role = "off"
    strays: tuple[()] = ()

    def __init__(self) -> None:
        self.wire = PlainWire()

    @property
    def text_wire(self) -> io.TextIOWrapper:
        return sys.stdout  # type: ignore[return-value]

    @property
    def counts(self) -> object:
        from ._formats import Counts

        return Counts()

    def take_stdin(self) -> io.BufferedReader:
        return sys.stdin.buffer  # type: ignore[return-value]

    def verify(self) -> tuple[str, ...]:
        return ()

    def adopt_after_fork(self) -> None:
        """Nothing to adopt: every process has the plain stdout."""
        os.getpid()


GUARD = OffGuard()
