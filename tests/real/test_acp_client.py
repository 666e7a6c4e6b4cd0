"""The Agent Client Protocol's own Python client against a noisy agent."""

from __future__ import annotations

from pathlib import Path

import environments
import pytest
from real import expect, talk

ANSWERS = ["initialized", "session-1", "end_turn", ["HELLO"], 0]


def converse(order: str, folder: Path, **how: object) -> tuple[Path, talk.Seen]:
    path = expect.stage(folder, "acp_agent", order, "acp")
    return path, talk.client("acp_client.py", "newest", [environments.python("newest"), path.name], folder, **how)


@pytest.mark.parametrize(("order", "unbuffered"), [("guard first", False), ("sdk first", True)])
def test_every_answer_arrives(order: str, unbuffered: bool, tmp_path: Path) -> None:
    """The client gets each answer and update, logs no parse error, and stderr names every stray line."""
    path, seen = converse(order, tmp_path, unbuffered=unbuffered)
    assert seen.answers == ANSWERS, str(seen)
    assert not seen.complaints, str(seen)
    missing = expect.unnamed(seen.report, path, expect.HEARD)
    assert not missing, "\n".join([*missing, str(seen)])


def test_without_the_guard_the_client_complains(tmp_path: Path) -> None:
    """The client logs lines it cannot parse and loses an answer: the guarded run can fail."""
    _, seen = converse("bare", tmp_path, unbuffered=True, deadline=talk.LOST)
    assert seen.answers != ANSWERS and seen.complaints, str(seen)
