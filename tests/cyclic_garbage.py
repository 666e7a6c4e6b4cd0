"""What only the cyclic collector can free: found while it is off."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def cyclic_garbage(named: Callable[[object], str | None]) -> Iterator[Callable[[], list[str]]]:
    """A function: what has become such garbage since its last call, as ``named`` calls it (None: not of interest)."""

    def look() -> list[str]:
        gc.collect()
        found = [name for thing in gc.garbage if (name := named(thing))]
        gc.garbage.clear()
        return found

    gc.collect()
    enabled, debug = gc.isenabled(), gc.get_debug()
    gc.disable()
    gc.freeze()  # what is there already, of four thousand other tests, is not looked at each time
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield look
    finally:
        gc.set_debug(debug)
        gc.garbage.clear()
        gc.unfreeze()
        if enabled:
            gc.enable()


def origin(thing: object) -> str:
    """The file or module that an object comes from."""
    code = getattr(thing, "f_code", None) or getattr(thing, "__code__", None)
    where = code.co_filename if code else str(getattr(type(thing), "__module__", ""))
    return where + str(getattr(thing, "__module__", "") or "")
