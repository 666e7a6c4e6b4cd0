"""A tool writes to descriptor 1 below Python's streams."""

import os

import mcpbase


def tool(name, arguments):
    os.write(1, b"ggml_init: found 1 device\n")
    return "42"


mcpbase.serve(tool)
