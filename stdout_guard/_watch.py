"""Notices when an SDK or subprocess is first imported, and hands it to the adapters.

Rules: what is known here is a name, nothing more; an adapter is loaded by dotted name when its package is really wanted
(``import wrapt`` costs more than the whole guard); a look-up in progress is never answered by loading something that
needs the same module.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ._guard import Guard

SDKS = ("mcp", "pygls", "acp", "pylsp", "singer", "singer_sdk", "airbyte_cdk")
_watcher: "Watcher | None" = None


def begin(guard: "Guard") -> None:
    """Look at what is imported already, and watch for the rest. The finder stays; it asks for the current guard."""
    global _watcher
    if guard.role == "watch":
        return
    if _watcher is None:
        _watcher = Watcher()
        sys.meta_path.insert(0, _watcher)
    names = (*SDKS, *(name.partition(".")[0] for name in guard.settings.writers))
    _watcher.sdks = {name for name in names if name not in sys.modules}
    if "subprocess" in sys.modules:
        _watcher.children(sys.modules["subprocess"])
    if guard.role == "owner" and any(name in sys.modules for name in names):
        _watcher.adapt()


class Watcher:
    """A finder that finds nothing itself."""

    def __init__(self) -> None:
        self.sdks: set[str] = set()

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, target: "Any" = None) -> "Any":
        if name == "subprocess":
            spec = self._ask_the_others(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self.children)
            return spec
        if name in self.sdks:
            self.sdks.discard(name)
            self.adapt()
            return self._ask_the_others(name, path, target)  # wrapt's finder came in behind the loop that asks us
        return None

    def children(self, module: "Any") -> None:
        """Name the children that this module starts."""
        from .adapters import children

        children.wrap(module)

    def adapt(self) -> None:
        """Load the SDK adapters; they hook the submodules that write frames."""
        import importlib

        importlib.import_module(f"{__package__}.adapters").begin()

    def _ask_the_others(self, name: str, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None


class _Loader:
    """The real loader, with one more step after the module's body; it is put back where it is looked for."""

    def __init__(self, loader: "Any", then: "Callable[[Any], None]") -> None:
        self._loader, self._then = loader, then

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)

    def create_module(self, spec: "Any") -> "Any":
        return self._loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)
