"""For all tests: a session that was started in a shell's background ignores SIGINT, and its children would too."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
