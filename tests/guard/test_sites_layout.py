"""Call sites: however the server is laid out and started, its own files are the application."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path

from guard.harness import FRAME, PRELUDE, UNDER_TEST, Result
from guard.test_sites_libraries import write

TOOL = "def tool():\n    print('hello')\n"  # line 2 is the one to be named
DEP = "def load():\n    print('from dep')\n"
ANSWER = f"guard.wire.write({FRAME!r})\n"
INSTALLED = "lib/python3.99/site-packages"


def test_python_c(run: Callable[..., Result]) -> None:
    """python -c: the string's own line is named."""
    done = run("", command=[sys.executable, "-c", f"{PRELUDE}\nprint('hello')\nanswer()"])
    assert done.wire == FRAME
    assert done.report == ["<string>:4 in <module>: hello"]


def test_python_c_that_runs_a_package_of_the_working_directory(run: Callable[..., Result], tmp_path: Path) -> None:
    """python -c "from app import main; main()": the working directory's package is no dependency of the one-liner."""
    write(
        tmp_path,
        {"app/__init__.py": f"from stdout_guard.auto import guard\n{TOOL}def main():\n    tool()\n    {ANSWER}"},
    )
    done = run("", command=[sys.executable, "-c", "from app import main; main()"])
    assert done.wire == FRAME
    assert done.report == ["app/__init__.py:3 in tool: hello"]


def test_python_from_stdin(run: Callable[..., Result]) -> None:
    """python - reads the program from stdin: its lines are named too."""
    done = run("", command=[sys.executable, "-"], stdin=f"{PRELUDE}\nprint('hello')\nanswer()\n".encode())
    assert done.wire == FRAME
    assert done.report == ["<stdin>:4 in <module>: hello"]


def test_a_package_run_by_m(run: Callable[..., Result], tmp_path: Path) -> None:
    """python -m app: every module of the package is the application."""
    write(tmp_path, {
        "app/__init__.py": "", "app/tools.py": TOOL, "app/sub/__init__.py": "", "app/sub/deep.py": TOOL,
        "app/__main__.py": f"{PRELUDE}from app import tools\nfrom .sub import deep\ntools.tool()\ndeep.tool()\nanswer()\n",
    })  # fmt: skip
    done = run("", command=[sys.executable, "-m", "app"])
    assert done.wire == FRAME
    assert done.report == ["app/tools.py:2 in tool: hello", "app/sub/deep.py:2 in tool: hello"]


def test_a_src_layout_with_an_installing_module_deep_inside(run: Callable[..., Result], tmp_path: Path) -> None:
    """The application is the top-level package of the module that installed the guard, wherever in it that is."""
    write(tmp_path, {
        "src/app/__init__.py": "", "src/app/tools.py": TOOL,
        "src/app/server/__init__.py": "", "src/app/server/main.py": f"{PRELUDE}from app import tools\ntools.tool()\nanswer()\n",
    })  # fmt: skip
    done = run(
        "", command=[sys.executable, "-m", "app.server.main"], env={"PYTHONPATH": f"{UNDER_TEST}:{tmp_path}/src"}
    )
    assert done.wire == FRAME
    assert done.report == ["src/app/tools.py:2 in tool: hello"]


def test_a_package_spread_over_two_folders(run: Callable[..., Result], tmp_path: Path) -> None:
    """A namespace package is one application, though its parts (plugins) lie in different folders."""
    write(tmp_path, {
        "one/app/main.py": f"{PRELUDE}from app import tools\ntools.tool()\ntools.through()\nanswer()\n",
        f"{INSTALLED}/app/tools.py": f"{TOOL}def through():\n    import dep\n    dep.load()\n", f"{INSTALLED}/dep.py": DEP,
    })  # fmt: skip
    path = f"{UNDER_TEST}:{tmp_path}/one:{tmp_path}/{INSTALLED}"
    done = run("", command=[sys.executable, "-m", "app.main"], env={"PYTHONPATH": path})
    assert done.wire == FRAME
    assert done.report == [
        f"{INSTALLED}/app/tools.py:2 in tool: hello",
        f"{INSTALLED}/dep.py:2 in load (from {INSTALLED}/app/tools.py:5): from dep",
    ]


def _console_script(folder: Path, body: str) -> Path:
    path = folder / "bin" / "served"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\n{body}", "utf-8")
    path.chmod(0o755)
    return path


def test_an_application_in_site_packages(run: Callable[..., Result], tmp_path: Path) -> None:
    """Installed as by uvx, the application lives in site-packages beside its dependencies: its own package is the
    application still, and another package there is a dependency."""
    home = tmp_path / "tool"
    write(home / INSTALLED, {
        "served/__init__.py": "", "served/tools.py": f"{TOOL}def use():\n    import dep\n    dep.load()\n",
        "served/cli.py": f"{PRELUDE}from served import tools\ndef main():\n    tools.tool()\n    tools.use()\n    answer()\n",
        "dep/__init__.py": DEP,
    })  # fmt: skip
    script = _console_script(
        home, f"import sys\nsys.path.append({str(home / INSTALLED)!r})\nfrom served.cli import main\nsys.exit(main())\n"
    )
    work = tmp_path / "elsewhere"
    work.mkdir()
    done = run("", command=[str(script)], cwd=work)
    assert done.wire == FRAME
    site = home / INSTALLED
    assert done.report == [
        f"{site}/served/tools.py:2 in tool: hello",
        f"{site}/dep/__init__.py:2 in load (from {site}/served/tools.py:5): from dep",
    ]


def test_a_virtual_environment_inside_the_project_is_no_application(run: Callable[..., Result], tmp_path: Path) -> None:
    """A .venv below the script's folder holds dependencies, though it is below the application's folder."""
    write(tmp_path, {f".venv/{INSTALLED}/dep.py": DEP})
    done = run(f"import sys; sys.path.append('.venv/{INSTALLED}')\nimport dep\ndep.load()  #@a\nanswer()\n")
    assert done.wire == FRAME
    assert done.report == done.at(f".venv/{INSTALLED}/dep.py:2 in load (from server.py:{{a}}): from dep")


def test_a_zip_application(run: Callable[..., Result], tmp_path: Path) -> None:
    """From a zipapp (shiv, pex) the members are named by their path in the archive, the application told from others."""
    write(
        tmp_path,
        {"src/tools.py": TOOL, "src/__main__.py": f"{PRELUDE}import tools\ntools.tool()\nprint('main')\nanswer()\n"},
    )
    zipapp.create_archive(tmp_path / "src", tmp_path / "app.pyz")
    done = run("", command=[sys.executable, "app.pyz"])
    assert done.wire == FRAME
    assert done.report == ["app.pyz/tools.py:2 in tool: hello", "app.pyz/__main__.py:5 in <module>: main"]


def test_scripts_in_one_folder_are_one_application(run: Callable[..., Result], tmp_path: Path) -> None:
    """A module beside the script, and in a folder below it, is the application's."""
    write(tmp_path, {"tools.py": TOOL, "more/stuff.py": TOOL})
    done = run("import tools, more.stuff\ntools.tool()\nmore.stuff.tool()\nanswer()\n")
    assert done.wire == FRAME
    assert done.report == ["tools.py:2 in tool: hello", "more/stuff.py:2 in tool: hello"]


def test_a_neighbouring_folder_is_no_application(run: Callable[..., Result], tmp_path: Path) -> None:
    """A folder whose name only begins like the application's is another's: it is named as a dependency."""
    write(tmp_path, {"app-lib/dep.py": DEP})
    done = run("import sys; sys.path.append('app-lib')\nimport dep\ndep.load()  #@a\nanswer()\n", name="app/server.py")
    assert done.wire == FRAME
    assert done.report == done.at("app-lib/dep.py:2 in load (from app/server.py:{a}): from dep")


def test_paths_are_what_a_terminal_can_open(run: Callable[..., Result], tmp_path: Path) -> None:
    """Relative to the working directory when below it, else absolute; told anew when the directory changes; absolute
    when it is gone, or the root."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(f"""
import os
def say(): print(os.getcwd() if os.path.exists("/proc/self/cwd/.") else "gone")  #@a
say()
os.chdir("sub"); say()
os.chdir({str(elsewhere)!r}); say()
os.chdir("/"); say()
os.chdir({str(tmp_path)!r}); os.mkdir("gone"); os.chdir("gone"); os.rmdir({str(tmp_path / "gone")!r})
print("gone")  #@b
answer()
""", name="app/server.py", cwd=(tmp_path / "app").absolute() if (tmp_path / "app" / "sub").mkdir(parents=True) is None else None)  # fmt: skip
    assert done.wire == FRAME
    app = tmp_path / "app"
    assert done.report == done.at(
        f"server.py:{{a}} in say: {app}",
        f"{app}/server.py:{{a}} in say: {app}/sub",
        f"{app}/server.py:{{a}} in say: {elsewhere}",
        f"{app}/server.py:{{a}} in say: /",
        f"{app}/server.py:{{b}} in <module>: gone",
    )


def test_a_script_given_by_a_relative_path(run: Callable[..., Result], tmp_path: Path) -> None:
    """A relative path on the command line still gives a path that can be opened after os.chdir()."""
    done = run(
        "import os\nprint('before')  #@a\nos.mkdir('below'); os.chdir('below')\nprint('after')  #@b\nanswer()\n",
        command=[sys.executable, "server.py"],
    )
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: before", f"{tmp_path}/server.py:{{b}} in <module>: after")


def test_install_inside_main_knows_the_application(run: Callable[..., Result], tmp_path: Path) -> None:
    """install() called in a function of a package makes that package the application."""
    write(tmp_path, {
        "app/__init__.py": "", "app/tools.py": TOOL,
        "app/__main__.py": f"def main():\n    from stdout_guard import install\n    guard = install()\n    from . import tools\n    tools.tool()\n    {ANSWER}main()\n",
    })  # fmt: skip
    done = run("", command=[sys.executable, "-m", "app"])
    assert done.wire == FRAME
    assert done.report == ["app/tools.py:2 in tool: hello"]


def test_a_guard_imported_by_sitecustomize_finds_the_application_later(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """Installed before the application exists (sitecustomize, a .pth file), the guard takes __main__ for it."""
    write(tmp_path, {"start/sitecustomize.py": "import stdout_guard.auto\n", "dep/dep.py": DEP})
    done = run(
        "import sys; sys.path.append('dep')\nprint('hello')  #@a\nimport dep\ndep.load()  #@b\n"
        f"import stdout_guard; stdout_guard.current().wire.write({FRAME!r})\n",
        prelude="", name="app/server.py", env={"PYTHONPATH": f"{UNDER_TEST}:{tmp_path}/start"},
    )  # fmt: skip
    assert done.wire == FRAME
    assert done.report == done.at(
        "app/server.py:{a} in <module>: hello", "dep/dep.py:2 in load (from app/server.py:{b}): from dep"
    )


def test_a_really_installed_console_script(run: Callable[..., Result], tmp_path: Path) -> None:
    """A package installed by pip with a console script: its own line is named, from any working directory."""
    write(tmp_path, {
        "project/pyproject.toml": "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'served'\nversion = '1'\n[project.scripts]\nserved = 'served:main'\n",
        "project/served/__init__.py": f"{PRELUDE}{TOOL}def main():\n    tool()\n    answer()\n",
    })  # fmt: skip
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    made = subprocess.run(
        [*pip, "--target", str(target), str(tmp_path / "project")], capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 0, made.stderr
    done = run(
        "", command=[str(target / "bin" / "served")], env={"PYTHONPATH": f"{UNDER_TEST}:{target}"}, cwd=Path("/")
    )
    assert done.wire == FRAME
    assert done.report == [f"{target}/served/__init__.py:4 in tool: hello"]
