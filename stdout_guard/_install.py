"""install(): settings checked, one guard made, a second call or a second copy of this package noticed."""

import os
import sys

from . import _fd, _guard, _lifecycle
from ._guard import Guard
from ._settings import Settings
from .errors import GuardStateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType


def install_from(installer: "FrameType | None", given: "Mapping[str, object]") -> Guard:
    """The guard, made to stand when none does. ``installer`` tells which application this is."""
    standing = _lifecycle.current or _another_copy()
    if standing is not None:
        clashes = standing.settings.clashes(given)
        if clashes:
            raise GuardStateError(
                f"the guard already stands in this process, and a second install() asks for {', '.join(clashes)}; "
                "install once, with the settings you want, or call uninstall() first"
            )
        return standing
    guard = Guard(Settings(os.environ, **given), installer)
    _lifecycle.stand(guard)
    return guard


def _another_copy() -> Guard | None:
    """The guard of another copy of this package (reloaded, vendored, purged from sys.modules), known by descriptors."""
    found: Guard | None = None
    for stream in (sys.stdout, sys.__stdout__):
        found = found or getattr(getattr(stream, "buffer", None), "stdout_guard", None)
    if found is not None and found.role in ("owner", "worker", "watch"):
        return found
    if os.environ.get(_guard.MARKER + "_OWNER") == str(os.getpid()) and _guard.marked(1) and _fd.identity(1):
        raise GuardStateError(
            "another copy of stdout-guard already guards this process, and sys.stdout was replaced since, so its guard "
            "cannot be found; import one copy only"
        )
    return None
