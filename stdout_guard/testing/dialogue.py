"""The client's side of a scripted session: ask, await, fence, and remember which step each byte came during.

Reading is tolerant here on purpose (an answer glued to noise is still found), so that a dirty server is driven to its
end; judging the raw bytes is done elsewhere and is strict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stdout_guard.testing.process import ServerProcess
from stdout_guard.testing.protocols import Json, Protocol

_HEADER = re.compile(rb"content-length:[ \t]*(\d{1,9})[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n", re.IGNORECASE)
SLOW = 1.6  # how much longer a call may be idle than a request of the protocol's own
IGNORED = 1.0  # seconds of idleness for what was ignored before
_SERVER_ERROR = {"code": -32601, "message": "the release gate offers no such method"}


@dataclass(frozen=True)
class Message:
    """A message found in the server's output; ``end`` is the offset behind it, ``at`` seconds since the start."""

    content: Json
    end: int
    at: float


@dataclass(frozen=True)
class Mark:
    """A step of the script: the bytes of stdout before ``end`` and not of an earlier mark came during it."""

    step: str
    end: int
    seconds: float
    answered: bool = True


class Scanner:
    """Find the messages in growing output, whatever else is between them."""

    def __init__(self, content_length: bool) -> None:
        self._find = self._bodies if content_length else self._lines
        self._buffer = bytearray()
        self._base = 0
        self._looked = 0  # bytes of the buffer that are known to hold no newline

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
            line = bytes(self._buffer[:newline]).decode("utf-8", "replace")
            end, self._looked = self._drop(newline + 1), 0
            yield from ((content, end) for content in _objects(line))
        self._looked = len(self._buffer)

    def _bodies(self) -> Iterator[tuple[Json, int]]:
        while (header := _HEADER.search(self._buffer)) is not None:
            stop = header.end() + int(header[1])
            if len(self._buffer) < stop:
                return
            body = bytes(self._buffer[header.end() : stop]).decode("utf-8", "replace")
            end = self._drop(stop)
            yield from ((content, end) for content in _objects(body))


def _objects(text: str) -> Iterator[Json]:
    """JSON objects in a line: the whole of it, or what begins at one of its first braces (noise glued before)."""
    decoder = json.JSONDecoder()
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


def _key(identifier: object) -> tuple[str, object]:
    return (type(identifier).__name__, identifier)


class Dialogue:
    """Speak ``protocol`` with ``process``. ``sent`` holds what was well-formed of what was sent.

    ``ignored`` names methods that an earlier run left unanswered: their answers are awaited for a short while only.
    """

    def __init__(self, process: ServerProcess, protocol: Protocol, ignored: frozenset[str] = frozenset()) -> None:
        self.process = process
        self.protocol = protocol
        self._ignored = ignored
        self._fences = True
        self.sent = bytearray()
        self.marks: list[Mark] = []
        self.messages: list[Message] = []
        self._answers: dict[tuple[str, object], Message] = {}
        self._requests: dict[int | str, str] = {}
        self._asked: list[Json] = []
        self._scanner = Scanner(protocol.framing == "content-length")
        self._chunk = 0
        self._number = 0

    def encode(self, content: object) -> bytes:
        """One frame of this protocol's framing."""
        body = json.dumps(content, separators=(",", ":")).encode()
        if self.protocol.framing == "content-length":
            return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        return body + b"\n"

    def write(self, data: bytes, *, well_formed: bool = True) -> bool:
        """Send bytes as they are; False when the server does not take them."""
        if well_formed:
            self.sent += data
        return self.process.send(data, self.process.limits.answer)

    def notify(self, method: str, params: Json | None = None) -> bool:
        """Send a notification."""
        return self.write(self.encode(_message(method, params)))

    def request(
        self, method: str, params: Json | None = None, timeout: float | None = None, *, slow: bool = False
    ) -> Message | None:
        """Send a request and await its answer; None when none came in time, or the server is gone.

        ``slow`` is for work that may take a while: a server that waits for a clock or a network is not idle then.
        """
        self._number += 1
        identifier = self._number
        self._requests[identifier] = method
        self.write(self.encode({**_message(method, self.protocol.params(params)), "id": identifier}))
        return self.await_answer(identifier, timeout, slow=slow)

    def await_answer(
        self, identifier: int | str, timeout: float | None = None, *, slow: bool = False
    ) -> Message | None:
        """Wait for the answer to a request that was sent."""
        limits = self.process.limits
        seconds = limits.answer if timeout is None else timeout
        quiet = limits.quiet * (SLOW if slow else 1)
        if self._requests.get(identifier) in self._ignored:
            quiet = min(quiet, IGNORED)
        latest = self.process.elapsed + seconds  # however often the server asks in between
        while True:
            left = latest - self.process.elapsed
            self.process.wait_for(lambda: self._arrived(identifier), left, quiet, sleep_is_work=slow)
            if not self._serve() or left <= 0:
                return self._answers.get(_key(identifier))

    def answer_to(self, identifier: object) -> Message | None:
        """The answer to a request, if it is there."""
        self._scan()
        return self._answers.get(_key(identifier))

    def unanswered(self) -> list[str]:
        """The methods of the requests without an answer, even in a dirty line."""
        self._scan()
        return [method for number, method in self._requests.items() if _key(number) not in self._answers]

    def _arrived(self, identifier: object) -> bool | None:
        self._scan()
        return True if self._asked or _key(identifier) in self._answers else None

    def _scan(self) -> None:
        chunks = self.process.stdout.chunks
        while self._chunk < len(chunks):
            chunk = chunks[self._chunk]
            self._chunk += 1
            for message in self._scanner.feed(chunk.data, chunk.at):
                self.messages.append(message)
                content = message.content
                if "method" in content:
                    if "id" in content:
                        self._asked.append(content)
                elif "id" in content and _hashable(content["id"]):
                    self._answers.setdefault(_key(content["id"]), message)

    def _serve(self) -> bool:
        """Answer what the server asked of the client; whether it had asked."""
        asked, self._asked = self._asked, []
        for content in asked:
            known: Any = self.protocol.server_methods.get(str(content["method"]))
            reply = {"error": _SERVER_ERROR} if known is None else {"result": known}
            if self.protocol.answers_server:
                self.write(self.encode({"jsonrpc": "2.0", "id": content["id"], **reply}))
        return bool(asked)

    def fence(self) -> bool:
        """Whether everything the server wrote so far has been read (where the protocol has a fence).

        A server that left one fence unanswered is not asked again: then it must be at rest.
        """
        if self.protocol.fence is None:
            return True
        if self._fences:
            self._fences = self.request(*self.protocol.fence) is not None
            return self._fences
        return self.process.rest(self.process.limits.quiet)

    @contextmanager
    def step(self, name: str, *, fenced: bool = True) -> Generator[None]:
        """What the server writes in here, and before the fence that closes it, is blamed on ``name``."""
        began = self.process.elapsed
        answered = False
        try:
            yield
            answered = self.fence() if fenced else True
        finally:
            self._scan()
            end = self.process.stdout.size
            self.marks.append(Mark(name, end, self.process.elapsed - began, answered))


def _message(method: str, params: Json | None) -> Json:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def _hashable(value: object) -> bool:
    return isinstance(value, (str, int, float)) or value is None
