"""Import me first: the guard stands when this line returns. ``from stdout_guard.auto import guard``."""

from . import install

guard = install()
