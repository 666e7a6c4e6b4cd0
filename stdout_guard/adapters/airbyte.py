"""airbyte-cdk: its frames leave by ``print`` from nine modules, and its logging is protocol as well.

Read on 7.39. ``airbyte_cdk.utils.print_buffer`` puts one object in the place of ``sys.stdout`` *and* ``sys.stderr``
while a connector runs, collects what is printed and logged, and writes it to ``sys.__stdout__``. So the ``print`` of
all these modules goes where the buffer module's ``sys.stdout`` is, in the order of the calls; nobody else sees that
one. A connector's own print goes to stderr with its line; its logging stays an Airbyte LOG message.
"""

from __future__ import annotations

import functools
import io
from typing import Any

from stdout_guard._guard import Guard
from stdout_guard.adapters import sdk

MUST_PRINT = ("airbyte_cdk.entrypoint",)  # the others may come and go: what does not print has no frame to lose


def buffer(module: Any, guard: Guard, stdin: bool) -> str:
    """Give the wire to ``airbyte_cdk.utils.print_buffer``; "" or why it does not fit."""
    streams = shared_streams(guard)
    return sdk._give(module, guard, streams, streams["stdout"])


def printer(module: Any, guard: Guard, stdin: bool) -> str:
    """Send what ``module`` prints where the print buffer is, each call one unit; "" or why it does not fit."""
    streams = shared_streams(guard)
    prints = "print" in sdk._names(module)
    if prints:
        sdk._set(module, guard, "print", functools.partial(_print, streams))
    own = {name: streams[name] for name in ("stdin", "__stdout__")}  # their sys.stderr is not the buffer's affair
    sdk._give(module, guard, own | {"stdout": streams["__stdout__"]}, streams["__stdout__"])
    return "" if prints or module.__name__ not in MUST_PRINT else "it does not print"


@functools.lru_cache(maxsize=1)
def shared_streams(guard: Guard) -> dict[str, Any]:
    """What the buffer module sees as its streams; the others print to its stdout, a destination reads its stdin."""
    return sdk._streams(guard, True, guard.new_text_wire())


def _print(streams: dict[str, Any], *values: Any, file: Any = None, flush: bool = False, **options: Any) -> None:
    if file is not None:
        print(*values, file=file, flush=flush, **options)
        return
    whole = io.StringIO()
    print(*values, file=whole, **options)
    out = streams["stdout"]
    out.write(whole.getvalue())
    if flush:
        out.flush()
