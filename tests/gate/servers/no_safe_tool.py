"""Its only tool needs an argument: nothing can be called by someone who does not know it."""

import mcpbase

del mcpbase.TOOLS[0]
mcpbase.serve()
