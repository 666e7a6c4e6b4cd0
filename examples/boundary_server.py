"""An MCP server that gates an HTTP call: what was refused or denied never gets as far as a URL.

Try it: ``DEPLOY_URL=http://127.0.0.1:8000 DEPLOY_CREDENTIALS=preview-bot python examples/boundary_server.py``
"""

# The guard stands before anything else is imported.
from stdout_guard.auto import guard

# isort: split
import json
import os
import sys
import urllib.request

from stdout_guard.boundary import AuthorizedAction, Boundary, Call, Decision, Tool
from stdout_guard.loops import serve
from stdout_guard.recorder import Execution, Refusal

DEPLOY_PREVIEW = Tool(
    "deploy-preview",
    description="Deploy one branch to the preview environment",
    schema={
        "type": "object",
        "properties": {
            "branch": {"type": "string", "pattern": "^[a-z0-9][a-z0-9/_-]{0,63}$"},
            "credential": {"type": "string", "enum": ["preview-bot", "release-bot"]},
        },
        "required": ["branch", "credential"],
        "additionalProperties": False,
    },
)


def authorise(call: Call) -> Decision:
    """The decision comes before the request exists: no host is resolved and nothing is built to ask this."""
    credential = call.arguments["credential"]
    mine = os.environ.get("DEPLOY_CREDENTIALS", "").split(",")
    return Decision(credential in mine, reason=f"credential {credential}", grant=credential)


def deploy_preview(action: AuthorizedAction) -> str:
    """The only place that touches the network; it takes nothing but an authorised action."""
    print("deploying", action.arguments["branch"])  # a forgotten print: stderr gets it, the client does not
    body = json.dumps({"branch": action.arguments["branch"]}).encode()
    headers = {"X-Credential": str(action.decision.grant)}
    request = urllib.request.Request(f"{os.environ['DEPLOY_URL']}/previews", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return f"preview requested: {answer.status}"


def tell(record: Refusal | Execution) -> None:
    """Refusals and executions are two logs; here both are lines on stderr, told apart by their first word."""
    print(type(record).__name__.lower(), json.dumps(record.as_dict()), file=sys.stderr)


if __name__ == "__main__":
    boundary = Boundary([DEPLOY_PREVIEW], authorise, audit=tell, executions=tell, server=("deploy-gate", "1"))
    ended = serve(boundary, deploy_preview, guard.take_stdin(), guard.wire)
    sys.exit(1 if ended.refused else 0)
