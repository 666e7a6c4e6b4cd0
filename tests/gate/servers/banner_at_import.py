"""A dependency greets when it is imported."""

import mcpbase
import noisydep  # noqa: F401

mcpbase.serve()
