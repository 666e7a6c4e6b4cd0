"""Tells PyInstaller where our hook is (its entry point ``pyinstaller40``); nothing else imports this."""

import os


def hook_dirs() -> "list[str]":
    """The folder that holds ``hook-stdout_guard.py``."""
    return [os.path.dirname(__file__)]
