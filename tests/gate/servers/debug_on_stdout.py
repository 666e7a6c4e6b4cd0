"""A log handler on stdout that speaks only when told to be verbose."""

import logging
import os
import sys

import mcpbase

logging.basicConfig(
    stream=sys.stdout, level=os.environ.get("LOG_LEVEL", "WARNING"), format="%(levelname)s: %(message)s"
)
logging.debug("2 tools registered")
mcpbase.serve()
