"""Says so when it builds its cache."""

import os

import mcpbase

cache = os.path.expanduser("~/.first-start-cache")
if not os.path.exists(cache):
    print("first start: building the cache")
    with open(cache, "w", encoding="utf-8"):
        pass
mcpbase.serve()
