"""Settings of the tests that drive published packages: the first one to need an environment also builds it."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FIRST_BUILD = 900  # seconds, for pip with an empty cache on two busy cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder the time that building its environment may take."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.timeout(FIRST_BUILD))
