"""``stdout-guard.toml``: several servers, conditions of one's own, and failures that are expected for now.

An unknown key is an error that names the known ones. An expected failure that no longer happens is a failure too, so
that the list cannot rot.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from stdout_guard.errors import StdoutGuardError
from stdout_guard.testing.conditions import CONDITIONS, Condition
from stdout_guard.testing.hostile import Call
from stdout_guard.testing.protocols import PROTOCOLS, Framing, Json, Protocol, items
from stdout_guard.testing.records import Limits
from stdout_guard.testing.run import Server, name_of
from stdout_guard.testing.steps import STEPS


class ConfigError(StdoutGuardError):
    """The configuration, or the command line, does not say what to do: a usage error."""


@dataclass(frozen=True)
class Expected:
    """A known failure: ``condition`` and ``code`` may be ``*``; ``reason`` says why, and where it is tracked."""

    condition: str
    code: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """One server with what is to be run of it. ``wheel`` or ``package`` ask for its packaged form."""

    server: Server
    conditions: tuple[Condition, ...]
    skipped: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = ()
    wheel: str | None = None
    package: str | None = None
    corpus: bool = False


@dataclass(frozen=True)
class Settings:
    """A whole configuration."""

    plans: tuple[Plan, ...]
    table: Mapping[str, Condition] = field(default_factory=lambda: CONDITIONS)


_SERVER_KEYS = {
    "name", "command", "protocol", "framing", "env", "unset", "cwd", "call", "effects", "exit", "limits", "conditions",
    "expected", "wheel", "package", "start_failure", "corpus",
}  # fmt: skip
_CONDITION_FIELDS = {one.name for one in fields(Condition)} - {"supplied"}
_START_KEYS = {"env", "unset", "arguments"}


def load(path: str) -> Settings:
    """Read and check a configuration file; raises ConfigError naming the file and the key."""
    import tomllib  # a command needs none

    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        _only(data, {"server", "condition"}, "the file")
        table = dict(CONDITIONS)
        for entry in _tables(data, "condition"):
            one = condition_from(entry, table)
            table[one.name] = one
        folder = os.path.dirname(os.path.abspath(path))
        plans = tuple(plan_from(entry, table, folder) for entry in _tables(data, "server"))
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not plans:
        raise ConfigError(f"{path}: no [[server]] in it")
    return Settings(plans, table)


def condition_from(entry: Mapping[str, Any], table: Mapping[str, Condition]) -> Condition:
    """A row of the table; ``like`` names the row it starts from."""
    values = dict(entry)
    _only(values, _CONDITION_FIELDS | {"unset", "like"}, "[[condition]]")
    if not isinstance(values.get("name"), str):
        raise ConfigError("a [[condition]] needs a name")
    start = pick(table, [values.pop("like")])[0] if "like" in values else Condition("", "a condition of your own")
    env = {**start.env, **_env(values)}
    for key in ("wrap", "arguments", "script"):
        if key in values:
            values[key] = tuple(str(word) for word in values[key])
    unknown = [word for word in values.get("script", ()) if word.partition(":")[0] not in STEPS]
    if unknown:
        raise ConfigError(f"condition {values['name']!r}: no step {unknown[0]!r}; there are {', '.join(STEPS)}")
    return replace(start, **{**values, "env": env, "supplied": False})


def plan_from(entry: Mapping[str, Any], table: Mapping[str, Condition], folder: str) -> Plan:
    """One ``[[server]]``."""
    _only(entry, _SERVER_KEYS, "[[server]]")
    command = tuple(str(word) for word in entry.get("command", ()))
    packaged = entry.get("wheel") or entry.get("package")
    if not command and not packaged:
        raise ConfigError("a [[server]] needs a command, a wheel or a package")
    expected = tuple(_expected(one) for one in entry.get("expected", ()))
    calls: list[Json] | Json = entry.get("call", [])
    server = Server(
        name=str(entry.get("name") or (name_of(command) if command else os.path.basename(str(packaged)))),
        command=command,
        protocol=protocol(str(entry.get("protocol", "mcp")), entry.get("framing")),
        env=_env(dict(entry)),
        cwd=os.path.join(folder, entry["cwd"]) if "cwd" in entry else (None if packaged else folder),
        calls=tuple(
            Call(one["name"], dict(one.get("arguments", {}))) for one in ([calls] if isinstance(calls, dict) else calls)
        ),
        effects=tuple(os.path.join(folder, path) for path in entry.get("effects", ())),
        exits=tuple(int(status) for status in entry.get("exit", (0,))),
        limits=limits_from(entry.get("limits", {})),
    )
    wheel = os.path.join(folder, entry["wheel"]) if "wheel" in entry else None
    conditions, skipped = choose(table, entry.get("conditions"), entry.get("start_failure"))
    return Plan(server, conditions, skipped, expected, wheel, entry.get("package"), bool(entry.get("corpus")))


def choose(
    table: Mapping[str, Condition], names: Sequence[str] | None, failure: Mapping[str, Any] | None
) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """The conditions of these names (all, without names), and what is skipped because the user's part is missing."""
    wanted = pick(table, list(table) if names is None else names)
    if failure is not None:
        _only(failure, _START_KEYS, "start_failure")
        arguments = tuple(str(word) for word in failure.get("arguments", ()))
        wanted = [
            replace(one, env={**one.env, **_env(dict(failure))}, arguments=arguments, supplied=False)
            if one.supplied
            else one
            for one in wanted
        ]
    return tuple(one for one in wanted if not one.supplied), tuple(one.name for one in wanted if one.supplied)


def pick(table: Mapping[str, Condition], names: Sequence[str]) -> list[Condition]:
    """Rows by name; raises ConfigError naming the rows there are."""
    for name in names:
        if name not in table:
            raise ConfigError(f"no condition {name!r}; there are {', '.join(table)}")
    return [table[name] for name in names]


def protocol(name: str, framing: Framing | None = None) -> Protocol:
    """A protocol of the table, with another framing if wanted."""
    if name not in PROTOCOLS:
        raise ConfigError(f"no protocol {name!r}; there are {', '.join(PROTOCOLS)}")
    if framing not in (None, "ndjson", "content-length"):
        raise ConfigError(f"no framing {framing!r}; there are ndjson, content-length")
    return replace(PROTOCOLS[name], framing=framing) if framing else PROTOCOLS[name]


def limits_from(values: Mapping[str, Any]) -> Limits:
    """Deadlines in seconds over the defaults."""
    _only(values, {one.name for one in fields(Limits)}, "limits")
    return Limits(**{name: float(value) for name, value in values.items()})


def _expected(entry: Mapping[str, Any]) -> Expected:
    _only(entry, {"condition", "code", "reason"}, "[[server.expected]]")
    if not entry.get("code") or not entry.get("reason"):
        raise ConfigError("an expected failure needs a code and a reason")
    return Expected(str(entry.get("condition", "*")), str(entry["code"]), str(entry["reason"]))


def _env(values: dict[str, Any]) -> dict[str, str | None]:
    env: dict[str, str | None] = {str(name): str(value) for name, value in values.pop("env", {}).items()}
    env.update({str(name): None for name in values.pop("unset", ())})
    return env


def _tables(data: Mapping[str, Any], key: str) -> list[Json]:
    found = items(data.get(key, []))
    if key in data and (not found or not all(isinstance(one, dict) for one in found)):
        raise ConfigError(f"write [[{key}]], with two brackets")
    return found


def _only(values: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(values) - known)
    if unknown:
        raise ConfigError(f"{where}: no key {unknown[0]!r}; there are {', '.join(sorted(known))}")
