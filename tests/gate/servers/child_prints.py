"""A tool starts a child that inherits stdout."""

import subprocess

import mcpbase


def tool(name, arguments):
    subprocess.run(["/bin/echo", "Already up to date."], check=True)
    return "42"


mcpbase.serve(tool)
