"""The hostile corpus against real servers: what each case was answered, and whether a refused frame ran."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from stdout_guard.testing import corpus, gate, inbound
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import Plan
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.run import Server

FEW = {"H001k", "H041k", "H045k", "H057k", "H216k", "H226k", "H240k"}


@pytest.fixture
def few(monkeypatch):
    """A handful of cases, so that the quick run stays quick."""
    cases = [case for case in corpus.load() if case.id in FEW]
    assert len(cases) == len(FEW)
    monkeypatch.setattr(inbound.corpus, "load", lambda: cases)


def _check(command: list[str], **settings) -> gate.ServerResult:
    result = gate.check(Plan(Server("server", tuple(command), **settings), (CONDITIONS["plain"],), corpus=True))
    print("\n".join(result.corpus))
    return result


def test_what_a_lenient_server_executes_is_reported_case_by_case(few, command_of):
    """NaN, duplicate members and ids of the wrong type get a result: exit status 1, although the plain run is clean."""
    result = _check(command_of("clean"))
    assert {outcome.status for outcome in result.outcomes} == {"clean"}
    assert set(result.corpus_executed) == {"H041k", "H045k", "H057k", "H216k", "H226k", "H240k"}
    assert "H001k: debug line, then a valid request [keep-open]: error -32601" in result.corpus
    assert gate.status([result]) == 1


def test_a_server_behind_the_boundary_executes_none_of_them(few, command_of):
    """The same cases, the package's own boundary in front of the tool: refused, nothing ran."""
    result = _check(command_of("bounded"))
    assert result.outcomes[0].status == "clean", result.outcomes[0].problems
    assert result.corpus_executed == [] and len(result.corpus) == len(FEW)
    assert all("error -32" in line for line in result.corpus)
    assert gate.status([result]) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_corpus_runs_nothing_behind_the_boundary(command_of):
    """Every case of the corpus that fits a newline channel."""
    result = _check(command_of("bounded"))
    assert len(result.corpus) > 100 and result.corpus_executed == []


def test_a_call_that_may_run_is_not_counted_as_an_execution():
    """The good call behind the refused one has an id of its own, and is allowed once."""
    case = corpus.find("H001k")
    (identifier,) = [repr(8)]
    assert dict(inbound._allowed(case)) == {identifier: 1}
    armed, provable = inbound._armed(corpus.find("H045k"), Call("get_answer"))
    assert provable and b'"get_answer"' in armed[0]


def test_without_a_tool_to_call_nothing_is_called_an_execution(few, tmp_path):
    """A server without a callable tool: the answers are told, and that an execution could not be seen."""
    answered = inbound.put(Server("none", (sys.executable, "-c", "input()")), None)
    assert answered[1] == [] and all("could not be seen" in line for line in answered[0])
    assert dataclasses.is_dataclass(inbound.Answered)
