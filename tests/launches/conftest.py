"""The same child runner as the guard's tests; what builds an environment gets the time for it."""

from pathlib import Path

import pytest
from guard.conftest import run as run  # a fixture

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Packagers build environments and programs: minutes on an empty cache."""
    for item in items:
        if item.path.is_relative_to(FOLDER) and item.path.stem == "test_packagers":
            item.add_marker(pytest.mark.timeout(1200))
