"""Runs in a child: native code floods fd 1 with a file.

argv: contestant's lines, file, how often, "direct" or "cat" (one more in between, to stderr).
"""

import sys

exec(sys.argv[1])

import os  # noqa: E402

_, _, name, times, way = sys.argv
command = f"cat {' '.join([name] * int(times))}" + (" | cat >&2" if way == "cat" else "")
sys.stderr.write("start\n")
sys.stderr.flush()
os.system(command)
if len(sys.argv[1]) > 1:  # the peak of the whole life, for the memory row
    with open("/proc/self/status") as status:
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    sys.stderr.write(f"peak {peak}\n")
