"""An update check that answers after a while."""

import threading

import mcpbase

timer = threading.Timer(1.5, print, ["A newer version is available"], {"flush": True})
timer.daemon = True
timer.start()
mcpbase.serve()
