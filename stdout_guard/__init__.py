"""stdout belongs to the protocol writer alone. Importing this does nothing; :func:`install` (or
``import stdout_guard.auto``) makes the guard stand: stray print, warnings, logging, C and child output go to stderr
with the line that wrote them, and only ``guard.wire`` and named protocol writers reach the client.

For applications, never for libraries.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._formats import Counts as Counts
    from ._guard import Guard as Guard
    from ._ledger import StrayWrite as StrayWrite
    from .errors import (
        GuardStateError as GuardStateError,
        LateInstallWarning as LateInstallWarning,
        LocalProtocolError as LocalProtocolError,
        ProtocolError as ProtocolError,
        RemoteProtocolError as RemoteProtocolError,
        StdoutGuardError as StdoutGuardError,
        StrayWriteError as StrayWriteError,
    )

__version__ = "0.1.0"

_ERRORS = "StdoutGuardError StrayWriteError GuardStateError ProtocolError LocalProtocolError RemoteProtocolError"
_ELSEWHERE = {"Guard": "_guard", "StrayWrite": "_ledger", "Counts": "_formats"} | dict.fromkeys(
    [*_ERRORS.split(), "LateInstallWarning"], "errors"
)
__all__ = ["__version__", "current", "install", "uninstall", *_ELSEWHERE]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)


def install(
    mode: "str | None" = None,
    *,
    writers: "Iterable[str]" = (),
    log: "str | os.PathLike[str] | None" = None,
    log_format: "str | None" = None,
    redact: "bool | Callable[[str], str] | None" = None,
    channel: "str | None" = None,
    async_wire: "bool | None" = None,
) -> "Guard":
    """Make the guard stand and return it. Call it first, before anything that may print is imported.

    mode: ``"redirect"`` (default), ``"strict"`` (a stray write raises StrayWriteError at its line, and the process ends
    with status 120) or ``"off"``. writers: names of modules whose ``sys.stdout`` is to be the wire. log: a file that
    gets the report instead of stderr. log_format: ``"text"``, ``"json"`` or ``"raw"``. redact: True, or a callable from
    text to text. channel: ``"thread"`` (default) or ``"dup"`` (fd 1 straight to stderr, no thread, C and children
    unnamed). async_wire: True gives the MCP SDKs an asynchronous reader and writer instead of a thread for each line.

    Each has an environment variable that wins: STDOUT_GUARD, STDOUT_GUARD_WRITERS (adds), STDOUT_GUARD_LOG,
    STDOUT_GUARD_FORMAT, STDOUT_GUARD_REDACT, STDOUT_GUARD_CHANNEL, STDOUT_GUARD_ASYNC. Calling again is harmless;
    calling again with other settings, or with a value that does not exist, is a GuardStateError. Nothing is changed
    then.
    """
    given = dict(locals())
    if (os.environ.get("STDOUT_GUARD") or mode) == "off":
        from ._off import GUARD

        return GUARD  # type: ignore[return-value]  # the same names, nothing behind them
    from ._guard import install_from

    return install_from(sys._getframe(1), given)


def uninstall() -> None:
    """Take the guard away: for tests, and for a server that turns out to speak HTTP. Harmless when none stands."""
    module = sys.modules.get(f"{__name__}._guard")
    if module is not None and module.current is not None:
        from ._seldom import take_away

        take_away(module.current)


def current() -> "Guard | None":
    """The guard that stands in this process, or None."""
    module = sys.modules.get(f"{__name__}._guard")
    return None if module is None else module.current
