"""The one tool of the Python servers beside this file: it writes down each execution where STDOUT_GUARD_RECORDER says.

It takes whatever arrives: what is tested is the way to the tool, not the tool's schema.
"""

import json
import os
from typing import Any


def record(target: Any, count: Any = None) -> str:
    """Write down what was executed."""
    with open(os.environ["STDOUT_GUARD_RECORDER"], "a", encoding="utf-8") as out:
        out.write(json.dumps({"name": "record", "arguments": {"target": target, "count": count}}) + "\n")
    return "done"
