"""The client's side of a scripted session: ask, await, fence, and remember which step each byte came during.

Reading is tolerant here on purpose (an answer is found in a dirty line, and with an id of the wrong type), so that a
faulty server is driven to its end; judging the raw bytes is done elsewhere and is strict.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from stdout_guard.testing.process import ServerProcess
from stdout_guard.testing.protocols import Json, Protocol
from stdout_guard.testing.scanner import Message, Scanner, canonical

SLOW = 1.6  # how much longer a call may be idle than a request of the protocol's own
IGNORED = 1.0  # seconds of idleness for what was ignored before
UNTAKEN = 0.5  # seconds for the answer to a request that was not even taken
_SERVER_ERROR = {"code": -32601, "message": "the release gate offers no such method"}


@dataclass(frozen=True)
class Mark:
    """A step of the script: the bytes of stdout before ``end`` and not of an earlier mark came during it."""

    step: str
    end: int
    seconds: float
    answered: bool = True


def _key(identifier: object) -> tuple[str, object]:
    return (type(identifier).__name__, identifier)


class Dialogue:
    """Speak ``protocol`` with ``process``. ``sent`` holds what was well-formed of what was sent, ``said`` each message.

    ``at_once`` are the ids that were sent together; ``deaf`` says that the server lives and takes no input any more.

    ``ignored`` names methods that an earlier run left unanswered: their answers are awaited for a short while only.
    """

    def __init__(self, process: ServerProcess, protocol: Protocol, ignored: frozenset[str] = frozenset()) -> None:
        self.process = process
        self.protocol = protocol
        self._ignored = ignored
        self.fences = True
        self.sent = bytearray()
        self.said: set[str] = set()
        self.at_once: set[int | str] = set()
        self.deaf = False
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
        bodies = [data.rpartition(b"\r\n\r\n")[2]] if self.protocol.framing == "content-length" else data.splitlines()
        self.said.update(map(canonical, bodies))
        taken = self.process.send(data, self.process.limits.answer)
        self.deaf |= not taken and not self.process.stdout.eof and self.process.running
        return taken

    def notify(self, method: str, params: Json | None = None) -> bool:
        """Send a notification."""
        return self.write(self.encode(_message(method, params)))

    def request(
        self, method: str, params: Json | None = None, timeout: float | None = None, *, slow: bool = False
    ) -> Message | None:
        """Send a request and await its answer; None when none came in time, or the server is gone.

        ``slow`` is for work that may take a while: a server that waits for a clock or a network is not idle then.
        """
        identifier, frame = self.frame(method, params)
        taken = self.write(frame)
        return self.await_answer(identifier, timeout if taken else UNTAKEN, slow=slow)

    def frame(self, method: str, params: Json | None, *, text: bool = False) -> tuple[int | str, bytes]:
        """A request that is to be sent, with its id: the next number, or a string that holds it."""
        self._number += 1
        identifier = f"at-once-{self._number}" if text else self._number
        self._requests[identifier] = method
        return identifier, self.encode({**_message(method, self.protocol.params(params)), "id": identifier})

    def await_answer(
        self, identifier: int | str, timeout: float | None = None, *, slow: bool = False
    ) -> Message | None:
        """Wait for the answer to a request that was sent."""
        limits = self.process.limits
        seconds = limits.answer if timeout is None else timeout
        slow = slow and self.fences  # what does not answer a ping is not at work for a call
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

    def unanswered(self, *, at_once: bool = False) -> list[str]:
        """The methods of the requests without an answer, even in a dirty line: of those sent alone, or at once."""
        self._scan()
        waiting = [one for one in self._requests if _key(one) not in self._answers]
        return [self._requests[one] for one in waiting if (one in self.at_once) == at_once]

    def method_of(self, identifier: object) -> str | None:
        """The method of the request with this id."""
        return self._requests.get(identifier) if isinstance(identifier, int | str) else None

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
                elif content.keys() & {"jsonrpc", "result", "error"} and _hashable(content.get("id", ())):
                    self._answers.setdefault(_key(self._meant(content["id"])), message)

    def _meant(self, identifier: Any) -> object:
        """The id of the request, also where an answer carries it in another type: that is for the judge to tell."""
        if isinstance(identifier, float) or (isinstance(identifier, str) and identifier not in self._requests):
            with suppress(ValueError, OverflowError):
                number = int(identifier)
                return number if number in self._requests and float(identifier) == number else identifier
        return identifier

    def _serve(self) -> bool:
        """Answer what the server asked of the client; whether it had asked."""
        asked, self._asked = self._asked, []
        for content in asked:
            known: Any = self.protocol.server_methods.get(str(content["method"]))
            if known is None and canonical(content) in self.said:
                continue  # our own words: an echo
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
        if self.fences:
            self.fences = self.request(*self.protocol.fence) is not None
            return self.fences
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
