"""Settings of the tests that drive published packages: the first one to need an environment also builds it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.harness import Child
from real import async_server

FOLDER = Path(__file__).parent
FIRST_BUILD = 900  # seconds, for pip with an empty cache on two busy cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder the time that building its environment may take."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.timeout(FIRST_BUILD))


@pytest.fixture
def serve(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Child]]:
    """``serve(kind, sdk, loop)`` starts a server, see async_server.start; what it said is shown when the test fails."""
    children: list[Child] = []

    def start(*what: str, **options: Any) -> Child:
        children.append(async_server.start(tmp_path / f"run{len(children)}", *what, **options))
        return children[-1]

    failed = request.session.testsfailed
    yield start
    for child in children:
        child.close()
        if request.session.testsfailed > failed:
            print(child.report())
