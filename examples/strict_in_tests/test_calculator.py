"""Strict in tests: a test whose code writes to stdout fails, with the line that wrote.

pytest --stdout-guard=strict examples/strict_in_tests
"""

import pytest
from calculator import add, multiply


def test_add_is_silent() -> None:
    assert add(2, 3) == 5


@pytest.mark.allow_stray_writes(reason="known, and to be removed")
def test_multiply_may_print_for_now() -> None:
    assert multiply(2, 3) == 6


def test_multiply_prints(stray_writes) -> None:  # type: ignore[no-untyped-def]
    """The fixture hands over what was written, and by whom; asking for it means that this test judges it itself."""
    assert multiply(2, 3) == 6
    assert [stray.text for stray in stray_writes] == ["multiplying 2 3"]
    assert stray_writes[0].file.endswith("calculator.py")
