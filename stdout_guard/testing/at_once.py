"""Several requests at once: what is sent, and whether each answer is that of its own request.

A client sends the next request while the last one is at work. Ids are numbers and strings; the requests are those that
the session has sent alone before, so that their answers are known.
"""

from __future__ import annotations

from collections.abc import Iterator

from stdout_guard.testing.dialogue import Dialogue
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.protocols import mapping
from stdout_guard.testing.scanner import Message

AT_ONCE_STEP = "requests at once"
QUICK = 2.0  # seconds: a call that takes longer is not made twice more


def frames(dialogue: Dialogue, call: Call | None, *, fence: bool) -> dict[int | str, bytes]:
    """The requests, by id: fence, list and call, number and string ids in turn; none where none is harmless."""
    protocol = dialogue.protocol
    ping = [protocol.fence] if protocol.fence is not None and fence else []
    calls = [protocol.calls(call.name, call.arguments)] if call is not None else []
    kinds = [*calls, *ping, *([(protocol.listing, None)] if protocol.listing else []), *ping, *calls]
    if protocol.fence is None:
        return {}
    return dict(dialogue.frame(*kind, text=bool(number % 2)) for number, kind in enumerate(kinds))


def mixed(dialogue: Dialogue) -> Iterator[tuple[Message, str, str]]:
    """Answers with the result of another request that was sent with theirs, and the methods of both."""
    known: dict[str, frozenset[str]] = {}
    for message in dialogue.messages:
        method = dialogue.method_of(message.content.get("id"))
        if method is None or "result" not in message.content:
            continue
        members = frozenset(mapping(message.content["result"]))
        if message.content["id"] not in dialogue.at_once:
            known.setdefault(method, members)
        elif members != known.get(method, members):
            other = next((one for one, its in known.items() if its == members), None)
            if other is not None:
                yield message, method, other
