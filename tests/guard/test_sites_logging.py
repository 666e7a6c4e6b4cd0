"""Call sites: logging and warnings are named by the line that logged or warned, never by their own modules."""
# ruff: noqa: E501 - a script, or a row of a table, stays on one line

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result, filled

STDOUT_HANDLER = "import logging, sys\nlogging.basicConfig(stream=sys.stdout, level=10, format='%(message)s')\n"

LOGGING = [
    ("root-function", "logging.warning('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("logger", "logging.getLogger('x').error('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("in-function", "def tool():\n    logging.info('hello')  #@a\ntool()", "server.py:{a} in tool: hello"),
    ("arguments", "logging.info('%s-%d', 'x', 3)  #@a", "server.py:{a} in <module>: x-3"),
    ("adapter", "logging.LoggerAdapter(logging.getLogger(), {}).info('hello')  #@a", "server.py:{a} in <module>: hello"),
    ("log", "logging.getLogger().log(20, 'hello')  #@a", "server.py:{a} in <module>: hello"),
    (
        "memory-handler",
        "import logging.handlers as h\n"
        "m = h.MemoryHandler(1, target=logging.root.handlers[0]); log = logging.getLogger('m')\n"
        "log.propagate = False; log.addHandler(m)\nlog.error('hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
    (
        "dict-config",
        "import logging.config\n"
        "logging.config.dictConfig({'version': 1, 'handlers': {'h': {'class': 'logging.StreamHandler',"
        " 'stream': 'ext://sys.stdout'}}, 'root': {'handlers': ['h']}})\nlogging.error('hello')  #@a",
        "server.py:{a} in <module>: hello",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in LOGGING], ids=[row[0] for row in LOGGING])
def test_logging_to_stdout_is_named_by_the_line_that_logged(
    run: Callable[..., Result], source: str, expected: str
) -> None:
    """A logging handler on stdout is named by the logging call's line, not by logging/__init__.py."""
    done = run(f"{STDOUT_HANDLER}{source}\nanswer()\n")
    assert done.wire == FRAME
    assert done.report == done.at(expected)


def test_a_handler_of_ones_own_is_named_with_the_line_that_logged(run: Callable[..., Result]) -> None:
    """A print in the application's own handler is named by its line, and the logging call's line behind it."""
    done = run("""
import logging
class Own(logging.Handler):
    def emit(self, record):
        print(record.getMessage())  #@own
logging.getLogger().addHandler(Own())
def tool():
    logging.warning("hello")  #@log
tool()
answer()
""")
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{own} in Own.emit (from server.py:{log}): hello")


def test_logging_s_own_errors_name_the_call(run: Callable[..., Result]) -> None:
    """A logging call with wrong arguments still leaves the wire alone, and stderr (logging's own place) tells."""
    done = run(f"{STDOUT_HANDLER}logging.info('%d', 'x')\nanswer()\n")
    assert done.wire == FRAME
    assert "--- Logging error ---" in done.text


def test_logging_to_stderr_is_left_alone(run: Callable[..., Result]) -> None:
    """What goes to stderr anyway is not touched, prefixed or counted."""
    done = run("import logging\nlogging.warning('to stderr')\nassert guard.counts.strays == 0\nanswer()\n")
    assert (done.wire, done.text) == (FRAME, "WARNING:root:to stderr\n")


WARNINGS = [
    (
        "default-route",  # Python's own text names the line; nothing of ours is needed
        "import warnings\nwarnings.warn('old')  #@a",
        "server.py:{a}: UserWarning: old",
    ),
    (
        "showwarning-to-stdout",
        "import sys, warnings\ndef show(message, category, filename, lineno, file=None, line=None):\n"
        "    print('W', message)\nwarnings.showwarning = show\nwarnings.warn('old')  #@a",
        "server.py:{a} in <module>: W old",
    ),
    (
        "showwarning-in-function",
        "import sys, warnings\nwarnings.showwarning = lambda *a, **k: sys.stdout.write('W\\n')\n"
        "def tool():\n    warnings.warn('old')  #@a\ntool()",
        "server.py:{a} in tool: W",
    ),
    (
        "routed-to-stdout",
        "import sys, warnings\nsys.stderr = sys.stdout\nwarnings.warn('old')  #@a",
        "server.py:{a} in <module>: server.py:{a}: UserWarning: old",
    ),
    (
        "capture-warnings",
        f"import warnings\n{STDOUT_HANDLER}logging.captureWarnings(True)\nwarnings.warn('old')  #@a",
        "server.py:{a} in <module>: server.py:{a}: UserWarning: old",
    ),
    (
        "deprecated-function",
        "import warnings\ndef old():\n    warnings.warn('old', DeprecationWarning, stacklevel=2)\nold()  #@a",
        "server.py:{a}: DeprecationWarning: old",
    ),
]


@pytest.mark.parametrize(("source", "expected"), [row[1:] for row in WARNINGS], ids=[row[0] for row in WARNINGS])
def test_warnings_tell_their_line_on_stderr(run: Callable[..., Result], source: str, expected: str) -> None:
    """By the default route, through showwarning, through captureWarnings and when routed to stdout, a warning appears
    on stderr with the file and line that warned; the code that ``warnings`` calls is not blamed."""
    done = run(f"{source}\nanswer()\n")
    assert done.wire == FRAME
    assert any(filled(expected, done.source) in line.replace(f"{_folder(done)}/", "") for line in done.lines), done.text


def _folder(done: Result) -> str:
    return done.command.removeprefix("cd ").partition(";")[0]


@pytest.mark.parametrize("options", [("-W", "error"), ("-X", "dev"), ("-W", "always")], ids=" ".join)
def test_warnings_as_errors_find_nothing_in_the_guard(run: Callable[..., Result], options: tuple[str, ...]) -> None:
    """The guard itself warns of nothing: it stands, works and leaves under -W error and -X dev without a word."""
    done = run("print('hello')  #@a\nanswer()\n", options=options)
    assert (done.wire, done.status) == (FRAME, 0)
    assert len(done.lines) == 2, done.text
    assert done.report == done.at("server.py:{a} in <module>: hello")
