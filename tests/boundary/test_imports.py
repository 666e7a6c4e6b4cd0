"""The boundary is protocol code: it loads neither the guard nor anything that could reach the outside."""

import subprocess
import sys

import pytest

OUTSIDE = ("socket", "subprocess", "asyncio", "http", "urllib.request", "ssl", "multiprocessing", "jsonschema", "wrapt")
GUARD = ("_guard", "_fd", "_ledger", "_outlets", "auto", "adapters", "testing")


@pytest.mark.parametrize("module", ["boundary", "recorder", "compat"])
def test_what_the_boundary_loads(module):
    """Importing it brings no network, no processes, no schema library and no part of the guard."""
    code = f"import sys, stdout_guard.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {*OUTSIDE, *(f"stdout_guard.{name}" for name in GUARD)}
