"""Starts the children of the fault tests, ends them, and puts what they said into the report of a failed test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from faults.harness import Child

CHILDREN = pytest.StashKey[list[Child]]()


@pytest.fixture
def launch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """``launch(source, **options)`` starts a script; see :class:`faults.harness.Child`."""
    children: list[Child] = []
    request.node.stash[CHILDREN] = children

    def start(source: str, **options: Any) -> Child:
        child = Child(source, tmp_path / f"run{len(children)}", **options)
        children.append(child)
        return child

    yield start
    for child in children:
        child.close()


@pytest.fixture(params=["pipe", "socket"])
def wire(request: pytest.FixtureRequest) -> str:
    """The kind of stream that the client gives the server as stdout (node gives sockets)."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["buffered", "unbuffered"])
def unbuffered(request: pytest.FixtureRequest) -> bool:
    """PYTHONUNBUFFERED, which also unbuffers C's stdout, and hides every fault that is about buffers."""
    return bool(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick half takes every pair of parameter values once; what is left of each product of them is slow."""
    seen: dict[tuple[Path, str], set[frozenset[tuple[str, str]]]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or not item.path.is_relative_to(Path(__file__).parent):
            continue
        values = sorted((name, str(value)) for name, value in callspec.params.items())
        pairs = {frozenset(pair) for pair in combinations(values, min(2, len(values)))}
        known = seen.setdefault((item.path, getattr(item, "originalname", item.name)), set())
        if pairs <= known:
            item.add_marker(pytest.mark.slow)
        known |= pairs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for number, child in enumerate(item.stash.get(CHILDREN, [])[:4]):
            report.sections.append((f"child {number}", child.report()))
    return report
