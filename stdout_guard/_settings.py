"""What the guard is told, by argument and environment: read once, checked whole, before anything is touched."""

import os

from ._guard import DEFAULTS
from .errors import GuardStateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

# argument -> (environment variable, choices). A variable wins over the argument; empty means unset.
CHOICES = {
    "mode": ("STDOUT_GUARD", ("off", "redirect", "strict")),
    "log_format": ("STDOUT_GUARD_FORMAT", ("text", "json", "raw")),
    "channel": ("STDOUT_GUARD_CHANNEL", ("thread", "dup")),
}


class Settings:
    """``mode``, ``log_format``, ``channel``: see CHOICES; ``log``: path or ""; ``writers``: module names; ``redact``:
    False, True or a callable from text to text. Where nothing is set, _guard.DEFAULTS stands in."""

    mode: str
    log_format: str
    channel: str
    log: str

    def __init__(self, environment: "Mapping[str, str]", **given: object) -> None:
        for name, (variable, choices) in CHOICES.items():
            chosen = _choice(name, variable, choices, environment.get(variable), given.get(name))
            setattr(self, name, chosen or DEFAULTS[name])
        log: Any = given.get("log") or ""
        self.log = environment.get("STDOUT_GUARD_LOG") or os.fspath(log)
        listed = environment.get("STDOUT_GUARD_WRITERS", "").split(",")
        self.writers = _modules([*_names(given.get("writers")), *(name.strip() for name in listed if name.strip())])
        switched, asked = environment.get("STDOUT_GUARD_ASYNC"), given.get("async_wire")
        self.async_wire = _switch("STDOUT_GUARD_ASYNC", switched) if switched else _boolean("async_wire", asked)
        switched, redact = environment.get("STDOUT_GUARD_REDACT"), given.get("redact")
        self.redact = _switch("STDOUT_GUARD_REDACT", switched) if switched else _redactor(redact)


def refuse_clash(standing: Settings, given: "Mapping[str, object]") -> None:
    """Raise GuardStateError when a second install() asks for something else than what stands."""
    asked = {name: value for name, value in given.items() if value not in (None, ())}
    wanted = Settings({}, **asked)
    clashes = [
        f"{name}={getattr(wanted, name)!r} (it stands with {getattr(standing, name)!r})"
        for name in asked
        if not os.environ.get(_variable(name))
        and getattr(wanted, name) != getattr(standing, name)
        and not (name == "writers" and set(wanted.writers) <= set(standing.writers))
    ]
    if clashes:
        raise GuardStateError(
            f"the guard already stands in this process, and a second install() asks for {', '.join(clashes)}; install "
            "once, with the settings you want, or call uninstall() first"
        )


def _variable(name: str) -> str:
    short = {"async_wire": "async"}.get(name, name)
    return CHOICES[name][0] if name in CHOICES else f"STDOUT_GUARD_{short.upper()}"


def _choice(name: str, variable: str, choices: tuple[str, ...], set_value: str | None, argument: object) -> str | None:
    for label, value in ((f"environment variable {variable}", set_value), (f"argument {name}", argument)):
        if value is not None and value != "" and value not in choices:
            raise GuardStateError(f"{label}: {value!r} is not one of {', '.join(choices)}; the guard was not installed")
    return set_value or (str(argument) if argument else None)


def _redactor(value: "Any") -> "bool | Callable[[str], str]":
    if value is None or isinstance(value, bool):
        return bool(value)
    if not hasattr(value, "__call__"):  # noqa: B004 - callable() would narrow Any to something that returns object
        raise GuardStateError(f"argument redact: {value!r} is neither true, false nor a callable from text to text")
    return value  # type: ignore[no-any-return]


def _boolean(name: str, value: object) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise GuardStateError(f"argument {name}: {value!r} is neither True nor False; the guard was not installed")


def _switch(variable: str, value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off"):
        return False
    raise GuardStateError(f"environment variable {variable}: {value!r} is not one of 1, 0; the guard was not installed")


def _names(value: object) -> "list[str]":
    if isinstance(value, str):
        raise GuardStateError(f"argument writers: {value!r} is a str; give a list of module names")
    names: Iterable[object] = value or ()  # type: ignore[assignment]
    return [str(getattr(name, "__name__", name)) for name in names]


def _modules(names: "list[str]") -> tuple[str, ...]:
    for name in names:
        if name == "__main__" or not all(part.isidentifier() for part in name.split(".")):
            raise GuardStateError(
                f"writers: {name!r} cannot be a protocol writer; name an importable module, or write to guard.wire"
            )
    return tuple(dict.fromkeys(names))
