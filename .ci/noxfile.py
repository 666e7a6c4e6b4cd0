"""The matrix: the same tests on other Pythons, and the bug-report cases where they lie beside the project."""

import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.envdir = str(ROOT / ".nox")


@nox.session(python=["3.12", "3.13"])
def others(session: nox.Session) -> None:
    """What does not need the SDKs, on the Pythons that are here."""
    session.chdir(ROOT)
    session.install("-q", "-e", ".[test]")
    session.run("python", "-m", "pytest", "-q", "-n", "2", "tests/guard", "tests/examples")


@nox.session(python=["3.11"])
def lowest(session: nox.Session) -> None:
    """The oldest releases of the two dependencies that pyproject.toml admits."""
    session.chdir(ROOT)
    session.install("-q", "-e", ".", "wrapt==1.16.0", "typing-extensions==4.10.0")
    session.install("-q", "pytest", "pytest-timeout", "pytest-xdist", "click", "rich")
    session.run("python", "-m", "pytest", "-q", "-n", "2", "tests/guard/test_adapters.py")


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
