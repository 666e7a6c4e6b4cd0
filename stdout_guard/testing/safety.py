"""Which tool may be called without being asked for: one that is marked or named as reading only."""

from __future__ import annotations

from stdout_guard.testing.protocols import Json, mapping

_SAFE_VERBS = {
    "clock", "count", "current", "describe", "echo", "find", "get", "help", "info", "list", "now", "ping", "query",
    "read", "search", "show", "status", "time", "version",
}  # fmt: skip
_RISKY_VERBS = {"add", "create", "delete", "drop", "kill", "remove", "reset", "run", "send", "set", "stop", "write"}


def looks_safe(tool: Json) -> bool:
    """Whether a tool of the list needs no argument and, by its hint or else by its name, only reads."""
    hints = mapping(tool.get("annotations"))
    if not isinstance(tool.get("name"), str) or mapping(tool.get("inputSchema")).get("required"):
        return False
    if isinstance(hints.get("readOnlyHint"), bool):
        return bool(hints["readOnlyHint"])
    words = set(str(tool["name"]).lower().replace("-", "_").split("_"))
    return bool(words & _SAFE_VERBS) and not words & _RISKY_VERBS
