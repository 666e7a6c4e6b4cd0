"""Files that a watched test's children and its descriptor 1 write into, instead of stdout."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import IO, Any, cast


@dataclass
class Child:
    """A child that would have inherited stdout; it writes into ``output`` instead, and that is passed on."""

    program: str
    site: str
    output: IO[bytes]
    pid: int = 0
    read: int = 0

    def news(self) -> bytes:
        """What it wrote since this was asked last."""
        handle = self.output.fileno()
        data = os.pread(handle, max(os.fstat(handle).st_size - self.read, 0), self.read)
        self.read += len(data)
        return data


def scratch() -> IO[bytes]:
    """A file that several processes append to."""
    return tempfile.TemporaryFile("a+b", buffering=0)


def program_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The program that a subprocess.Popen call starts."""
    command: Any = args[0] if args else kwargs.get("args", "?")
    if not isinstance(command, (str, bytes, os.PathLike)):
        command = next(iter(command), "?")
    return os.path.basename(os.fsdecode(cast(str, command))).partition(" ")[0]
