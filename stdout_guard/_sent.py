"""What one side sent, as far as the answers to it can be judged by it: requests, tokens, and how it opened. No I/O.

What cannot be read earns one answer without an id; where a lenient server may have read an id all the same, an answer
to that id belongs to something, and is not owed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias, cast

from stdout_guard import framing as _framing
from stdout_guard.jsonrpc import Decoder, Fault, Message, RequestId, classify
from stdout_guard.revisions import MCP_2026_07_28, MCP_REVISIONS, META, Revision

Key: TypeAlias = tuple[bool, RequestId]
_UNLIMITED = 1 << 62


@dataclass
class Request:
    """A request that was sent, perhaps more than once under one id, and how often it has been answered."""

    method: str
    modern: Revision | None = None  # set when the request itself names its revision
    sent: int = 0
    answered: int = 0
    owed: bool = True
    outlives_answer: bool = False  # a task: progress goes on after the first answer
    wants_logs: bool = False
    batched: bool = False  # owed only where there are batches
    identity: RequestId = None


def key_of(value: RequestId) -> Key:
    """1 and "1" are two ids; 1 and True never meet, since true is no id."""
    return isinstance(value, str), value


def mapping(value: object) -> dict[str, object]:
    """The members of an object; none of anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


class Sent:
    """What was sent, read once."""

    def __init__(self, data: bytes, framing: _framing.Framing) -> None:
        self.requests: dict[Key, Request] = {}
        self.tokens: dict[Key, Request] = {}
        self.initializes = False
        self.plain = False  # the client's initialize is not MCP's: some other protocol on JSON-RPC
        self.modern = False
        self.initialized = False
        self.unreadable = self.batches = 0
        self.log_readers = 0  # requests that ask for logs, not yet answered
        self._read(data, framing)

    def find(self, identity: object) -> Request | None:
        """The request with this id, whatever the other side put in the place of an id."""
        if type(identity) is not int and type(identity) is not str:
            return None
        return self.requests.get(key_of(identity))

    def _read(self, data: bytes, framing: _framing.Framing) -> None:
        reader = _framing.frame_reader(framing, max_frame=_UNLIMITED, blank="allow")
        decoder = Decoder(framing=framing)
        for event in (*reader.feed(data), *reader.close()):
            decoded = decoder.decode(event.body if isinstance(event, _framing.Frame) else event.raw)
            if isinstance(event, _framing.FramingFault) or isinstance(decoded, Fault):
                self.unreadable += 1
                self._salvage(event.raw)
                continue
            value = decoded.value
            if value.__class__ is list:
                self._take_batch(cast("list[object]", value))
            else:
                self._take(value)

    def _salvage(self, raw: bytes) -> None:
        """A lenient server may run what a strict one refuses: its answer, too, belongs to something.

        Universal newlines split at a carriage return; bytes that are no UTF-8 are replaced, or guessed at.
        """
        raw = raw.removesuffix(b"\n")
        for piece in dict.fromkeys((raw, *(piece for piece in raw.split(b"\r") if b'"id"' in piece))):
            for text in (piece, piece.decode("utf-8", "replace")):
                try:
                    value: object = json.loads(text)
                except (ValueError, RecursionError):
                    continue
                self._optional(mapping(value).get("id"))
                break

    def _optional(self, identity: object) -> None:
        if type(identity) is float and identity.is_integer():
            identity = int(identity)  # the same number to JavaScript
        if type(identity) is int or type(identity) is str:
            request = self.requests.setdefault(key_of(identity), Request("", owed=False, identity=identity))
            request.sent += 1

    def _take_batch(self, members: list[object]) -> None:
        """Answered member by member, or as one thing that is no message."""
        self.batches += bool(members)
        self.unreadable += not members
        for member in members:
            self._take(member, batched=True)

    def _take(self, value: object, *, batched: bool = False) -> None:
        message = classify(value)
        if isinstance(message, Fault):
            self.unreadable += 1
            self._optional(mapping(value).get("id"))
        elif message.kind == "request":
            self._take_request(message, batched)
        elif message.method == "notifications/cancelled":
            cancelled = self.find(mapping(message.params).get("requestId"))
            if cancelled is not None:
                cancelled.owed = False
        elif message.method == "notifications/initialized":
            self.initialized = True

    def _take_request(self, message: Message, batched: bool) -> None:
        params = mapping(message.params)
        meta = mapping(params.get("_meta"))
        request = self.requests.setdefault(key_of(message.id), Request(message.method, identity=message.id))
        request.sent += 1
        request.method, request.owed = message.method, message.method != "subscriptions/listen"
        request.outlives_answer, request.batched = "task" in params, batched
        if META + "logLevel" in meta and not request.wants_logs:
            request.wants_logs = True
            self.log_readers += 1
        if META + "protocolVersion" in meta:
            version = meta[META + "protocolVersion"]
            request.modern = MCP_REVISIONS.get(version, MCP_2026_07_28) if isinstance(version, str) else None
            self.modern = True
        token = meta.get("progressToken")
        if type(token) is int or type(token) is str:
            self.tokens[key_of(token)] = request
        if message.method == "initialize" and not self.initializes:
            self.initializes = True
            self.plain = not isinstance(params.get("protocolVersion"), str)
