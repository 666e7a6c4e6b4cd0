"""The matrix: the built wheel on each Python, the range of its dependencies, the SDKs' versions, coverage; and the
bug-report cases where they lie beside the project.

nox -f .ci/noxfile.py --list tells the sessions. What follows -- goes to pytest in the place of a session's own choice.
"""

import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PYTHONS = ["3.11", "3.12", "3.13"]
# what .ci/run has time for on the other Pythons; the sessions' own choice is the whole of it
NEEDS_NO_SOURCE = [
    "tests/guard",
    "tests/faults",
    "tests/plugin",
    "tests/launches",
    "--ignore=tests/guard/test_typing.py",
]
TEST_EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["test"]
TOOLS = re.compile(r"(mypy|pyright|ruff|isort|nox|build|coverage|hatchling)\b")  # large, and no matter of the Python
NEEDED = [line for line in TEST_EXTRA if not TOOLS.match(line)]
OLDEST = {"wrapt": "wrapt==1.16.0", "typing-extensions": "typing-extensions==4.10.0"}  # as pyproject.toml admits
NEWEST = {"wrapt": "wrapt", "typing-extensions": "typing-extensions"}
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.envdir = str(ROOT / ".nox")
nox.options.sessions = ["wheel", "dependencies"]


def folder_of(session: nox.Session) -> Path:
    """A folder of the session's own. Not create_tmp(): that becomes TMPDIR, too long a path for the sockets of
    multiprocessing."""
    folder = Path(session.virtualenv.location).resolve() / "work"
    folder.mkdir(exist_ok=True)
    return folder


def built(session: nox.Session) -> Path:
    """The wheel of the present source, built by the interpreter that runs nox."""
    folder = folder_of(session)
    for old in folder.glob("*.whl"):
        old.unlink()
    session.chdir(ROOT)
    session.run(
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), external=True, silent=True
    )
    return next(folder.glob("*.whl"))


def out_of_reach(session: nox.Session, wheel: Path) -> dict[str, str]:
    """Makes a copy of the tests, with no source beside it, the working directory; returns the variables that point the
    children of the tests at the wheel's own files (not at site-packages: mypy takes no such path)."""
    folder = folder_of(session) / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    session.chdir(folder)
    unpacked = folder.parent / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    zipfile.ZipFile(wheel).extractall(unpacked)
    return {"STDOUT_GUARD_UNDER_TEST": str(unpacked), "STDOUT_GUARD_TEST_ENVS": str(ROOT / ".envs")}


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """What does not need the SDKs, on the built wheel, with the source tree out of reach."""
    package = built(session)
    session.install("-q", str(package), *NEEDED)
    env = out_of_reach(session, package)
    session.run("python", "-m", "pytest", "-q", "-n", "2", *(session.posargs or NEEDS_NO_SOURCE), env=env)


@nox.session(python=PYTHONS)
@nox.parametrize("typing_extensions", ["oldest", "newest"])
@nox.parametrize("wrapt", ["oldest", "newest"])
def dependencies(session: nox.Session, wrapt: str, typing_extensions: str) -> None:
    """Each end of the range of either dependency: the adapters, the writer and the protocol half's imports."""
    chosen = [(OLDEST if wrapt == "oldest" else NEWEST)["wrapt"]]
    chosen += [(OLDEST if typing_extensions == "oldest" else NEWEST)["typing-extensions"]]
    package = built(session)
    session.install("-q", "--upgrade", str(package), *chosen)
    session.install("-q", "pytest", "pytest-timeout", "pytest-xdist", "click", "rich", "jsonschema")
    env = out_of_reach(session, package)
    tests = session.posargs or [
        "tests/guard/test_adapters.py",
        "tests/guard/test_writer.py",
        "tests/boundary/test_imports.py",
    ]
    session.run("python", "-m", "pytest", "-q", "-n", "2", *tests, env=env)


@nox.session(python=PYTHONS)
def sdks(session: nox.Session) -> None:
    """Every SDK version of README's table, slow ones too, with real servers and real clients."""
    session.chdir(ROOT)
    session.install("-q", "-e", ".[test]")
    session.run(
        "python", "-m", "pytest", "-q", "-n", "2", "-m", "slow or not slow", *(session.posargs or ["tests/real"])
    )


@nox.session(python=PYTHONS)
def slow(session: nox.Session) -> None:
    """What does not fit the quick run: packagers among others."""
    session.chdir(ROOT)
    session.install("-q", "-e", ".[test]")
    session.run("python", "-m", "pytest", "-q", "-n", "2", "-m", "slow", *session.posargs)


START = """\
import os; os.environ["COVERAGE_PROCESS_START"] = {!r}; import coverage; coverage.process_startup(); \
del os.environ["COVERAGE_PROCESS_START"]
"""
SETTINGS = """\
[run]
source_pkgs = stdout_guard
parallel = true
core = sysmon
patch = _exit, execv
data_file = {}
[report]
fail_under = 95
ignore_errors = true
omit = */*-witness-*/*
exclude_also =
    if TYPE_CHECKING:
    ^    class \\w+\\(Protocol
"""


@nox.session(python=["3.13"])
def coverage(session: nox.Session) -> None:
    """Line coverage with every child process measured: a path file starts it in each, since tests keep COVERAGE_*
    variables and PYTHON* from their children, and sys.monitoring sees the threads that the guard starts by _thread.

    Tests of what a start loads, or of a storm of interrupts, fail under measurement: their verdict is not taken here.
    Not to be seen: what runs after the measurement is saved (strict's last step, libc's exit), in a copy of the package
    (_witness), in a process that a signal ends, and where another system is needed.
    """
    session.chdir(ROOT)
    session.install("-q", "-e", ".[test]")
    data = folder_of(session) / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    settings = data.parent / "coveragerc"
    settings.write_text(SETTINGS.format(data / "d"), "utf-8")
    site = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    assert site is not None
    (Path(site.strip()) / "zz_coverage.pth").write_text(START.format(str(settings)), "utf-8")
    tests = session.posargs or [str(p.relative_to(ROOT)) for p in (ROOT / "tests").iterdir() if p.name != "real"]
    session.run("python", "-m", "pytest", "-q", "-n", "2", *tests, success_codes=[0, 1])
    (Path(site.strip()) / "zz_coverage.pth").unlink()
    session.run("coverage", "combine", "-q", f"--rcfile={settings}")
    session.run("coverage", "report", "--show-missing", "--skip-covered", f"--rcfile={settings}")


@nox.session(python=False)
def cases(session: nox.Session) -> None:
    """49 public bug reports, replayed under the guard."""
    session.chdir(ROOT)
    home = ROOT / ".envs" / "cases"
    if not home.exists():
        shutil.copytree(SHARED / "cases", home)
        home.chmod(0o755)
        for path in home.rglob("*"):
            path.chmod(0o755)
    session.run("sh", str(home / "setup.sh"), external=True, env={"PYTHON": sys.executable})
    for python in sorted((home / ".venvs").glob("*/bin/python")):
        session.run(str(python), "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", ".", external=True)
        session.run(str(python), "-m", "pip", "install", "-q", "wrapt>=1.16", "typing-extensions>=4.10", external=True)
    report = home / "report.json"
    runner = (sys.executable, str(home / "run_cases.py"), "--guard", "stdout_guard", "--json", str(report), "-v")
    session.run(*runner, external=True)
    session.run(sys.executable, str(ROOT / ".ci" / "full_marks.py"), str(report), external=True)
