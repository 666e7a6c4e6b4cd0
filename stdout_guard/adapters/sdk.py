"""Unmodified SDKs get the wire: a writer module's global ``sys`` becomes a shadow whose stdout is the wire.

The only importer of wrapt. Access is at call time in every SDK of the table, so this works in both import orders;
wrapping entry functions does not (others hold them by ``from ... import``).
"""

from __future__ import annotations

import functools
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import wrapt

from stdout_guard import _fd, _outlets
from stdout_guard._guard import Guard

if TYPE_CHECKING:  # wrapt 2 made it generic, wrapt 1 did not

    class _Proxy:
        __wrapped__: Any

        def __init__(self, wrapped: Any) -> None: ...

else:
    _Proxy = wrapt.ObjectProxy

STREAMS = ("stdin", "stdout", "__stdout__", "stderr")


def _stream_property(name: str) -> Any:
    def get(self: Any) -> Any:
        made = self._self_streams.get(name)
        if callable(made):  # not made before it is wanted: taking stdin is an act
            made = self._self_streams[name] = made()
        return getattr(self.__wrapped__, name) if made is None else made

    def put(self: Any, value: Any) -> None:
        self._self_streams[name] = value

    return property(get, put)


class ShadowSys(_Proxy):
    """The real ``sys`` but for its streams; setting one of those stays in the shadow."""

    def __init__(self, streams: dict[str, Any]) -> None:
        super().__init__(sys)
        self._self_streams = streams

    stdin, stdout, __stdout__, stderr = (_stream_property(name) for name in STREAMS)


def shadow(module: Any, guard: Guard, stdin: bool) -> str:
    """Give ``module`` the wire as its sys.stdout; "" or why it does not fit."""
    text = guard.new_text_wire()
    return _give(module, guard, _streams(guard, stdin, text), text)


def mcp(module: Any, guard: Guard, stdin: bool) -> str:
    """As shadow; where it was asked for, an asynchronous reader and writer beside it, which come first."""
    problem = shadow(module, guard, stdin)
    if not problem and guard.settings.async_wire:
        from stdout_guard.adapters import async_wire

        unfit = async_wire.hand_over(module, guard)
        if unfit:
            guard.intake.tell(
                f"the asynchronous wire does not fit this version of {module.__name__} ({unfit}): it is served the "
                "ordinary way, by threads"
            )
    return problem


def pipes(module: Any, guard: Guard, stdin: bool) -> str:
    """As shadow, but real files over duplicates, for an event loop that changes and closes what it is given."""
    out = functools.partial(_duplicate, lambda: guard.wire.fileno(), os.O_WRONLY, "wb")
    streams: dict[str, Any] = {"stdout": out, "__stdout__": out}
    if stdin:
        streams["stdin"] = functools.partial(_duplicate, lambda: guard.take_stdin().fileno(), os.O_RDONLY, "rb")
    return _give(module, guard, streams, None)


def printing(module: Any, guard: Guard, stdin: bool) -> str:
    """As shadow, and the module's ``print`` and ``click.echo`` write frames too (each call one unit)."""
    text = guard.new_text_wire()
    uses = set(_names(module))
    if "print" in uses:
        _set(module, guard, "print", _printer(text))
    names: dict[str, Any] = module.__dict__
    click = names.get("click")
    if click is not None and "echo" in uses:
        _set(module, guard, "click", _Click(click, text))
    elif "echo" in names and "echo" in uses:
        _set(module, guard, "echo", functools.partial(_echo, names["echo"], text))
    problem = _give(module, guard, _streams(guard, stdin, text), text)
    return "" if uses & {"print", "echo"} else problem


def pylsp(module: Any, guard: Guard, stdin: bool) -> str:
    """Swap the streams where the server is made: ``pylsp.__main__`` has read both from the real sys by then."""
    original = module.PythonLSPServer.__init__

    @functools.wraps(original)
    def init(self: Any, rx: Any, tx: Any, *args: Any, **kwargs: Any) -> None:
        if tx is guard.bottom or tx is getattr(guard.original, "buffer", None):
            rx, tx = (guard.take_stdin() if rx is sys.stdin.buffer else rx), guard.wire
        original(self, rx, tx, *args, **kwargs)

    module.PythonLSPServer.__init__ = init
    guard.undo.append(lambda: setattr(module.PythonLSPServer, "__init__", original))
    return ""


# ---- the parts


def _streams(guard: Guard, stdin: bool, text: io.TextIOWrapper) -> dict[str, Any]:
    streams: dict[str, Any] = {"stdout": text, "__stdout__": text}
    if stdin:
        streams["stdin"] = lambda: io.TextIOWrapper(guard.take_stdin(), "utf-8", getattr(sys.stdin, "errors", None))
    return streams


def _give(module: Any, guard: Guard, streams: dict[str, Any], text: io.TextIOWrapper | None) -> str:
    """Replace the module's ``sys``, and streams that it took by ``from sys import stdout``."""
    names: dict[str, Any] = module.__dict__
    proxy = ShadowSys(streams)
    found = False
    for name, value in list(names.items()):
        if text is not None and any(value is stream for stream in (guard.stream, guard.original)):
            _set(module, guard, name, text)
            found = True
        elif value is sys:
            _set(module, guard, name, proxy)
            found = found or {"stdout", "__stdout__"} & set(_names(module)) != set()
    return "" if found else "it does not read sys.stdout"


def _set(module: Any, guard: Guard, name: str, value: Any) -> None:
    missing = object()
    names: dict[str, Any] = module.__dict__
    before = names.get(name, missing)
    setattr(module, name, value)
    guard.undo.append(lambda: delattr(module, name) if before is missing else setattr(module, name, before))


def _names(module: Any) -> Iterator[str]:
    """The global and attribute names that the module's own code uses."""
    codes: list[CodeType] = []
    names: dict[str, Any] = module.__dict__
    for value in list(names.values()):
        if getattr(value, "__module__", None) == module.__name__:
            members: list[Any] = [value, *vars(value).values()] if isinstance(value, type) else [value]
            for member in members:
                code = getattr(_plain(member), "__code__", None)
                codes += [code] if isinstance(code, CodeType) else []
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]


def _plain(member: Any) -> Any:
    """The function under decorators, class and static methods and properties."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        member = getattr(member, name, None) or member
    while getattr(member, "__wrapped__", None) is not None:
        member = member.__wrapped__
    return member


def _duplicate(number: Callable[[], int], flags: int, mode: str) -> io.FileIO:
    """A file of its own over what ``number`` is; a FIFO is opened anew, so that O_NONBLOCK stays off the shared one."""
    fd = number()
    own = _outlets.reopened(fd, flags) if stat.S_ISFIFO(os.fstat(fd).st_mode) else None
    return io.FileIO(_fd.private(fd) if own is None else own, mode)


def _printer(text: io.TextIOWrapper) -> Callable[..., None]:
    def print_frame(*values: Any, file: Any = None, flush: bool = False, **options: Any) -> None:
        if file is not None and file is not text:
            print(*values, file=file, flush=flush, **options)
            return
        whole = io.StringIO()
        print(*values, file=whole, **options)
        text.write(whole.getvalue())

    return print_frame


class _Click(_Proxy):
    """The click module, its echo writing to the wire."""

    def __init__(self, click: Any, text: io.TextIOWrapper) -> None:
        super().__init__(click)
        self._self_text = text

    def echo(self, message: Any = None, file: Any = None, *args: Any, **kwargs: Any) -> None:
        """click.echo, with the wire where stdout would be."""
        _echo(self.__wrapped__.echo, self._self_text, message, file, *args, **kwargs)


def _echo(
    echo: Callable[..., None],
    text: Any,
    message: Any = None,
    file: Any = None,
    nl: bool = True,
    err: bool = False,
    **rest: Any,
) -> None:
    if file is not None or err:
        echo(message, file, nl, err, **rest)
        return
    whole: Any = io.BytesIO() if isinstance(message, (bytes, bytearray)) else io.StringIO()
    echo(message, whole, nl, **rest)
    made = whole.getvalue()
    (text.buffer if isinstance(made, bytes) else text).write(made)
