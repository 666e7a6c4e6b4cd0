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
_wanted: "set[str]" = set()


def begin(guard: "Guard") -> None:
    """Look at what is imported already, and watch for the rest: this module itself is the finder, which finds nothing.
    It stays; what it loads asks for the current guard."""
    if guard.role == "watch":
        return
    this: Any = sys.modules[__name__]
    if this not in sys.meta_path:
        sys.meta_path.insert(0, this)
    names = (*SDKS, *(name.partition(".")[0] for name in guard.settings.writers))
    _wanted.clear()
    _wanted.update(name for name in names if name not in sys.modules)
    if "subprocess" in sys.modules:
        _children(sys.modules["subprocess"])
    if guard.role == "owner" and any(name in sys.modules for name in names):
        _adapt()


def find_spec(name: str, path: "Sequence[str] | None" = None, target: "Any" = None) -> "Any":
    """Asked by the import system for every module; answers only to step in between."""
    if name == "subprocess":
        spec = _ask_the_others(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _with_a_step(spec.loader, _children)
        return spec
    if name in _wanted:
        _wanted.discard(name)
        _adapt()
        return _ask_the_others(name, path, target)  # wrapt's finder came in behind the loop that asks us
    return None


def _children(module: "Any") -> None:
    from .adapters import children

    children.wrap(module)


def _adapt() -> None:
    import importlib

    importlib.import_module(f"{__package__}.adapters").begin()


def _ask_the_others(name: str, path: "Any", target: "Any") -> "Any":
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec = None if find is None or find is find_spec else find(name, path, target)
        if spec is not None:
            return spec
    return None


def _with_a_step(loader: "Any", then: "Callable[[Any], None]") -> "Any":
    """The real loader, with one more step after the module's body; it is put back where it is looked for."""

    class Loader:
        def __getattr__(self, name: str) -> "Any":
            return getattr(loader, name)

        def create_module(self, spec: "Any") -> "Any":
            return loader.create_module(spec)

        def exec_module(self, module: "Any") -> None:
            module.__spec__.loader = module.__loader__ = loader
            loader.exec_module(module)
            then(module)

    return Loader()
