"""An exit hook says goodbye, after the last answer."""

import atexit

import mcpbase

atexit.register(lambda: print("Goodbye, 3 documents saved"))
mcpbase.serve()
