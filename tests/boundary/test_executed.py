"""What published servers execute of damaged frames: the table that is shown is what was measured."""

import json
from pathlib import Path

import boundary_executed as executed
import pytest
from boundary_adapter import Gateway

from stdout_guard.testing.corpus import load
from stdout_guard.testing.corpus.run import run_case

FOUND = json.loads(executed.DATA.read_text("utf-8"))


def test_every_execution_that_was_seen_is_in_the_table():
    """No server executed a case that is of no kind; each case is of one; every server has a column."""
    assert list(FOUND) == [column.name for column in executed.COLUMNS]
    for ids in FOUND.values():
        assert ids and all(len(executed.kinds_of(case_id)) == 1 for case_id in ids)
    rows = executed.markdown(FOUND).splitlines()
    assert len(rows) == 2 + len(executed.KINDS)
    assert all(row.count("|") == 2 + len(executed.COLUMNS) for row in rows)


def test_the_readme_shows_what_was_measured():
    """The table there is the data here, to the last figure."""
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert executed.markdown(FOUND) in readme
    everything = {case_id for ids in FOUND.values() for case_id in ids}
    assert f"{len(everything)} reached the tool of one server at least" in readme


def test_the_boundary_executes_none_of_them():
    """Every case of the table, behind the boundary: as the corpus expects, nothing ran that must not."""
    ids = {case_id for kind in executed.KINDS.values() for case_id in kind}
    cases = [case for case in load() if case.id in ids]
    assert len(cases) == len(ids)
    for case in cases:
        assert run_case(case, lambda case, recorder: Gateway(case.record, recorder)) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("column", executed.COLUMNS, ids=lambda column: column.name)
def test_what_the_published_server_executes(column):
    """One start of the real server for each case of the table, and for one that it is known to refuse in each stage."""
    wanted = {case_id for kind in executed.KINDS.values() for case_id in kind} | {"H010k", "H019k", "H256k", "H249k"}
    found = executed.measure(column, cases=lambda case_id: case_id in wanted)
    assert found == sorted(FOUND[column.name])
