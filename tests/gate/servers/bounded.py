"""A server behind the package's own boundary: what is refused never reaches the tool."""

from stdout_guard.auto import guard

# isort: split
from stdout_guard.boundary import Boundary, Decision, Tool
from stdout_guard.loops import serve

TOOL = Tool(
    "get_answer",
    description="42",
    schema={"type": "object", "properties": {"target": {"type": "string"}}, "additionalProperties": False},
)

boundary = Boundary([TOOL], lambda call: Decision(True, reason="all may"))
serve(boundary, lambda action: "42", guard.take_stdin(), guard.wire)
