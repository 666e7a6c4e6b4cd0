"""Named tuples made at the speed of a tuple: where one is made for each frame or call, that shows. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")


def maker(kind: type[T]) -> Callable[[Any], T]:
    """What makes a ``kind``, a NamedTuple, of a tuple with all of its fields; its own constructor is Python code."""
    return cast("Callable[[Any], T]", partial(cast("Any", tuple).__new__, kind))
