"""Judge a captured channel to the last byte: findings with line, offset and raw bytes, and notes that never fail.

Rules: nothing is skipped, repaired or guessed at; the verdict does not depend on how the bytes were cut; after a fatal
framing fault the rest is counted, not read. What kind of protocol it is comes from the caller, or (``auto``) from what
the two sides negotiated in the transcript itself: until that is known, a message stands if any revision allows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from stdout_guard import revisions as rev
from stdout_guard._causes import likely_cause, rule_of
from stdout_guard._findings import Finding, Report, Severity, explain, headline
from stdout_guard._session import Session
from stdout_guard.framing import (
    MAX_FRAME_TO_CLIENT,
    MAX_FRAME_TO_SERVER,
    Event,
    Frame,
    Framing,
    FramingFault,
    frame_reader,
)
from stdout_guard.jsonrpc import STRICT, Decoder, Envelope, Fault, Message, Note, Strictness, classify, classify_dap
from stdout_guard.revisions import Direction, Revision

__all__ = [
    "MAX_FINDINGS",
    "Finding",
    "Report",
    "Transcript",
    "assert_protocol_stdout",
    "explain",
    "headline",
    "judge",
]

MAX_FINDINGS: Final = 1000  # of each kind; what comes after is counted
_CHUNK: Final = 1 << 14  # bounds the faults of one feed, whatever the caller hands over


@dataclass
class _Eras:
    """Which revisions a message may be judged by: one that is given, or those that auto has not yet ruled out."""

    current: tuple[Revision, ...]
    auto: bool
    envelope: Envelope = field(default_factory=Envelope)

    def settle(self, *revisions: Revision) -> None:
        self.current = revisions
        self.envelope = Envelope(
            any(r.envelope.error_id_optional for r in revisions),
            "any" if any(r.envelope.error_id_null == "any" for r in revisions) else "unreadable",
        )


_LEGACY: Final = tuple(r for r in reversed(rev.MCP_REVISIONS.values()) if not r.result_type)


class Transcript:
    """A judge that is fed piece by piece; :func:`judge` is the short form. Not for several threads at once."""

    def __init__(
        self,
        *,
        framing: Framing = "ndjson",
        direction: Direction = "server-to-client",
        revision: str = "auto",
        sent: bytes | None = None,
        options: Strictness = STRICT,
    ) -> None:
        if direction not in rev.DIRECTIONS:
            raise ValueError(f"unknown direction {direction!r}: expected one of {', '.join(rev.DIRECTIONS)}")
        fixed = None if revision == "auto" else rev.revision_named(revision)
        to_client = direction == "server-to-client"
        limit = options.max_frame or (MAX_FRAME_TO_CLIENT if to_client else MAX_FRAME_TO_SERVER)
        self._reader = frame_reader(
            framing, max_frame=limit, crlf=options.crlf, blank=options.blank, content_type=fixed is not rev.DAP
        )
        self._decoder = Decoder(options, framing)
        self._framing: Framing = framing
        self._direction: Direction = direction
        self._options = options
        self._session = None
        if sent is not None and fixed is not rev.DAP:
            self._session = Session(sent, framing, fixed, from_server=to_client)
        self._eras = _Eras((), fixed is None)
        self._eras.settle(*((fixed,) if fixed else _opening(framing, self._session)))
        self._may_be_dap = self._eras.current[0] in (rev.LSP, rev.DAP)
        self._held: tuple[Frame, Fault] | None = None
        self._findings: list[Finding] = []
        self._notes: list[Finding] = []
        self._frames = self._size = self._omitted = 0
        self._line = 1
        self._dead_at: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What has been found so far."""
        return tuple(self._findings)

    def feed(self, data: bytes) -> None:
        """Take more of the channel."""
        start = 0
        while start < len(data):
            # pieces end with a line, so that a long one need not be put together again
            end = data.find(b"\n", start + _CHUNK) + 1 if self._framing == "ndjson" else start + 16 * _CHUNK
            piece = bytes(data[start : end or len(data)])
            start += len(piece)
            self._size += len(piece)
            self._events(self._reader.feed(piece))

    def close(self) -> Report:
        """The channel has ended: the verdict."""
        self._events(self._reader.close())
        self._release()
        if self._session is not None:
            for code, severity, why in self._session.close():
                self._add(code, "session", self._line, self._size, b"", why, severity)
        unread = 0 if self._dead_at is None else max(0, self._size - self._dead_at)
        names = [revision.name for revision in self._eras.current]
        name = names[0] if len(names) == 1 else "auto"
        return Report(tuple(self._findings), tuple(self._notes), self._frames, self._size, name, self._omitted, unread)

    # ------------------------------------------------------------------------------------------------ frame by frame

    def _events(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is Frame:
                self._frame(event)
            else:
                self._framing_fault(cast("FramingFault", event))

    def _framing_fault(self, fault: FramingFault) -> None:
        self._line = fault.line + 1
        if self._framing == "content-length":
            self._dead_at = fault.offset + len(fault.raw)
        if self._held is not None and fault.stage == "framing" and self._framing == "content-length":
            frame, inner = self._held
            self._held = None
            why = f"the announced length does not match the body ({inner.why}), and what follows is no header"
            self._add("wrong-length", "framing", frame.line, frame.offset, frame.raw + fault.raw, why)
            return
        self._release(continued=True)
        self._add(fault.code, fault.stage, fault.line, fault.offset, fault.raw, fault.why)

    def _release(self, *, continued: bool = False) -> None:
        """Report the frame whose fault depended on what comes next.

        A body that is no JSON stands alone when a header follows: its length was right. A line that ends inside a
        value was torn by a newline when the next line is no message of its own; else it was never finished.
        """
        if self._held is None:
            return
        (frame, fault), self._held = self._held, None
        if fault.code == "embedded-newline" and not continued:
            fault = Fault("not-json", "json", "the line is an unfinished JSON value: brackets are still open")
        self._fault(frame, fault)

    def _frame(self, frame: Frame) -> None:
        self._frames += 1
        self._line = frame.line + 1
        decoded = self._decoder.decode(frame.body)
        if self._held is not None:
            self._release(continued=isinstance(decoded, Fault))
        if isinstance(decoded, Fault):
            held = decoded.code == "embedded-newline" or (self._framing == "content-length" and decoded.stage == "json")
            if held:
                self._held = (frame, decoded)
            else:
                self._fault(frame, decoded)
            return
        value, notes = decoded
        if value.__class__ is dict and not self._may_be_dap:  # the ordinary message
            message = classify(value, self._options, self._eras.envelope)
            if isinstance(message, Fault):
                self._bad_shape(frame, message)
            else:
                self._message(frame, message)
        else:
            self._value(frame, value)
        if notes:
            self._note(frame, notes)
        if frame.suffix == b"\r\n":
            self._note(frame, (_CRLF,))

    def _value(self, frame: Frame, value: object) -> None:
        if members := _members(value):
            self._batch(frame, members)
        elif self._may_be_dap and self._is_dap(value):
            if fault := classify_dap(value):
                self._fault(frame, fault)
        else:
            self._one(frame, value)

    def _is_dap(self, value: object) -> bool:
        current = self._eras.current[0]
        members = _mapping(value)
        if self._eras.auto and current is rev.LSP and "jsonrpc" not in members and {"seq", "type"} <= members.keys():
            self._eras.settle(rev.DAP)
        return self._eras.current[0] is rev.DAP

    def _one(self, frame: Frame, value: object) -> None:
        message = classify(value, self._options, self._eras.envelope)
        if isinstance(message, Fault):
            self._bad_shape(frame, message)
        else:
            self._message(frame, message)

    def _bad_shape(self, frame: Frame, fault: Fault) -> None:
        if fault.code == "null-id" and self._session is not None and self._session.unreadable <= 0:
            for breach in self._session.answer_without_id():
                self._add(breach.code, "session", frame.line, frame.offset, frame.raw, breach.why, breach.severity)
            return
        self._fault(frame, fault)

    def _batch(self, frame: Frame, members: list[object]) -> None:
        """All or nothing: the first fault speaks for the whole array."""
        if not all(isinstance(member, dict) for member in members):
            self._fault(frame, Fault("not-an-object", "jsonrpc", "an array that holds other things than messages"))
            return
        found = [classify(member, self._options, self._eras.envelope) for member in members]
        bad = next((message for message in found if isinstance(message, Fault)), None)
        messages = [message for message in found if isinstance(message, Message)]
        faults = [rev.check_batch(messages, revision) for revision in self._eras.current]
        fault = None if None in faults else faults[0]
        if fault is not None and fault.code == "batch":
            bad = fault
        if bad or fault:
            self._fault(frame, cast("Fault", bad or fault))
            return
        for message in messages:
            self._message(frame, message)

    def _message(self, frame: Frame, message: Message) -> None:
        if message.notes:
            self._note(frame, message.notes)
        if self._eras.auto and (message.kind == "response" or message.method == "initialize"):
            self._learn(message)
        notes: list[Note] = []
        fault, judged_by = self._check(message, notes)
        if notes:
            self._note(frame, notes)
        if fault is not None:
            self._fault(frame, fault)
        if self._session is None or (fault is not None and message.kind in ("request", "notification")):
            return
        for code, severity, why in self._session.receive(message, judged_by):
            self._add(code, "session", frame.line, frame.offset, frame.raw, why, severity)

    def _check(self, message: Message, notes: list[Note]) -> tuple[Fault | None, Revision]:
        """The first of the possible revisions that allows the message, or the first one's objection."""
        candidates = self._eras.current
        if self._eras.auto and not (self._session is None and self._direction == "server-to-client"):
            candidates = self._candidates(message)
        first: Fault | None = None
        for revision in candidates:
            fault = rev.check_message(message, revision, self._direction, self._options, notes)
            if fault is None:
                return None, revision
            first = first or fault
        return first, candidates[0]

    # ---------------------------------------------------------------------------------------------- which revision

    def _candidates(self, message: Message) -> tuple[Revision, ...]:
        current = self._eras.current
        if not current[0].mcp:
            return current
        if self._session is not None and message.kind in ("response", "error"):
            request = self._session.request_of(message)
            if request is not None and request.modern is not None:
                return (request.modern,) if message.kind == "response" else (*current, request.modern)
            if request is not None and (legacy := tuple(r for r in current if not r.result_type)):
                return legacy
        if self._direction == "client-to-server" and _names_revision(message):
            return (rev.MCP_2026_07_28,)
        return current

    def _learn(self, message: Message) -> None:
        """Auto: what this message settles about the revision of the ones that follow, itself included."""
        if not self._eras.current[0].mcp:
            return
        if message.kind == "response":
            self._learn_from_result(message)
        elif message.method == "initialize" and self._direction == "client-to-server":
            version = _mapping(message.params).get("protocolVersion")
            if type(version) is int:
                self._eras.settle(rev.JSONRPC)

    def _learn_from_result(self, message: Message) -> None:
        if self._direction != "server-to-client":
            return
        result = message.value["result"]
        if not isinstance(result, dict) or "protocolVersion" not in result:
            return
        version = cast("dict[str, object]", result)["protocolVersion"]
        if self._session is not None and self._session.request_of(message) is not self._session.initialize:
            return
        if isinstance(version, str) and "capabilities" in result and (found := rev.MCP_REVISIONS.get(version)):
            modern = self._session is not None and self._session.modern
            if not found.result_type:
                self._eras.settle(found, *((rev.MCP_2026_07_28,) if modern else ()))
        elif type(version) is int and self._session is None:
            self._eras.settle(rev.JSONRPC)

    # ----------------------------------------------------------------------------------------------------- records

    def _fault(self, frame: Frame, fault: Fault) -> None:
        self._add(fault.code, fault.stage, frame.line, frame.offset, frame.raw, fault.why)

    def _add(
        self, code: str, stage: str, line: int, offset: int, raw: bytes, why: str, severity: Severity = "error"
    ) -> None:
        if len(self._findings) >= MAX_FINDINGS:
            self._omitted += 1
            return
        rule = rule_of(code, stage, self._framing)
        cause = likely_cause(code, stage, raw)
        self._findings.append(Finding(code, stage, line, offset, raw, why, rule, cause, severity))

    def _note(self, frame: Frame, notes: Iterable[Note]) -> None:
        for note in notes:
            if note.code == "line-separator" and self._direction != "server-to-client":
                continue
            if len(self._notes) < MAX_FINDINGS:
                self._notes.append(
                    Finding(note.code, "note", frame.line, frame.offset, frame.raw, note.why, severity="note")
                )


_CRLF = Note("crlf", "the line ends in CR LF: legal white space, yet not the delimiter of the protocol")


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _members(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _names_revision(message: Message) -> bool:
    return rev.META + "protocolVersion" in _mapping(_mapping(message.params).get("_meta"))


def _opening(framing: Framing, session: Session | None) -> tuple[Revision, ...]:
    """What auto starts from: the framing, and how the client opened."""
    if framing == "content-length":
        return (rev.LSP,)
    if session is not None and session.plain:
        return (rev.JSONRPC,)
    if session is not None and session.initialize is None and session.modern:
        return (rev.MCP_2026_07_28,)
    if session is not None and session.initialize is not None and not session.modern:
        return _LEGACY
    return (*_LEGACY, rev.MCP_2026_07_28)


def judge(
    data: bytes,
    *,
    framing: Framing = "ndjson",
    direction: Direction = "server-to-client",
    revision: str = "auto",
    sent: bytes | None = None,
    options: Strictness = STRICT,
) -> Report:
    """Judge everything that one side wrote.

    ``data``: all bytes of the channel. ``direction``: who wrote them. ``revision``: ``auto``, an MCP revision,
    ``jsonrpc``, ``lsp`` or ``dap``. ``sent``: what the other side wrote; with it the session rules are judged too.
    Never raises for any ``data`` or ``sent``; ValueError for an unknown framing, direction or revision.
    """
    transcript = Transcript(framing=framing, direction=direction, revision=revision, sent=sent, options=options)
    transcript.feed(data)
    return transcript.close()


def assert_protocol_stdout(
    data: bytes,
    *,
    framing: Framing = "ndjson",
    direction: Direction = "server-to-client",
    revision: str = "auto",
    sent: bytes | None = None,
    options: Strictness = STRICT,
) -> None:
    """Raise AssertionError, with the first offending bytes, unless :func:`judge` finds nothing."""
    report = judge(data, framing=framing, direction=direction, revision=revision, sent=sent, options=options)
    if not report.ok:
        raise AssertionError(explain(report))
