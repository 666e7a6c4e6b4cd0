"""What is said of who wrote it, where it is more than a line of a file."""

NATIVE = (
    "written below Python's streams (C code, os.write, a shell or a process that outlived its parent): no line to name"
)
AROUND = (
    "the second run wrote it too, around the guard: by a wrapper or another program before or beside the Python "
    "server, or through a descriptor taken earlier"
)
WRITER = "written by the protocol writer itself"
DIFFERS = (
    "the second run, under the guard, did not write this: it depends on time, order or what an earlier run left behind"
)
MERGED = (
    "the command sends stderr to stdout, so that this may be any line of a log; the wrapper (2>&1) is at fault, or a "
    "dup2 in the server"
)
UNGUARDED = "the second run could not be guarded, so nobody is named: "
NO_PRINT = ": its frame is at fault, not a stray print"
WRITERS = WRITER + " ({})" + NO_PRINT
NO_PYTHON = "no Python process had the wire as its stdout"
