"""Which tools exist and what their arguments must be: everything about a tool is checked when it is registered.

A validator is any callable that takes the arguments as plain dicts and lists of its own; it refuses by raising or by
returning False, and it cannot be asynchronous.
What it returns otherwise is not used: the executor gets the arguments as they arrived, not as somebody coerced them.
A schema never fetches: a reference that does not lead into the schema itself is an error at registration.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypeIs

from stdout_guard._actions import close_unawaited, thaw

Validator = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True)
class Tool:
    """One registered tool. ``validate`` None: the JSON Schema is applied with jsonschema (extra ``boundary``).

    ``listing`` holds further members for tools/list (title, annotations, outputSchema).
    Raises ValueError for a bad name, an async validator or a schema that is itself invalid, RuntimeError when
    jsonschema is missing.
    """

    name: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "additionalProperties": False})
    description: str = ""
    validate: Validator | None = None
    listing: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise ValueError(f"tool {self.name!r}: a tool's name is non-empty printable text")
        if inspect.iscoroutinefunction(self.validate):
            raise ValueError(
                f"tool {self.name!r}: validate is async, and nothing would await it; give a plain callable"
            )
        check = _schema_validator(self.name, thaw(self.schema)) if self.validate is None else self.validate
        if self.schema.get("type") != "object":
            raise ValueError(f'tool {self.name!r}: the arguments are an object, so the schema needs "type": "object"')
        object.__setattr__(self, "validate", check)
        object.__setattr__(self, "schema", thaw(self.schema))
        json.dumps(self.listed(), allow_nan=False).encode()

    def listed(self) -> dict[str, Any]:
        """The tool as tools/list shows it."""
        return {
            **thaw(self.listing),
            "name": self.name,
            **({"description": self.description} if self.description else {}),
            "inputSchema": thaw(self.schema),
        }

    def accepts(self, arguments: dict[str, Any]) -> bool:
        """Whether the validator lets these arguments pass; a validator that raises, for whatever reason, refuses.

        ``arguments`` belong to the validator from now on: it may change them.
        """
        check = self.validate
        try:
            verdict = check is not None and check(arguments)
        except Exception:
            return False
        if verdict is None or verdict is True:  # what validators mostly say
            return True
        if inspect.isawaitable(verdict):  # nobody awaits it: it has judged nothing
            close_unawaited(verdict)
            return False
        return verdict is not False


def register(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by name; ValueError when two share one."""
    table: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in table:
            raise ValueError(f"tool {tool.name!r} is registered twice")
        table[tool.name] = tool
    return table


def _schema_validator(name: str, schema: dict[str, Any]) -> Validator:
    """A validator that never leaves the schema: jsonschema's own default would fetch remote references."""
    try:
        validators: Any = importlib.import_module("jsonschema.validators")
        registry: Any = importlib.import_module("referencing").Registry()
    except ImportError as error:
        raise RuntimeError(
            f"tool {name!r}: checking a JSON Schema needs jsonschema; pip install 'stdout-guard[boundary]', "
            "or give the tool a validate callable"
        ) from error
    try:
        kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
        kind.check_schema(schema)
    except Exception as error:
        why = getattr(error, "message", type(error).__name__)
        raise ValueError(f"tool {name!r}: the schema is not valid JSON Schema: {why}") from error
    for reference in _references(schema):
        if not _leads_inside(schema, reference):
            raise ValueError(
                f"tool {name!r}: the schema's reference {reference!r} does not lead into the schema itself"
            )
    checker = kind(schema, registry=registry)
    return lambda arguments: checker.is_valid(arguments)


def _is_object(value: object) -> TypeIs[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: object) -> TypeIs[list[Any]]:
    return isinstance(value, list)


def _members(schema: object) -> Iterator[tuple[str, Any]]:
    """Every member of every object in the schema, at any depth."""
    if _is_object(schema):
        for key, value in schema.items():
            yield key, value
            yield from _members(value)
    elif _is_array(schema):
        for item in schema:
            yield from _members(item)


def _references(schema: object) -> Iterator[str]:
    references = ("$ref", "$dynamicRef", "$recursiveRef")
    return (value for key, value in _members(schema) if key in references and isinstance(value, str))


def _leads_inside(schema: dict[str, Any], reference: str) -> bool:
    """A pointer must resolve; an anchor or an ``$id`` must be there. Anything else would be a fetch."""
    base, _, fragment = reference.partition("#")
    if base:
        return ("$id", base) in _names(schema)
    if fragment and not fragment.startswith("/"):
        return bool({("$anchor", fragment), ("$dynamicAnchor", fragment)} & _names(schema))
    target: Any = schema
    for part in fragment.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        if _is_array(target):
            target = dict(enumerate(target)).get(int(step) if step.isdigit() else -1)
        else:
            target = target.get(step) if _is_object(target) else None
    return isinstance(target, (dict, bool))


def _names(schema: dict[str, Any]) -> set[tuple[str, str]]:
    return {(key, value) for key, value in _members(schema) if key.startswith("$") and isinstance(value, str)}
