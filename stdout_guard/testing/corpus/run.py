"""Put any gateway under the corpus: two methods to drive it, a recorder where it would act, a list of what went wrong.

A gateway here is ``feed(data) -> bytes`` and ``eof() -> bytes`` (what it writes to the wire because of them), with the
recorder in the place of the executor. Where it has an attribute ``closed``, that is compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, cast

from stdout_guard._outcomes import as_object, is_array
from stdout_guard.boundary import DENIED
from stdout_guard.framing import Frame, Framing, frame_reader
from stdout_guard.jsonrpc import Decoded, decode
from stdout_guard.recorder import Recorder
from stdout_guard.testing.corpus import Case


class Gateway(Protocol):
    """The two methods of an adapter for a gateway of your own."""

    def feed(self, data: bytes, /) -> bytes:
        """Take bytes of the client; return what is written back."""
        ...

    def eof(self) -> bytes:
        """The client has left; return what is written back."""
        ...


MakeGateway = Callable[[Case, Recorder], Gateway]


def run_case(case: Case, make: MakeGateway, *, cut: int = 0) -> list[str]:
    """Drive one case; returns what is not as expected, empty when all is well.

    ``cut`` > 0 delivers the bytes in pieces of that size, which must change nothing.
    """
    recorder = Recorder()
    gateway = make(case, recorder)
    for piece in case.handshake:
        gateway.feed(piece)
    output = b""
    for chunk in case.chunks:
        for piece in _cut(chunk, cut):
            output += gateway.feed(piece)
    if case.eof:
        output += gateway.eof()
    return [
        *_effects(case, recorder),
        *_answers(case, errors(output, case.framing)),
        *_ended(case, gateway),
    ]


def _cut(chunk: bytes, size: int) -> Iterator[bytes]:
    return (chunk[at : at + size] for at in range(0, len(chunk), size)) if size else iter((chunk,))


def _effects(case: Case, recorder: Recorder) -> Iterator[str]:
    wanted = list(cast("list[str]", case.expect["executor_calls"]))
    forbidden = sorted(set(recorder.names) & set(cast("list[str]", case.expect["forbidden"])))
    if forbidden:
        yield f"executed what must never run: {forbidden}"
    if recorder.names != wanted:
        yield f"executor calls {recorder.names}, expected {wanted}"
    stage, rejected = case.expect["stage"], case.expect["rejected"]
    if recorder.refusals and isinstance(rejected, int) and len(recorder.refusals) != rejected:
        yield f"{len(recorder.refusals)} refusals {recorder.stages}, expected {rejected}"
    if recorder.stages and stage != "none" and recorder.stages[0] != stage:
        yield f"refused at stage {recorder.stages[0]}, expected {stage}"


def _answers(case: Case, found: list[Mapping[str, Any]]) -> Iterator[str]:
    if case.replies and not case.replies[0] <= len(found) <= case.replies[1]:
        yield f"{len(found)} error replies, expected {case.replies[0]} to {case.replies[1]}"
    if not found or case.expect["stage"] == "none":
        return
    code, first = case.expect["code"], found[0]
    if code is not None and first["code"] not in [code, *(case.expect["alt"] or [])]:
        yield f"code {first['code']}, expected {code} or {case.expect['alt']}"
    if case.expect["error_id"] and first["id"] not in case.expect["error_id"]["one_of"]:
        yield f"error id {first['id']!r}, expected one of {case.expect['error_id']['one_of']}"


def _ended(case: Case, gateway: Gateway) -> Iterator[str]:
    closed = getattr(gateway, "closed", None)
    if closed is not None and bool(closed) != case.expect["closed"]:
        yield f"session {'closed' if closed else 'open'}, expected the opposite"


def errors(output: bytes, framing: str) -> list[Mapping[str, Any]]:
    """The error replies in what was written: ``id`` ("<absent>" when there is none) and ``code``.

    A denial has the code "denied", a tool result with ``isError`` the code "isError".
    Raises ValueError when the output itself is not clean frames.
    """
    reader = frame_reader(cast("Framing", framing))
    found: list[Mapping[str, Any]] = []
    for frame in (*reader.feed(output), *reader.close()):
        decoded = decode(frame.body) if isinstance(frame, Frame) else None
        if not isinstance(decoded, Decoded):
            raise ValueError(f"the gateway wrote something that is no message: {frame.raw[:200]!r}")
        value = decoded.value
        for message in value if is_array(value) else [value]:
            found.extend(_error(as_object(message)))
    return found


def _error(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    reply_id = message.get("id", "<absent>")
    if "error" in message:
        code = message["error"]["code"]
        yield {"id": reply_id, "code": "denied" if code == DENIED else code}
    elif isinstance(message.get("result"), dict) and message["result"].get("isError"):
        yield {"id": reply_id, "code": "isError"}
