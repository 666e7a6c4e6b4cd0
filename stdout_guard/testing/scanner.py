"""Find the messages in what a server writes, whatever else is around or inside them.

Tolerant where the judge is strict: noise glued to a message, NUL bytes, line breaks between its tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stdout_guard.testing.protocols import Json

HEADER = re.compile(rb"content-length:[ \t]*(\d{1,9})[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n", re.IGNORECASE)
SPREAD = 1 << 20  # characters of lines that are read as one message


@dataclass(frozen=True)
class Message:
    """A message found in the server's output; ``end`` is the offset behind it, ``at`` seconds since the start."""

    content: Json
    end: int
    at: float


class Scanner:
    """Find the messages in growing output, whatever else is between them."""

    def __init__(self, content_length: bool) -> None:
        self._find = self._bodies if content_length else self._lines
        self._buffer = bytearray()
        self._base = 0
        self._looked = 0  # bytes of the buffer that are known to hold no newline
        self._open: list[str] = []  # lines of a message that has not ended yet
        self._depth = self._size = 0

    def feed(self, data: bytes, at: float) -> list[Message]:
        """The messages that are complete with ``data``."""
        self._buffer += data
        return [Message(content, end, at) for content, end in self._find()]

    def _drop(self, count: int) -> int:
        del self._buffer[:count]
        self._base += count
        return self._base

    def _lines(self) -> Iterator[tuple[Json, int]]:
        while (newline := self._buffer.find(b"\n", self._looked)) >= 0:
            line = bytes(self._buffer[:newline]).decode("utf-8", "replace").replace("\0", "")
            end, self._looked = self._drop(newline + 1), 0
            found = list(_objects(line))
            if not any("jsonrpc" in content for content in found):
                found += self._over_lines(line)
            else:
                self._open.clear()
            yield from ((content, end) for content in found)
        self._looked = len(self._buffer)

    def _over_lines(self, line: str) -> list[Json]:
        """What ``line`` ends of a message that began in a line before it."""
        if not self._open:
            self._depth = self._size = 0
            if not line.lstrip("\ufeff \t").startswith("{"):
                return []
        self._open.append(line)
        self._depth += line.count("{") - line.count("}")
        self._size += len(line)
        if self._depth > 0 and self._size < SPREAD:
            return []
        text = "\n".join(self._open)
        self._open.clear()
        return [content for content in _objects(text) if "jsonrpc" in content]

    def _bodies(self) -> Iterator[tuple[Json, int]]:
        while (header := HEADER.search(self._buffer)) is not None:
            stop = header.end() + int(header[1])
            if len(self._buffer) < stop:
                return
            body = bytes(self._buffer[header.end() : stop]).decode("utf-8", "replace")
            end = self._drop(stop)
            yield from ((content, end) for content in _objects(body))


def _objects(text: str) -> Iterator[Json]:
    """JSON objects in a line: the whole of it, or what begins at one of its first braces (noise glued before)."""
    decoder = json.JSONDecoder(strict=False)
    position, tries = text.find("{"), 0
    while position >= 0 and tries < 64:
        tries += 1
        try:
            content, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if isinstance(content, dict):
                yield content
        position = text.find("{", end)


def canonical(message: object) -> str:
    """The text of a message, whatever the order and spacing of its members; empty for bytes that are none."""
    try:
        return json.dumps(json.loads(message) if isinstance(message, bytes) else message, sort_keys=True)
    except (ValueError, RecursionError):
        return ""
