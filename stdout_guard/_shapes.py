"""Whom a message that is none may be answered, and what only a whole batch shows."""

from __future__ import annotations

from stdout_guard._outcomes import Answered, Outcome, Refused, Wanted, as_object, id_type
from stdout_guard.jsonrpc import Fault


def answer_shaped(value: object) -> bool:
    """Whether a peer could have meant this as an answer: answering an answer starts an error storm (rust-sdk#938)."""
    members = as_object(value)
    return "method" not in members and ("result" in members or "error" in members)


def misshapen(value: object, fault: Fault) -> Refused:
    """A refusal at stage jsonrpc: the id is echoed when it can be read; answers and notifications get no reply."""
    members = as_object(value)
    known = members.get("id")
    readable = known if type(known) is int or type(known) is str else None
    silent = answer_shaped(value) or ("method" in members and "id" not in members)
    return Refused(fault.stage, fault.code, readable, id_type(known), silent)


def together(outcomes: list[Outcome]) -> list[Outcome]:
    """The rules that only a whole batch shows: no id twice, and no initialize in it (MCP 2025-03-26)."""
    seen: set[int | str] = set()
    for slot, outcome in enumerate(outcomes):
        if isinstance(outcome, Answered | Wanted):
            request_id, opens = outcome.request_id, isinstance(outcome, Answered) and outcome.phase is not None
            if request_id in seen or opens:
                reason = "id-reused" if request_id in seen else "initialize-in-batch"
                outcomes[slot] = Refused("session", reason, None, id_type(request_id))
            seen.add(request_id)
    return outcomes
