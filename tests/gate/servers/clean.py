"""No fault."""

import mcpbase

mcpbase.serve()
