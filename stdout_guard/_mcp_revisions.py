"""What each MCP revision allows in each direction, as tables: a new revision is a new row, not new code. No I/O.

Sources: modelcontextprotocol schema/<revision>/schema.json and docs/specification/<revision>/basic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from stdout_guard import _mcp_methods as m
from stdout_guard._mcp_methods import Members, Methods
from stdout_guard._messages import JSONRPC as JSONRPC_ENVELOPE, Envelope

Direction: TypeAlias = Literal["server-to-client", "client-to-server"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("server-to-client", "client-to-server")


@dataclass(frozen=True)
class Revision:
    """One protocol revision. ``requests`` and ``notifications``: per direction, method -> members of params."""

    name: str
    requests: Mapping[Direction, Methods]
    notifications: Mapping[Direction, Methods]
    mcp: bool = True
    batches: bool = False
    envelope: Envelope = JSONRPC_ENVELOPE
    result_type: bool = False  # every result names its type; requests carry the protocol version in _meta
    client_responses: bool = True
    spec_codes: frozenset[int] | None = None  # of -32020..-32099, the ones that are defined
    forbidden_codes: frozenset[int] = frozenset()
    meta_grammar: bool = False  # keys of _meta are of the form prefix/name
    meta: Mapping[str, Members] = field(default_factory=lambda: m.META)  # by kind of message: members of its _meta


def _both(to_client: Methods, to_server: Methods) -> Mapping[Direction, Methods]:
    return {"server-to-client": to_client, "client-to-server": to_server}


_ID_OPTIONAL = Envelope(error_id_optional=True)

MCP_2024_11_05: Final = Revision(
    "2024-11-05",
    _both(m.SERVER_REQUESTS, m.CLIENT_REQUESTS),
    _both(m.SERVER_NOTIFICATIONS, m.CLIENT_NOTIFICATIONS),
)
MCP_2025_03_26: Final = Revision(
    "2025-03-26",
    _both(m.SERVER_REQUESTS, m.CLIENT_REQUESTS),
    _both(m.SERVER_NOTIFICATIONS | m.NEW_PROGRESS, m.CLIENT_NOTIFICATIONS | m.NEW_PROGRESS),
    batches=True,
)
MCP_2025_06_18: Final = Revision(
    "2025-06-18",
    _both(
        m.SERVER_REQUESTS | {"elicitation/create": {"message": "string", "requestedSchema": "object"}},
        m.CLIENT_REQUESTS | {"completion/complete": m.COMPLETE_2025_06},
    ),
    MCP_2025_03_26.notifications,
    meta_grammar=True,
)
MCP_2025_11_25: Final = Revision(
    "2025-11-25",
    _both(
        m.SERVER_REQUESTS
        | m.TASKS
        | {"sampling/createMessage": m.SAMPLING_2025_11, "elicitation/create": {"message": "string"}},
        m.CLIENT_REQUESTS
        | m.TASKS
        | {"completion/complete": m.COMPLETE_2025_06, "tools/call": m.CALL | {"task?": "object"}},
    ),
    _both(
        m.SERVER_NOTIFICATIONS
        | m.NEW_PROGRESS
        | m.OPEN_CANCEL
        | m.TASK_STATUS
        | {"notifications/elicitation/complete": {"elicitationId": "string"}},
        m.CLIENT_NOTIFICATIONS | m.NEW_PROGRESS | m.OPEN_CANCEL | m.TASK_STATUS,
    ),
    envelope=_ID_OPTIONAL,
    meta_grammar=True,
)
MCP_2026_07_28: Final = Revision(
    "2026-07-28",
    _both(
        {},
        {
            "server/discover": m.NO_MEMBERS,
            "resources/list": m.PAGE,
            "resources/templates/list": m.PAGE,
            "resources/read": m.URI | m.RETRY,
            "subscriptions/listen": {"notifications": "object"},
            "prompts/list": m.PAGE,
            "prompts/get": m.CALL | m.RETRY,
            "tools/list": m.PAGE,
            "tools/call": m.CALL | m.RETRY,
            "completion/complete": m.COMPLETE_2025_06,
        },
    ),
    _both(
        m.SERVER_NOTIFICATIONS
        | m.NEW_PROGRESS
        | {"notifications/subscriptions/acknowledged": {"notifications": "object"}},
        {"notifications/cancelled": m.CANCELLED},
    ),
    envelope=_ID_OPTIONAL,
    result_type=True,
    client_responses=False,
    spec_codes=frozenset((-32020, -32021, -32022)),
    forbidden_codes=frozenset((-32002, -32042)),
    meta_grammar=True,
    meta=m.META_NAMES_REVISION,
)
MCP_REVISIONS: Final = {
    revision.name: revision
    for revision in (MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_2025_11_25, MCP_2026_07_28)
}
