"""Runs the children of the guard's tests, and puts what they said into the report of a failed test."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from guard.harness import Result, run as run_child

RESULTS = pytest.StashKey[list[Result]]()


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Result]:
    """``run(source, **options)`` runs a script to its end in the test's folder; see :func:`guard.harness.run`."""
    results: list[Result] = []
    request.node.stash[RESULTS] = results

    def start(source: str, **options: Any) -> Result:
        result = run_child(source, options.pop("folder", tmp_path), **options)
        results.append(result)
        return result

    return start


@pytest.fixture(params=[False, True], ids=["buffered", "unbuffered"])
def unbuffered(request: pytest.FixtureRequest) -> bool:
    """PYTHONUNBUFFERED, which also unbuffers C's stdout, and hides every fault that is about buffers."""
    return bool(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for number, result in enumerate(item.stash.get(RESULTS, [])[-4:]):
            report.sections.append((f"child {number}", str(result)))
    return report
