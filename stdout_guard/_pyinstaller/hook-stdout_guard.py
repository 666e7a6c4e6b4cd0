"""PyInstaller's hook: the guard names modules of its own by string, which a look at its imports does not find."""

from pathlib import Path

_HOME = Path(__file__).resolve().parent.parent
_NOT_IN_A_SERVER = {"__main__", "cli", "pytest_plugin", "_run", "_validate"}

hiddenimports = [f"stdout_guard.{path.stem}" for path in _HOME.glob("*.py") if path.stem not in _NOT_IN_A_SERVER]
hiddenimports += [f"stdout_guard.adapters.{path.stem}" for path in (_HOME / "adapters").glob("*.py")]
hiddenimports = sorted(name.removesuffix(".__init__") for name in hiddenimports)
