"""Virtual environments for the tests that drive published packages: a table of pins, made on demand and kept.

`python(NAME)` returns the interpreter of an environment that holds the pinned packages and this project *as built into
a wheel*; `node_modules()` does the same for npm. They live in `.envs/` at the project's root, or where
`STDOUT_GUARD_TEST_ENVS` says. An environment which cannot be made is an error with pip's own words, never a skip.

An environment is built in its final place (console scripts hold absolute paths, so it cannot be moved there) under a
file lock, and counts only once its marker file is written: a build cut short is thrown away and made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NPM_MANIFEST = ROOT / "tests" / "real" / "npm" / "package.json"
DOWNLOADS = 3  # times that an installer is started before its words are believed
BUILD_DEADLINE = 600.0  # seconds for one pip or npm run, on a slow machine with an empty cache
PACKAGE_LIFE = 24 * 3600.0  # seconds
COMPLETE = ".complete"


@dataclass(frozen=True)
class Recipe:
    """What one environment holds. `alone` is installed without its dependencies: they are named in `packages`."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


RECIPES = {
    # the newest release of each family that can live together
    "newest": Recipe(
        (
            "mcp==2.3.0",
            "fastmcp==4.2.3",
            "agent-client-protocol==0.12.1",
            "pygls==2.1.1",
            "jedi-language-server==0.47.0",
            "python-lsp-server==1.15.0",
            "pytest-lsp==1.0.1",
            "singer-sdk[msgspec]==0.54.9",
            "mcp-server-time==2026.10.19",
            "mcp-server-git==2026.10.19",
            "office-word-mcp-server==1.1.11",
            "excel-mcp-server==2.2.2",
        )
    ),
    # the last of mcp 1, which most published servers still run on
    "mcp1": Recipe(("mcp==1.30.0", "fastmcp==3.4.11", "mcp-server-calculator==0.2.1")),
    "fastmcp2": Recipe(("mcp==1.30.0", "fastmcp==2.14.7")),
    # the oldest that are supported; mcp 1.9.4 imports a private name which pydantic 2.12 removed
    "oldest": Recipe(("mcp==1.9.4", "pydantic<2.12", "pygls==1.3.1", "singer-sdk==0.44.4")),
    # the event loops that anyio also runs on
    "loops": Recipe(("mcp==2.3.0", "trio==0.35.0", "uvloop==0.23.0")),
    # singer-python and its fork share the package name `singer`; the target pins an old one of its own
    "singer": Recipe(("singer-python==6.8.0",)),
    # pins an orjson that cannot be built for Python 3.11
    "pipelinewise": Recipe(
        ("orjson>=3.9", "jsonschema==3.2.0", "backoff==1.11.1", "python-dateutil", "pytz", "ciso8601", "setuptools<81"),
        alone=("pipelinewise-singer-python==2.0.1",),
    ),
    "target": Recipe(("target-jsonl==0.1.4",)),
    "airbyte": Recipe(("airbyte-cdk==7.39.1",)),
    "packagers": Recipe(("pyinstaller==6.22.3", "pex==2.105.2", "shiv==1.0.8")),
}


class EnvironmentBuildError(Exception):
    """A test environment could not be made; the text holds the command and the end of what it printed."""


def python(name: str) -> Path:
    """Return the interpreter of environment `name` (a key of RECIPES), made when missing.

    The project's current source is importable there from its unpacked wheel. Raises EnvironmentBuildError.
    """
    folder = _virtual_environment(name)
    _point_to(folder, package())
    return folder / "bin" / "python"


def script(name: str, program: str) -> Path:
    """Return the path of console script `program` in environment `name`."""
    path = python(name).parent / program
    if not path.exists():
        raise EnvironmentBuildError(f"environment {name} holds no console script {program}: see {path.parent}")
    return path


@functools.cache
def node_modules() -> Path:
    """Return the folder that holds `node_modules` with the packages of tests/real/npm/package.json."""
    manifest = NPM_MANIFEST.read_bytes()
    folder = home() / f"npm-{_digest(manifest)}"

    def build() -> None:
        (folder / "package.json").write_bytes(manifest)
        npm = [_program("npm"), "install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=6"]
        _run(npm, cwd=folder, tries=DOWNLOADS)

    _once(folder, build)
    return folder


@functools.cache
def package() -> Path:
    """Return the folder of this project's wheel, built from the present source and unpacked."""
    sources = sorted(p for p in (ROOT / "stdout_guard").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    sources += [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]
    digest = _digest(b"".join(str(p.relative_to(ROOT)).encode() + b"\0" + p.read_bytes() for p in sources))
    folder = home() / f"package-{digest}"

    def build() -> None:
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")], cwd=ROOT)
        (wheel,) = (folder / "wheel").glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder / "unpacked")
        _forget_old_packages()

    _once(folder, build)
    return folder / "unpacked"


def home() -> Path:
    """Return the folder that holds all environments."""
    folder = Path(os.environ.get("STDOUT_GUARD_TEST_ENVS") or ROOT / ".envs").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _virtual_environment(name: str) -> Path:
    recipe = RECIPES[name]
    runtime = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = _digest(json.dumps([recipe.packages, recipe.alone, runtime, sys.version]).encode())
    folder = home() / f"{name}-{version}-{key}"

    def build() -> None:
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--retries", "8"]
        _run([*pip, *recipe.packages, *runtime], tries=DOWNLOADS)
        if recipe.alone:
            _run([*pip, "--no-deps", *recipe.alone], tries=DOWNLOADS)

    _once(folder, build)
    return folder


def _point_to(folder: Path, unpacked: Path) -> None:
    """Make `unpacked` importable in the environment through a path file, replaced in one step when it changed."""
    (site,) = (folder / "lib").glob("python*/site-packages")
    path_file = site / "stdout_guard_under_test.pth"
    if path_file.exists() and path_file.read_text("utf-8").strip() == str(unpacked):
        return
    fresh = path_file.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(f"{unpacked}\n", "utf-8")
    fresh.replace(path_file)


def _forget_old_packages() -> None:
    """Remove the packages of earlier sources, one for each edit, once no running session can still use them."""
    for old in home().glob("package-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > PACKAGE_LIFE:
                shutil.rmtree(old) if old.is_dir() else old.unlink()


def _once(folder: Path, build: Callable[[], None]) -> None:
    """Run `build()` with `folder` made and empty, unless it was completed before; other processes wait."""
    if (folder / COMPLETE).exists():
        return
    with _locked(folder.with_name(folder.name + ".lock")):
        if (folder / COMPLETE).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        build()
        (folder / COMPLETE).touch()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], cwd: Path | None = None, tries: int = 1) -> None:
    # PYTHON* of the test session (a path, unbuffered, no bytecode) would leak into what is built
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUILD_DEADLINE,
        check=False,
    )
    if done.returncode and tries > 1:
        _run(command, cwd, tries - 1)
    elif done.returncode:
        tail = done.stdout.decode("utf-8", "replace")[-4000:]
        raise EnvironmentBuildError(f"exit {done.returncode}: {' '.join(command)}\n{tail}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise EnvironmentBuildError(f"{name} is not on PATH: the npm client's tests need node and npm")
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
