"""Cannot keep its settings without a home."""

import os

import mcpbase

if not os.path.isdir(os.environ.get("HOME", "")):
    print("no home, settings are not kept")
mcpbase.serve()
