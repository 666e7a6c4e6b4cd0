"""pytest: a real server for a test, and a failing test for whoever writes to stdout where the protocol lives.

Inert until used: without a marker, a fixture of ours or a mode, nothing is imported, taken or shown. A setting comes
from the marker, else the option, else the environment, else the ini file; the header says which.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from stdout_guard.testing.fixture import StdioServer
    from stdout_guard.testing.inprocess import Watch
    from stdout_guard.testing.refused import Tripwire

__tracebackhide__ = True
MODES = ("strict", "redirect", "off")
# setting: (option, environment variable, ini name)
SETTINGS = {
    "mode": ("--stdout-guard", "STDOUT_GUARD", "stdout_guard"),
    "command": ("--stdout-guard-command", "STDOUT_GUARD_COMMAND", "stdout_guard_command"),
}
MARKERS = (
    "stdio_server(command, framing, protocol, env, cwd): the server that the stdio_server fixture starts",
    "allow_stray_writes(reason): this test may write to stdout; the reason says why",
)
# a test that captures for itself looks at its output itself
CAPTURING = {"capsys", "capsysbinary", "capfd", "capfdbinary", "capteesys"}
_WATCH: pytest.StashKey[Watch] = pytest.StashKey()
_TOLD: pytest.StashKey[int] = pytest.StashKey()
_WIRE: pytest.StashKey[Tripwire] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and their ini twins."""
    group = parser.getgroup("stdout-guard")
    group.addoption("--stdout-guard", choices=MODES, default=None, help="what a test that writes to stdout gets")
    group.addoption(
        "--stdout-guard-command", metavar="COMMAND", default=None, help="the server of the fixture stdio_server"
    )
    parser.addini("stdout_guard", "strict, redirect or off: what a test that writes to stdout gets", default="")
    parser.addini("stdout_guard_command", "the server that the fixture stdio_server starts", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; a wrong mode stops here."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    value, source = setting(config, "mode")
    if value and value not in MODES:
        raise pytest.UsageError(f"{source}: {value!r} is not one of {', '.join(MODES)}")


def setting(config: pytest.Config, name: str) -> tuple[str, str]:
    """A setting and where it comes from: option, environment, ini, in this order; empty when it is nowhere."""
    option, variable, ini = SETTINGS[name]
    steps = (
        (config.getoption(option, None), f"option {option}"),
        (os.environ.get(variable), f"environment variable {variable}"),
        (config.getini(ini), f"ini {ini}"),
    )
    return next(((str(value), source) for value, source in steps if value), ("", ""))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is set, and from where; nothing when nothing is."""
    return [
        f"stdout-guard: {name} {value!r} from {source}"
        for name in SETTINGS
        for value, source in [setting(config, name)]
        if value
    ]


# ---- stray writes of the code in this process


def _mode(item: pytest.Item) -> str:
    """The mode of a test; a reason to write makes it ``redirect``, so that what it writes is shown."""
    marker = item.get_closest_marker("allow_stray_writes")
    mode = setting(item.config, "mode")[0] or "off"
    if marker is None:
        return mode
    reason: Any = marker.args[0] if marker.args else marker.kwargs.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise pytest.UsageError(f"{item.nodeid}: allow_stray_writes needs a reason")
    return "redirect" if mode == "strict" else mode


def _watch(item: pytest.Item) -> Watch | None:
    if _WATCH in item.stash:
        return item.stash[_WATCH]
    names = set[str](getattr(item, "fixturenames", ()))
    mode = _mode(item)
    capturing = bool(names & CAPTURING)
    if "stray_writes" not in names and (mode == "off" or capturing):
        return None
    from stdout_guard.testing.inprocess import Watch

    root = str(item.config.rootpath)
    watch = Watch(root, raising=mode == "strict" and "stray_writes" not in names, capturing=capturing)
    item.stash[_WATCH] = watch
    return watch


def _phase(item: pytest.Item, when: str) -> Generator[None, object, object]:
    watch = _watch(item)
    if watch is None:
        return (yield from _wired(item, when))
    try:
        with watch.phase():
            result = yield from _wired(item, when)
    finally:
        lines = _news(item, watch)
        if lines:
            item.add_report_section(when, "stray writes to stdout", "\n".join(lines))
    if lines and watch.raising:
        from stdout_guard.testing.inprocess import CURE

        told = "\n".join(lines)
        pytest.fail(f"stray writes to stdout (--stdout-guard=strict):\n{told}\n{CURE}", pytrace=False)
    return result


def _wired(item: pytest.Item, when: str) -> Generator[None, object, object]:
    """Arm the test's tripwire, if it has one, for its own code: what fixtures and pytest do is no effect of a frame."""
    wire = item.stash.get(_WIRE, None)
    if wire is None or when != "call":
        return (yield)
    wire.arm()
    try:
        result = yield
    finally:
        wire.disarm()
    if verdict := wire.verdict():
        pytest.fail(verdict, pytrace=False)
    return result


def _news(item: pytest.Item, watch: Watch) -> list[str]:
    """The strays that no phase has told of yet, one line each."""
    if "stray_writes" in getattr(item, "fixturenames", ()):
        return []
    from stdout_guard.testing.inprocess import told as line_of

    strays = watch.strays
    told = item.stash.get(_TOLD, 0)
    item.stash[_TOLD] = len(strays)
    return [line_of(stray) for stray in strays[told:]]


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the fixtures."""
    return (yield from _phase(item, "setup"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the test; strict fails it here, also when it swallowed the exception."""
    return (yield from _phase(item, "call"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Watch what comes late: finalizers, children, threads."""
    return (yield from _phase(item, "teardown"))


def _item(request: pytest.FixtureRequest) -> pytest.Item:
    return cast("pytest.Item", request.node)  # pyright: ignore[reportUnknownMemberType]


class StrayWrites:
    """What this test wrote to stdout so far: a list that is read anew each time, like ``recwarn``."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    @property
    def list(self) -> list[Any]:
        """The records, oldest first: ``text``, ``source``, ``file``, ``line``, ``caller``, ``program``."""
        return [*self._watch.strays]

    def __len__(self) -> int:
        return len(self._watch.strays)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._watch.strays)

    def __getitem__(self, index: int) -> Any:
        return self._watch.strays[index]

    def clear(self) -> None:
        """Forget them."""
        self._watch.clear()

    def __repr__(self) -> str:
        return f"StrayWrites({self._watch.strays!r})"


@pytest.fixture
def stray_writes(request: pytest.FixtureRequest) -> StrayWrites:
    """The stray writes of this test, for it to look at; they do not fail it."""
    item = _item(request)
    watch = _watch(item)
    assert watch is not None
    return StrayWrites(watch)


@pytest.fixture
def tripwire(request: pytest.FixtureRequest) -> Tripwire:
    """Fails the test when its code opens a socket or a file to write, or starts a process; ``events`` is what did."""
    from stdout_guard.testing.refused import Tripwire

    return _item(request).stash.setdefault(_WIRE, Tripwire())


# ---- a server in a child process


@pytest.fixture
def stdio_server(request: pytest.FixtureRequest) -> Iterator[StdioServer]:
    """A running server; when the test is over it is closed, read to its end and judged, and findings fail the test."""
    from stdout_guard.testing.config import ConfigError
    from stdout_guard.testing.fixture import StdioServer, server_of

    item = _item(request)
    marker = item.get_closest_marker("stdio_server")
    given: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    if marker is not None and marker.args:
        given["command"] = marker.args[0]
    given.setdefault("command", setting(request.config, "command")[0])
    try:
        settings = server_of(given)
    except ConfigError as error:
        raise pytest.UsageError(f"stdio_server: {error}") from error
    server = StdioServer(settings)
    try:
        yield server
    finally:
        outcome = server.close()
    if outcome.status != "clean":
        pytest.fail(server.report(outcome), pytrace=False)
