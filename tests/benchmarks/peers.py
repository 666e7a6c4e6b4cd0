"""The contestants: what a server may do about its stdout, each as the first lines of its source.

``wire`` is then where frames go: a binary stream with write() and flush(). In SDK servers ``sys.stdout.buffer`` must be
that, because the SDK looks there. What each leaves undone (the import-time print, C code, children) is not counted
here: a peer that does less may be faster.
"""

from __future__ import annotations

from .rows import OURS

NOTHING = "nothing"
OFF = "off"
STDERR = "sys.stdout = sys.stderr"
DUP2 = "dup2 snippet"
QUIETMCP = "quietmcp"
WURLITZER = "wurlitzer"
CLAIM = "mcp's own claim"

BY_HAND = {
    NOTHING: "import sys\nwire = sys.stdout.buffer\n",
    OURS: "from stdout_guard.auto import guard\nwire = guard.wire\n",
    STDERR: "import sys\nwire = sys.stdout.buffer\nsys.stdout = sys.stderr\n",
    DUP2: "import os, sys\nwire = os.fdopen(os.dup(1), 'wb')\nos.dup2(2, 1)\nsys.stdout = sys.stderr\n",
    QUIETMCP: "import quietmcp\nwire = quietmcp.install().buffer\n",
    WURLITZER: (
        "import os, sys, wurlitzer\nwire = os.fdopen(os.dup(1), 'wb')\nsys.stdout = sys.stderr\n"
        "captured = wurlitzer.pipes(stdout=sys.stderr, stderr=None)\ncaptured.__enter__()\n"
    ),
}
OF_SDKS = {
    NOTHING: "",
    OURS: "import stdout_guard.auto\n",
    DUP2: "import os, sys\nreal = os.dup(1)\nos.dup2(2, 1)\nsys.stdout = os.fdopen(real, 'w')\n",
    QUIETMCP: "import quietmcp\nquietmcp.install()\n",
}
# A start-up pays for the lines, not for the wire's first use.
AT_START = {
    NOTHING: "",
    OURS: "import stdout_guard.auto\n",
    OFF: "import stdout_guard.auto\n",
    STDERR: "import sys\nsys.stdout = sys.stderr\n",
    DUP2: BY_HAND[DUP2],
    QUIETMCP: "import quietmcp\nquietmcp.install()\n",
    WURLITZER: BY_HAND[WURLITZER],
}
