"""One owner of the wire: what stands between a process and its stdout, from install to the last flush.

Rules: fd 1 moves first and Python's pending text is flushed after, so that it goes where strays go; fd 1 is never given
back at exit; a record is latched before anything is printed or raised; what failed half way is taken back whole; hooks
that cannot be unregistered are registered once for the process and ask for the current guard. An adapter is loaded by
dotted name when the module that it is for has been loaded (``import wrapt`` costs more than the whole guard), never
while a module is being looked for. One file: each costs the cold start 1 %.
"""

import _thread
import atexit
import io
import os
import sys

from . import _fd, _ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any

    from ._formats import Counts
    from ._outlets import Intake, Sink, Wire
    from ._settings import Settings

MARKER = "_STDOUT_GUARD_CHANNEL"  # tells children which pipes are a guarded ancestor's channel: kind:ino:dev,ino:dev
VARIABLES = (
    "STDOUT_GUARD", "STDOUT_GUARD_WRITERS", "STDOUT_GUARD_LOG", "STDOUT_GUARD_FORMAT", "STDOUT_GUARD_REDACT",
    "STDOUT_GUARD_CHANNEL", "STDOUT_GUARD_ASYNC",
)  # fmt: skip
DEFAULTS: "dict[str, object]" = {
    "mode": "redirect", "channel": "thread", "log": "", "log_format": "text", "writers": (), "redact": False,
    "async_wire": False,
}  # fmt: skip
SDKS = ("mcp", "pygls", "acp", "pylsp", "singer", "singer_sdk", "airbyte_cdk")  # whose writers adapters/ knows
SESSIONS = {"_pytest", "ipykernel"}  # loaded in processes that are no servers
current: "Guard | None" = None
_hooked = False
_watched: "set[str]" = set()  # top-level names


class Guard:
    """The guard of this process. Made by :func:`stdout_guard.install`; one for a process, for its lifetime.

    ``mode`` is ``"redirect"`` or ``"strict"``; ``role`` says what this process is: ``"owner"`` of the wire,
    ``"worker"`` (forked from or started by an owner: it names its strays, the owner counts them), ``"watch"`` (pytest,
    ipykernel, an interactive session: nothing is taken, strays are only recorded), ``"ended"`` after ``uninstall()``.
    """

    def __init__(self, settings: "Settings", installer: "FrameType | None") -> None:
        self.settings, self.mode, self.pid, self.role = settings, settings.mode, os.getpid(), "owner"
        self.ledger, self.sites = _ledger.Ledger(), _ledger.CallSites(installer)
        self.undo: _fd.Undo = []
        self.sink: Sink | None = None
        self.channel: _fd.Channel | None = None
        self.wire_fd, self.wire_identity, self.fd1 = -1, _fd.identity(-1), _fd.identity(-1)
        self.pipe = _fd.identity(-1)  # the channel's, also when it is retired
        self.finished = self.heirs = False
        self.adapted = set[str]()  # writer modules that have the wire
        self.first_use = _thread.RLock()  # two threads that ask for the wire at once must get one wire, with one lock
        self.stdin: Any = None
        self.stdin_fd, self.stdin_identity = -1, _fd.identity(-1)
        self.opened: Wire
        self._text_wire: io.TextIOWrapper | None = None
        self.original: Any = sys.stdout
        self.intake: Intake

    def take_in(self) -> None:
        """Once fd 1 is diverted: what makes records of strays, and the stream that feeds it; loaded here, where
        no signal handler can find it half loaded."""
        from ._outlets import Intake, Wire

        self.intake, self.opened = Intake(self), Wire(self.wire_fd, self.check_hands)
        self.bottom = _fd.StrayRaw(self, self.intake.python_write, self.intake.flushed)
        self.stream = _fd.text_over(self.bottom)

    # ---- what a server uses

    @property
    def wire(self) -> "Wire":
        """The real stdout, binary: one write() is one unit. In a worker every write raises GuardStateError."""
        if self.role == "watch":
            from ._off import GUARD

            return GUARD.wire  # type: ignore[return-value]
        return self.opened

    @property
    def text_wire(self) -> io.TextIOWrapper:
        """The wire as UTF-8 text, for SDKs that want a text stream; ``.buffer`` is :attr:`wire`."""
        with self.first_use:
            self._text_wire = self._text_wire or self.new_text_wire()
            return self._text_wire

    def new_text_wire(self) -> io.TextIOWrapper:
        """Another one, for an SDK that may detach or reconfigure it."""
        return _fd.text_over(self.wire, errors="strict", newline="\n")

    def take_stdin(self) -> io.BufferedReader:
        """The client's bytes, for this caller alone: from now on fd 0 is the null device for children and input()."""
        if self.role != "owner":
            return sys.stdin.buffer  # type: ignore[return-value]
        with self.first_use:
            if self.stdin is None:
                from . import _stdin

                self.stdin_fd, self.stdin = _stdin.take(self.undo)
                self.stdin_identity = _fd.identity(self.stdin_fd)
            return self.stdin  # type: ignore[no-any-return]

    @property
    def strays(self) -> "tuple[_ledger.StrayWrite, ...]":
        """The newest 1,000 stray writes, oldest first."""
        from ._formats import newest

        return newest(self.ledger)

    @property
    def counts(self) -> "Counts":
        """How many strays, from where, and how much of the report nobody read: a frozen snapshot."""
        from ._formats import count

        return count(self.ledger, self.sink.lost_lines, self.sink.lost_bytes) if self.sink else count(self.ledger)

    def verify(self) -> "tuple[str, ...]":
        """Look for foreign hands on our descriptors and on ``sys.stdout``; repairs fd 1. Returns what was wrong."""
        from ._seldom import foreign_hands

        return (*self.check_hands(), *foreign_hands(self))

    def adopt_after_fork(self) -> None:
        """Call in the server before it forks its daemon self: the children of coming forks own the wire too, until this
        is called again in the child. Raises GuardStateError where there is no wire to hand on."""
        from . import _seldom  # now: in the fork its import could wait for a thread that is not there

        if self.role != "owner":
            raise _seldom.too_late()
        self.heirs = not self.heirs

    # ---- foreign hands, fork

    def check_hands(self) -> "tuple[str, ...]":
        """Before each frame: is fd 1 still diverted? If it was closed, or made the wire again, it is diverted anew."""
        now = _fd.identity(1)
        if now == self.fd1 or self.role != "owner" or self.finished or now not in (None, self.wire_identity):
            return ()  # pointed elsewhere on purpose, for a while: no harm to the wire
        _fd.point(self.channel.write_fd if self.channel is not None else self.late_target, 1)
        did = "closed" if now is None else "pointed at the wire again"
        found = f"fd 1 was {did} by a foreign hand (a dup2 of a descriptor saved earlier?); it is diverted again"
        self.intake.tell(found, once="hands")
        return (found,)

    @property
    def late_target(self) -> int:
        """Where fd 1 goes when there is no channel."""
        aliased = self.pipe is not None and _fd.identity(2) == self.pipe  # somebody did dup2(1, 2)
        return self.sink.fd if self.sink is not None and (self.sink.path or aliased) else 2

    def mark(self, *more: "_fd.Identity | None") -> str:
        """What tells a child that its fd 1 is our channel, or the pipe with the identity ``more``."""
        kind = "thread" if self.channel is not None else "dup"
        return kind + ":" + ",".join("{}:{}".format(*mark) for mark in (self.fd1, *more) if mark is not None)


# ---- install


def install_from(installer: "FrameType | None", given: "Mapping[str, object]") -> Guard:
    """The guard, made to stand when none does. ``installer`` tells which application this is."""
    asked = any(value not in (None, ()) for value in given.values())
    standing = current or getattr(getattr(sys.stdout, "buffer", None), "stdout_guard", None)  # another copy's, reloaded
    if standing is not None and standing.role != "ended":
        if asked:
            from ._settings import refuse_clash

            refuse_clash(standing.settings, given)
        return standing
    settings: Settings = sys.implementation.__class__(**DEFAULTS)  # type: ignore[assignment]  # a plain namespace
    if asked or any(map(os.environ.get, VARIABLES)):
        from . import _settings

        settings = _settings.Settings(os.environ, **given)
    guard, late = Guard(settings, installer), sys.stdout is not sys.__stdout__
    try:
        _stand(guard)
        if late and guard.role == "owner":
            from ._odd import warn_late

            warn_late(guard.original)
    except BaseException:
        _fd.unwind(guard.undo)
        raise
    return guard


def _stand(guard: Guard) -> None:
    """Make ``guard`` the owner of this process's wire, or what else the process allows; all of it or nothing."""
    filled = _fd.fill_standard()
    if MARKER in os.environ or sys.flags.interactive or hasattr(sys, "ps1") or SESSIONS & sys.modules.keys():
        from . import _odd

        plain = not _odd.start(guard)
    else:
        plain = True
    if plain:
        _claim(guard)
    _begin(guard)
    if 1 in filled and guard.role == "owner":
        guard.intake.tell("stdout was closed when this process started: protocol frames go to the null device")


def _claim(guard: Guard) -> None:
    out, err, undo = _fd.identity(1), _fd.identity(2), guard.undo
    assert out is not None
    wire_fd = _fd.private(1)
    undo.append(lambda: _fd.close(wire_fd, out))
    guard.wire_fd, guard.wire_identity = wire_fd, out
    channel, why = _open_channel(guard)
    at = len(undo)
    undo.append(lambda: _fd.point(wire_fd, 1))
    _fd.point(2 if channel is None else channel.write_fd, 1)
    # ---- fd 1 is diverted: what is imported from here on may print
    guard.take_in()
    from . import _outlets

    undo.insert(at, lambda: _outlets.retire(guard))  # its pipes are drained once fd 1 is what it was
    if out == err or guard.settings.log:
        from . import _odd

        guard.sink = _odd.open_sink(guard, out, err)
    else:
        guard.sink = _outlets.stderr_sink()
    guard.sink.note = guard.intake.note
    undo.insert(0, guard.sink.close)
    try:
        if channel is not None:
            channel.start(guard.intake.deliver, guard.intake.idle, guard.intake.cut_off)
            guard.channel, guard.pipe = channel, channel.identity
    except (RuntimeError, MemoryError) as error:
        why = str(error) or "no memory"
    if guard.channel is None:
        _fd.point(guard.late_target, 1)
    guard.fd1 = _fd.identity(1)
    for twin in list(_fd.twins(out, {wire_fd, guard.sink.fd} | (channel.numbers if channel is not None else set()))):
        _fd.divert(1, twin, undo)
    if why:
        guard.intake.tell(f"no pipe or thread for the channel ({why}); fd 1 goes straight to stderr, unnamed")
    os.environ[MARKER] = guard.mark()
    undo.append(lambda: os.environ.pop(MARKER, None))


def _open_channel(guard: Guard) -> "tuple[_fd.Channel | None, str]":
    """The channel, not started; or None, and why there is none where one was wanted."""
    if guard.settings.channel == "dup" or _fd.fcntl is None:
        return None, ""
    partly: _fd.Undo = []
    try:
        channel = _fd.Channel(partly)
    except (OSError, RuntimeError, MemoryError) as error:  # no descriptors, or no lock to be had
        _fd.unwind(partly)
        return None, str(error) or type(error).__name__
    guard.undo.append(lambda: _fd.unwind(partly))
    return channel, ""


def _begin(guard: Guard) -> None:
    """The parts above the descriptors: our stream where Python code finds stdout, the hooks, the watcher of imports."""
    global current, _hooked
    before = sys.stdout, sys.__stdout__
    if guard.role != "watch":
        for stream in dict.fromkeys(stream for stream in before if stream is not None):
            try:
                stream.flush()  # text pending in the old one goes to fd 1 now, after that moved
            except (OSError, ValueError, AttributeError):  # closed, or no stream at all
                pass
            guard.undo.append(_fd.hook(stream, _fd.text_over(guard.bottom).write))

        def back() -> None:
            sys.stdout, sys.__stdout__ = before  # type: ignore[misc]

        guard.undo.append(back)
        sys.stdout = sys.__stdout__ = guard.stream  # type: ignore[misc]
    current = guard
    guard.undo.append(_forget)
    from . import _outlets

    if not _hooked:
        _hooked = True
        _outlets.hook()
    atexit.register(_outlets.at_exit)
    guard.undo.append(lambda: atexit.unregister(_outlets.at_exit))
    watch(guard)


def _forget() -> None:
    global current
    current = None


# ---- imports: subprocess and the SDKs' modules are handed to the adapters once their bodies have run


def watch(guard: Guard) -> None:
    """Look at what is imported already, and watch for the rest: this module itself is the finder, which finds nothing.
    It stays; what it loads asks for the current guard."""
    if guard.role == "watch":
        return
    this: Any = sys.modules[__name__]
    if this not in sys.meta_path:
        sys.meta_path.insert(0, this)
    packages = {*SDKS, *(name.partition(".")[0] for name in guard.settings.writers)}
    _watched.clear()
    _watched.update(packages, ("subprocess",))
    if sys.modules.get("subprocess"):
        import subprocess  # waits where another thread is still at its body

        _adapt("subprocess", subprocess)
    if guard.role == "owner" and not packages.isdisjoint(sys.modules):
        _adapt("", None)


def find_spec(name: str, path: "Sequence[str] | None" = None, target: "Any" = None) -> "Any":
    """Asked by the import system for every module; answers only to step in after the module's body.

    Loads nothing itself: finders are asked under the interpreter's one import lock, and whoever holds that and waits
    for another thread's module waits for ever, since that thread needs the lock for its next import. wrapt's finder of
    post-import hooks does so (it imports the parent package), which is why it is not used.
    """
    if name.partition(".")[0] not in _watched:
        return None
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec = None if find is None or find is find_spec else find(name, path, target)
        if spec is not None:
            if hasattr(spec.loader, "exec_module"):  # a namespace package has none, nor a body
                spec.loader = _Loader(spec.loader, name)
            return spec
    return None


class _Loader:
    """A module's loader, and the adapters after its body; the real one is put back where it is looked for."""

    def __init__(self, loader: "Any", module: str) -> None:
        self.loader, self.module = loader, module

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.loader, name)

    def create_module(self, spec: "Any") -> "Any":
        return self.loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _adapt(self.module, module)


def _adapt(name: str, module: "Any") -> None:
    import importlib

    importlib.import_module(f"{__package__}.adapters").loaded(name, module)
