"""Call sites: what people print with, and what dependencies print, is named by the application's line."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from guard.harness import FRAME, Result

LIBRARIES = [
    ("rich-print", "import rich\nrich.print('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("rich-console", "import rich.console\nrich.console.Console().print('hello')  #@a", "server.py:{a} in <module>: hello"),
    (
        "rich-log-handler",
        "import logging, rich.logging\nlogging.basicConfig(handlers=[rich.logging.RichHandler()], format='%(message)s')\n"
        "logging.error('hello')  #@a",
        "server.py:{a} in <module>: CONTAINShello",
    ),
    ("click-echo", "import click\nclick.echo('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("click-secho", "import click\nclick.secho('hello', fg='red')  #@a", "server.py:{a} in <module>: hello"),
    ("typer-secho", "import typer\ntyper.secho('hello', fg='red')  #@a", "server.py:{a} in <module>: hello"),
    ("click-confirm", "import click\nclick.confirm('sure?', default=True)  #@a", "server.py:{a} in <module>: CONTAINSsure?"),
    ("click-bar", "import click\nwith click.progressbar([1]) as bar: list(bar)  #@a", None),
    ("click-echo-bytes", "import click\nclick.echo(b'hello')  #@a", "server.py:{a} in <module>: hello"),
    ("typer-echo", "import typer\ntyper.echo('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("tqdm-write", "import tqdm\ntqdm.tqdm.write('hello')  #@a", "server.py:{a} in <module>: hello"),
    (
        "loguru",
        "import sys\nfrom loguru import logger\nlogger.remove(); logger.add(sys.stdout, format='{message}')\n"
        "logger.info('hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
    (
        "loguru-function-sink",
        "from loguru import logger\nlogger.remove(); logger.add(lambda m: print(m, end=''), format='{message}')  #@a\n"
        "logger.info('hello')  #@b",
        "server.py:{a} in <lambda> (from server.py:{b}): hello",
    ),
    (
        "structlog-default",
        "import structlog\nstructlog.configure(processors=[lambda l, m, e: e['event']])\n"
        "structlog.get_logger().info('hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
    (
        "structlog-write-logger",
        "import structlog\nstructlog.configure(processors=[lambda l, m, e: e['event']],"
        " logger_factory=structlog.WriteLoggerFactory())\nstructlog.get_logger().info('hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
    (
        "colorama",
        "import colorama\ncolorama.init()\nprint(colorama.Fore.RED + 'hello' + colorama.Fore.RESET)  #@a",
        "server.py:{a} in <module>: CONTAINShello",
    ),
    (
        "colorama-strip",
        "import colorama\ncolorama.init(strip=True, convert=False)\nprint(colorama.Fore.RED + 'hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in LIBRARIES], ids=[row[0] for row in LIBRARIES])
def test_what_people_print_with_is_not_blamed(run: Callable[..., Result], source: str, expected: str | None) -> None:
    """rich, click, typer, tqdm, loguru, structlog and colorama are plumbing: the line that called them is named."""
    done = run(f"{source}\nanswer()\n", stdin=b"\n")
    assert done.wire == FRAME
    if expected is None:  # nothing is shown where there is no terminal
        return
    place, _, contained = done.at(expected)[0].partition("CONTAINS")
    if contained:
        assert len(done.report) == 1 and done.report[0].startswith(place) and contained in done.report[0], done.report
    else:
        assert done.report == [place]


def test_a_progress_bar_is_its_last_state(run: Callable[..., Result]) -> None:
    """A bar redrawn by carriage returns is one line of the report, its last state, named by the loop's line."""
    done = run("""
import sys, tqdm
for _ in tqdm.tqdm(range(50), file=sys.stdout, mininterval=0, ascii=True):  #@a
    pass
answer()
""")
    assert done.wire == FRAME
    bars = [line for line in done.report if "it/s" in line]
    assert len(bars) == 1, done.report
    assert bars[0].startswith(done.at("server.py:{a} in <module>: 100%|####")[0])
    assert "50/50" in bars[0]


DEPENDENCY = {
    "site-packages/dep/__init__.py": "def load():\n    print('from dep')\n\ndef deeper():\n    from .inner import go\n    go()\n",
    "site-packages/dep/inner.py": "def go():\n    print('from inner')\n",
    "site-packages/noisy.py": "print('at import')\n",
    "site-packages/calls_back.py": "def call(f):\n    f()\n",
    "site-packages/logs.py": "import logging\ndef log():\n    logging.getLogger('logs').warning('logged')\n",
    "site-packages/outer.py": "def through():\n    import dep\n    dep.load()\n",
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` (path below ``folder``: text)."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


DEPENDENT = [
    (
        "dependency-first",
        "import dep\ndef main():\n    dep.load()  #@a\nmain()",
        "site-packages/dep/__init__.py:2 in load (from server.py:{a}): from dep",
    ),
    (
        "deeper",
        "import dep\ndep.deeper()  #@a",
        "site-packages/dep/inner.py:2 in go (from server.py:{a}): from inner",
    ),
    ("at-import", "import noisy  #@a", "site-packages/noisy.py:1 in <module> (from server.py:{a}): at import"),
    (
        "two-dependencies",  # the one that printed, and the application; what lies between is not told
        "import outer\nouter.through()  #@a",
        "site-packages/dep/__init__.py:2 in load (from server.py:{a}): from dep",
    ),
    (
        "callback",
        "import calls_back\ndef mine():\n    print('in callback')  #@a\ncalls_back.call(mine)",
        "server.py:{a} in mine: in callback",
    ),
    (
        "dependency-logs",
        "import logging, sys, logs\nlogging.basicConfig(stream=sys.stdout, format='%(message)s')\nlogs.log()  #@a",
        "site-packages/logs.py:3 in log (from server.py:{a}): logged",
    ),
    (
        "in-a-thread-of-its-own",
        "import threading, dep\nt = threading.Thread(target=dep.load); t.start(); t.join()",
        "site-packages/dep/__init__.py:2 in load: from dep",
    ),
]


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in DEPENDENT], ids=[row[0] for row in DEPENDENT])
def test_a_dependency_is_named_with_the_application_line(
    run: Callable[..., Result], tmp_path: Path, source: str, expected: str
) -> None:
    """A write from a dependency is named by the dependency's own line, and the application's line that called it."""
    write(tmp_path, DEPENDENCY)
    done = run(f"import sys; sys.path.append('site-packages')\n{source}\nanswer()\n")
    assert done.wire == FRAME
    assert [line.replace(f"{tmp_path}/", "") for line in done.report] == done.at(expected)
