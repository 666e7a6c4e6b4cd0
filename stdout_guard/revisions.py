"""What each protocol revision allows in each direction, as tables: a new revision is a new row, not new code. No I/O.

Rules: a message is looked up by revision, direction and method. Members of params are checked at the top level only
(there or not, and of which JSON type), as the published schemas state them; the tables are compared with those schemas
in a test. Deeper validation belongs to whoever knows the tool.

Sources: modelcontextprotocol schema/<revision>/schema.json and docs/specification/<revision>/basic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from stdout_guard import _mcp_methods as m
from stdout_guard._mcp_methods import Members, Methods
from stdout_guard.jsonrpc import JSONRPC as JSONRPC_ENVELOPE, Envelope, Fault, Message, Note, Strictness

Direction: TypeAlias = Literal["server-to-client", "client-to-server"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("server-to-client", "client-to-server")

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
META: Final = "io.modelcontextprotocol/"

_TYPES: dict[str, tuple[type, ...]] = {  # exact types: bool is no integer here
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "id": (str, int),
    "level": (str,),
    "any": (),
}


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
)
_NOTHING = _both({}, {})
JSONRPC: Final = Revision("jsonrpc", _NOTHING, _NOTHING, mcp=False, batches=True)
LSP: Final = Revision("lsp", _NOTHING, _NOTHING, mcp=False, envelope=Envelope(error_id_null="any"))
DAP: Final = Revision("dap", _NOTHING, _NOTHING, mcp=False)

MCP_REVISIONS: Final = {
    revision.name: revision
    for revision in (MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_2025_11_25, MCP_2026_07_28)
}
REVISIONS: Final[Mapping[str, Revision]] = MCP_REVISIONS | {r.name: r for r in (JSONRPC, LSP, DAP)}
_ALIASES = {"jsonrpc-2.0": "jsonrpc", "lsp-3.17": "lsp", "lsp-3.18": "lsp", "dap-1": "dap"}


def revision_named(name: str) -> Revision:
    """The revision of that name. Raises ValueError with the names there are."""
    found = REVISIONS.get(_ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"unknown revision {name!r}: expected auto or one of {', '.join(REVISIONS)}")
    return found


# ------------------------------------------------------------------------------------------------------- the checks


def check_message(
    message: Message, revision: Revision, direction: Direction, options: Strictness, notes: list[Note]
) -> Fault | None:
    """None when ``message`` may be sent in this direction under this revision; else why not (stage ``method``)."""
    if not revision.mcp:
        if message.method.startswith("rpc."):
            notes.append(Note("reserved-method", "method names that begin with rpc. are reserved"))
        return None
    if message.kind == "response":
        return _check_result(message, revision, direction)
    if message.kind == "error":
        return _check_error(message, revision, direction)
    found = _find(message, revision, direction)
    if isinstance(found, Fault):
        return _unknown(found, message, direction, options, notes)
    if isinstance(message.params, list):
        return _fault("params-not-object", "params must be an object, not an array")
    params = message.params or {}
    return _check_members(params, found, message.method) or _check_meta(message, params, revision, direction)


def check_batch(messages: Iterable[Message], revision: Revision) -> Fault | None:
    """Whether these messages may share one array."""
    if not revision.batches:
        return Fault("batch", "method" if revision.mcp else "jsonrpc", f"{revision.name} has no batches")
    if not revision.mcp:
        return None
    calls = [message.kind in ("request", "notification") for message in messages]
    if any(calls) and not all(calls):
        return _fault("mixed-batch", "a batch holds calls or answers, not both")
    if any(message.method == "initialize" for message in messages):
        return _fault("initialize-in-batch", "initialize must not be part of a batch")
    return None


def _find(message: Message, revision: Revision, direction: Direction) -> Members | Fault:
    """The members that the method's params have, or why it may not be called."""
    method, is_request = message.method, message.kind == "request"
    requests, notifications = revision.requests[direction], revision.notifications[direction]
    if is_request and not requests:
        return _fault("wrong-direction", f"under {revision.name} a {_sender(direction)} sends no requests")
    if method in (requests if is_request else notifications):
        return (requests if is_request else notifications)[method]
    if method in requests:
        return _fault("no-id", f"{method} is a request: without an id nobody can be told the outcome")
    if method in notifications:
        return _fault("notification-with-id", f"{method} is a notification: it must not have an id")
    opposite: Direction = DIRECTIONS[1 - DIRECTIONS.index(direction)]
    here = any(_knows(other, direction, method) for other in MCP_REVISIONS.values())
    if _knows(revision, opposite, method) or (not here and any(_knows(r, opposite, method) for r in _ALL)):
        return _fault("wrong-direction", f"{method} is never sent by a {_sender(direction)}")
    if here:
        return _fault("not-in-revision", f"{revision.name} has no {method}")
    return _fault("unknown-method", f"unknown method {method[:64]!r}")


_ALL = tuple(MCP_REVISIONS.values())


def _knows(revision: Revision, direction: Direction, method: str) -> bool:
    return method in revision.requests[direction] or method in revision.notifications[direction]


def _unknown(
    fault: Fault, message: Message, direction: Direction, options: Strictness, notes: list[Note]
) -> Fault | None:
    """Unknown methods are a fault, but for a server's notification under the common prefix: receivers ignore it."""
    if fault.code not in ("unknown-method", "not-in-revision"):
        return fault
    vendor = message.kind == "notification" and message.method.startswith("notifications/")
    lenient = vendor and direction == "server-to-client" and options.unknown_methods == "default"
    if not (lenient or options.unknown_methods == "note"):
        return fault
    notes.append(Note(fault.code, fault.why))
    return None


_compiled: dict[int, list[tuple[str, bool, str]]] = {}  # by identity of the table's row: (member, required, type)


def _check_members(params: dict[str, object], members: Members, method: str) -> Fault | None:
    rows = _compiled.get(id(members))
    if rows is None:  # the rows live as long as the tables do
        rows = [(name.rstrip("?"), not name.endswith("?"), kind) for name, kind in members.items()]
        _compiled[id(members)] = rows
    for name, required, kind in rows:
        if name not in params:
            if required:
                return _fault("params-member", f"{method} needs params.{name}")
        elif not _is_a(params[name], kind):
            return _fault("params-member", f"{method}: params.{name} must be of type {kind}")
    return None


def _is_a(value: object, kind: str) -> bool:
    if type(value) in _TYPES[kind]:
        return kind != "level" or value in LEVELS
    return kind == "any"


def _check_meta(message: Message, params: dict[str, object], revision: Revision, direction: Direction) -> Fault | None:
    meta = params.get("_meta")
    if "_meta" in params and not isinstance(meta, dict):
        return _fault("meta", "_meta must be an object")
    fields = cast("dict[str, object]", meta or {})
    if message.kind != "request":
        return None
    if "progressToken" in fields and not _is_a(fields["progressToken"], "id"):
        return _fault("meta", "_meta.progressToken must be a string or an integer")
    if revision.result_type and direction == "client-to-server":
        for name, kind in (("protocolVersion", "string"), ("clientCapabilities", "object")):
            if not _is_a(fields.get(META + name), kind):
                return _fault("meta", f"under {revision.name} every request has _meta[{META + name!r}] ({kind})")
    return None


def _check_result(message: Message, revision: Revision, direction: Direction) -> Fault | None:
    if direction == "client-to-server" and not revision.client_responses:
        return _fault("wrong-direction", f"under {revision.name} a client sends no responses")
    if not isinstance(message.value["result"], dict):
        return _fault("result-not-object", "result must be an object")
    members = cast("dict[str, object]", message.value["result"])
    if "_meta" in members and not isinstance(members["_meta"], dict):
        return _fault("meta", "result._meta must be an object")
    if not revision.result_type:
        return None
    if not isinstance(members.get("resultType"), str):
        return _fault("result-type", f"under {revision.name} every result has a string resultType")
    if members["resultType"] == "input_required" and not members.keys() & {"inputRequests", "requestState"}:
        return _fault("result-type", "input_required needs inputRequests or requestState")
    return None


def _check_error(message: Message, revision: Revision, direction: Direction) -> Fault | None:
    if direction == "client-to-server" and not revision.client_responses:
        return _fault("wrong-direction", f"under {revision.name} a client sends no responses")
    code = cast("int", cast("dict[str, object]", message.value["error"])["code"])
    if code in revision.forbidden_codes:
        return _fault("error-code-retired", f"error code {code} must not be used under {revision.name}")
    if revision.spec_codes is not None and -32099 <= code <= -32020 and code not in revision.spec_codes:
        return _fault("error-code-reserved", f"error code {code} is reserved by {revision.name} and not defined")
    return None


def _sender(direction: Direction) -> str:
    return "server" if direction == "server-to-client" else "client"


def _fault(code: str, why: str) -> Fault:
    return Fault(code, "method", why)
