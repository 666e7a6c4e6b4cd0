"""The MCP methods and the members of their params, as the published schemas state them: data only.

A member's name that ends in ``?`` may be left out. Compared with the schema files in a test.
Source: modelcontextprotocol schema/<revision>/schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Members: TypeAlias = dict[str, str]  # member of params -> JSON type
Methods: TypeAlias = dict[str, Members]

# ---------------------------------------------------------------------------------------------- members of params
NO_MEMBERS: Members = {}
PAGE: Members = {"cursor?": "string"}
URI: Members = {"uri": "string"}
TASK: Members = {"taskId": "string"}
PROGRESS_2024: Members = {"progressToken": "id", "progress": "number", "total?": "number"}
PROGRESS: Members = PROGRESS_2024 | {"message?": "string"}
CANCELLED: Members = {"requestId": "id", "reason?": "string"}
LOG: Members = {"level": "level", "data": "any", "logger?": "string"}
SAMPLING: Members = {
    "messages": "array",
    "maxTokens": "integer",
    "includeContext?": "string",
    "metadata?": "object",
    "modelPreferences?": "object",
    "stopSequences?": "array",
    "systemPrompt?": "string",
    "temperature?": "number",
}
SAMPLING_2025_11: Members = SAMPLING | {"task?": "object", "toolChoice?": "object", "tools?": "array"}
CALL: Members = {"name": "string", "arguments?": "object"}
COMPLETE: Members = {"argument": "object", "ref": "object"}
COMPLETE_2025_06: Members = COMPLETE | {"context?": "object"}
RETRY: Members = {"inputResponses?": "object", "requestState?": "string"}
INITIALIZE: Members = {"protocolVersion": "string", "capabilities": "object", "clientInfo": "object"}

# ------------------------------------------------------------------------------------------------ members of _meta
PREFIX: Final = "io.modelcontextprotocol/"
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
META: Mapping[str, Members] = {"request": {"progressToken?": "id"}, "notification": {}, "response": {}}
META_NAMES_REVISION: Mapping[str, Members] = {
    "request": {
        "progressToken?": "id",
        PREFIX + "protocolVersion": "string",
        PREFIX + "clientCapabilities": "object",
        PREFIX + "clientInfo?": "object",
        PREFIX + "logLevel?": "level",
    },
    "notification": {PREFIX + "subscriptionId?": "id"},
    "response": {PREFIX + "subscriptionId?": "id", PREFIX + "serverInfo?": "object"},
}
# what the specification itself puts below the prefixes that it keeps for itself, of any revision
META_KEYS: Final = frozenset(
    {name.rstrip("?") for members in META_NAMES_REVISION.values() for name in members}
    | {PREFIX + "related-task", PREFIX + "model-immediate-response"}
)
NEEDS_PARAMS: Final = frozenset(("notifications/cancelled",))  # required, though none of its members is

# -------------------------------------------------------------------------------------------- methods by revision
SERVER_REQUESTS: Methods = {"ping": NO_MEMBERS, "sampling/createMessage": SAMPLING, "roots/list": NO_MEMBERS}
SERVER_NOTIFICATIONS: Methods = {
    "notifications/cancelled": CANCELLED,
    "notifications/progress": PROGRESS_2024,
    "notifications/message": LOG,
    "notifications/resources/list_changed": NO_MEMBERS,
    "notifications/resources/updated": URI,
    "notifications/prompts/list_changed": NO_MEMBERS,
    "notifications/tools/list_changed": NO_MEMBERS,
}
CLIENT_REQUESTS: Methods = {
    "initialize": INITIALIZE,
    "ping": NO_MEMBERS,
    "resources/list": PAGE,
    "resources/templates/list": PAGE,
    "resources/read": URI,
    "resources/subscribe": URI,
    "resources/unsubscribe": URI,
    "prompts/list": PAGE,
    "prompts/get": CALL,
    "tools/list": PAGE,
    "tools/call": CALL,
    "logging/setLevel": {"level": "level"},
    "completion/complete": COMPLETE,
}
CLIENT_NOTIFICATIONS: Methods = {
    "notifications/cancelled": CANCELLED,
    "notifications/initialized": NO_MEMBERS,
    "notifications/progress": PROGRESS_2024,
    "notifications/roots/list_changed": NO_MEMBERS,
}
TASKS: Methods = {"tasks/get": TASK, "tasks/result": TASK, "tasks/cancel": TASK, "tasks/list": PAGE}
NEW_PROGRESS: Methods = {"notifications/progress": PROGRESS}
OPEN_CANCEL: Methods = {"notifications/cancelled": {"requestId?": "id", "reason?": "string"}}
TASK_STATUS: Methods = {
    "notifications/tasks/status": TASK
    | {
        "status": "string",
        "createdAt": "string",
        "lastUpdatedAt": "string",
        "ttl": "any",
        "statusMessage?": "string",
        "pollInterval?": "integer",
    }
}
