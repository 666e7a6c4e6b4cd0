"""Every case of the shipped corpus, against the boundary: effects first, then what was answered."""

import pytest
from boundary_adapter import Gateway

from stdout_guard.testing.corpus import load
from stdout_guard.testing.corpus.run import run_case
from stdout_guard.testing.refused import tripwire

CASES = load()
SMALL = [case for case in CASES if all("gen" not in chunk for chunk in case.record["chunks"])]


def make(case, recorder):
    return Gateway(case.record, recorder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_corpus_case(case):
    """What must never run does not run; stage, code, id, replies and the end of the session are as expected."""
    assert run_case(case, make) == []


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
def test_corpus_case_byte_by_byte(case):
    """However the bytes arrive, the outcome is the same."""
    assert run_case(case, make, cut=1) == []


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.id)
def test_any_cut_writes_the_same_bytes(case):
    """Replies do not depend on how the bytes were cut either."""
    outputs = set()
    for cut in (0, 7, 64):
        gateway = Gateway(case.record)
        data = case.stdin
        for at in range(0, len(data), cut or len(data)):
            gateway.feed(data[at : at + (cut or len(data))])
        gateway.eof()
        outputs.add(gateway.output)
    assert len(outputs) == 1


def test_corpus_touches_nothing_outside():
    """No socket, process or file is opened while refused frames pass through every stage."""
    with tripwire():
        for case in CASES:
            run_case(case, make)


def test_no_secret_in_audit_or_reply():
    """What the peer or the authoriser said stays out of the audit and out of the replies."""
    for case in CASES:
        gateway = Gateway(case.record)
        gateway.feed(case.stdin)
        gateway.eof()
        told = repr(gateway.report()["audit"]) + gateway.output.decode()
        assert "tok_SECRET_hx" not in told, case.id


def test_counts_are_balanced_after_every_piece():
    """received is at every moment the sum of all fates, refusals and executions never in one counter."""
    for case in SMALL:
        gateway = Gateway(case.record)
        for piece in (*case.handshake, *case.chunks):
            gateway.feed(piece)
            assert gateway.boundary.counts.balanced, case.id
        gateway.eof()
        counts = gateway.boundary.counts
        assert counts.balanced, case.id
        assert counts.executed == len(gateway.recorder.calls), case.id
        assert counts.refused + counts.denied == len(gateway.recorder.refusals), case.id
