"""``python -m stdout_guard``: the same as the console script."""

import sys

from stdout_guard.cli import main

if __name__ == "__main__":
    sys.exit(main())
