"""Judge a captured channel to the last byte: findings with line, offset and raw bytes, and notes that never fail.

Rules: nothing is skipped, repaired or guessed at; the verdict does not depend on how the bytes were cut; after a fatal
framing fault the rest is counted, not read. What kind of protocol it is comes from the caller, or (``auto``) from what
the two sides negotiated in the transcript itself: until that is known, a message stands if any revision allows it.
(Beyond 250 lines by the two doors at the end, whose signatures say in full what they take.)
"""

from __future__ import annotations

from typing import Final, cast

from stdout_guard import revisions as rev
from stdout_guard._eras import Eras
from stdout_guard._findings import Finding, Report, explain, headline
from stdout_guard._records import MAX_FINDINGS, Records
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
from stdout_guard.jsonrpc import (
    STRICT,
    Decoder,
    Fault,
    Message,
    Note,
    Strictness,
    classify,
    classify_batch,
    classify_dap,
)
from stdout_guard.revisions import Direction, check_message

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

_CHUNK: Final = 1 << 14  # bounds the faults of one feed, whatever the caller hands over
_CRLF = Note("crlf", "the line ends in CR LF: legal white space, yet not the delimiter of the protocol")


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
        limit = MAX_FRAME_TO_CLIENT if to_client else MAX_FRAME_TO_SERVER
        limit = limit if options.max_frame is None else options.max_frame
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
        self._eras = Eras(framing, direction, fixed, self._session)
        self._may_be_dap = self._eras.current[0] in (rev.LSP, rev.DAP)
        self._records = Records(framing, to_client)
        self._held: tuple[Frame, Fault] | None = None
        self._frames = self._size = 0
        self._line = 1
        self._dead_at: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What has been found so far."""
        return tuple(self._records.findings)

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
        found = self._records
        if self._session is not None:
            found.breaches(self._session.close(), self._line, self._size, b"")
        unread = 0 if self._dead_at is None else max(0, self._size - self._dead_at)
        findings, notes = tuple(found.findings), tuple(found.notes)
        return Report(findings, notes, self._frames, self._size, self._eras.name, found.omitted, unread)

    def _events(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is Frame:
                self._frame(event)
            else:
                self._frames -= 1
                self._framing_fault(cast("FramingFault", event))
        if events:
            self._frames += len(events)
            self._line = events[-1].line + 1

    def _framing_fault(self, fault: FramingFault) -> None:
        if self._framing == "content-length":
            self._dead_at = fault.offset + len(fault.raw)
        if self._held is not None and fault.stage == "framing" and self._framing == "content-length":
            frame, inner = self._held
            self._held = None
            why = f"the announced length does not match the body ({inner.why}), and what follows is no header"
            wrong = Fault("wrong-length", "framing", why)
            self._records.fault(wrong, frame.line, frame.offset, frame.raw + fault.raw)
            return
        self._release(continued=True)
        self._records.fault(Fault(fault.code, fault.stage, fault.why), fault.line, fault.offset, fault.raw)

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
        decoded = self._decoder.scan(frame.body)
        if self._held is not None:
            self._release(continued=isinstance(decoded, Fault))
        if isinstance(decoded, Fault):
            cut = decoded.stage == "json" or decoded.code == "not-utf-8"  # perhaps by a length of characters
            if decoded.code == "embedded-newline" or (self._framing == "content-length" and cut):
                self._held = (frame, decoded)
            else:
                self._fault(frame, decoded)
            return
        value, notes = decoded
        if value.__class__ is list and value:
            self._batch(frame, cast("list[object]", value))
        elif not (self._may_be_dap and self._eras.is_dap(value)):
            message = classify(value, self._options, self._eras.envelope)
            if isinstance(message, Fault):
                self._bad_shape(frame, message)
            else:
                self._message(frame, message)
        elif fault := classify_dap(value):
            self._fault(frame, fault)
        if notes:
            self._records.note(frame, notes)
        if frame.suffix == b"\r\n":
            self._records.note(frame, (_CRLF,))

    def _bad_shape(self, frame: Frame, fault: Fault) -> None:
        if fault.code == "null-id" and self._session is not None and not self._session.owes_nameless:
            self._records.breaches(self._session.answer_without_id(), frame.line, frame.offset, frame.raw)
        else:
            self._fault(frame, fault)

    def _batch(self, frame: Frame, members: list[object]) -> None:
        """All or nothing: the first fault speaks for the whole array."""
        messages = classify_batch(members, self._options, self._eras.envelope)
        if not isinstance(messages, Fault) or messages.code != "not-an-object":
            whole = () if isinstance(messages, Fault) else messages
            faults = [rev.check_batch(whole, revision) for revision in self._eras.current]
            if None not in faults and (fault := faults[0]):
                messages = fault
        if isinstance(messages, Fault):
            self._fault(frame, messages)
            return
        frame = Frame(b"", frame.raw, b"", frame.line, frame.offset)  # one copy of it for all that is found in it
        for message in messages:
            self._message(frame, message)

    def _message(self, frame: Frame, message: Message) -> None:
        kind, _, _, _, method, _, remarks = message
        if remarks:
            self._records.note(frame, remarks)
        eras, session = self._eras, self._session
        if eras.auto and (kind == "response" or method == "initialize"):
            eras.learn(message)
        candidates = eras.candidates(message) if eras.by_message else eras.current
        notes: list[Note] = []
        fault, judged_by = None, candidates[0]
        for revision in candidates:  # the first that allows it, or the first one's objection
            objection = check_message(message, revision, self._direction, self._options, notes)
            if objection is None:
                fault, judged_by = None, revision
                break
            fault = fault or objection
        if notes:
            self._records.note(frame, notes)
        if fault is not None:
            self._fault(frame, fault)
        if session is not None and (fault is None or kind in ("response", "error")):
            self._records.breaches(session.receive(message, judged_by), frame.line, frame.offset, frame.raw)

    def _fault(self, frame: Frame, fault: Fault) -> None:
        self._records.fault(fault, frame.line, frame.offset, frame.raw)


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
