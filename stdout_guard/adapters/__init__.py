"""Which modules are protocol writers: the table, and the one step that puts it to work.

To add an SDK: one row here (or a file beside this one when it is odd), its top-level name in ``_guard.SDKS``, one test.
"""

import importlib
import sys

from stdout_guard import _guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    How = Callable[[Any, _guard.Guard, bool], str]

# module -> (function of sdk.py, or "file.function", that gives it the wire; whether it reads frames from sys.stdin).
# Read on the versions in the README's table; all of them look sys.stdout up at call time.
ROWS = {
    "mcp.server.stdio": (
        "mcp",
        True,
    ),  # 1.9 to 2.3; 2.x claims fd 0 and 1 itself unless the streams say other numbers
    "pygls.server": ("shadow", True),  # 1.3, 2.1: .buffer of both
    "acp.stdio": ("pipes", True),  # 0.12: asyncio needs a real pipe, makes it non-blocking, and closes it
    "pylsp.python_lsp": ("pylsp", True),  # 1.15: as python -m pylsp, __main__ has read the streams by then
    "singer.messages": ("shadow", False),  # singer-python 6.8, pipelinewise-singer-python 2.0
    "singer.catalog": ("shadow", False),
    "singer_sdk.singerlib.encoding.simple": (
        "shadow",
        False,
    ),  # 0.54; its input is bound at import: left alone
    "singer_sdk._singerlib.encoding._simple": ("shadow", False),  # 0.44
    "singer_sdk.contrib.msgspec": ("shadow", False),
    "singer_sdk.target_base": ("shadow", False),
    "singer_sdk.tap_base": ("printing", False),  # the catalogue of --discover leaves by print
    "singer_sdk.plugin_base": ("printing", False),  # --about by print, --version by click.echo
    "airbyte_cdk.utils.print_buffer": ("airbyte.buffer", False),  # 7.39
    "airbyte_cdk.entrypoint": ("airbyte.printer", False),
    "airbyte_cdk.destinations.destination": ("airbyte.printer", True),
    "airbyte_cdk.utils.traced_exception": ("airbyte.printer", False),
    "airbyte_cdk.config_observation": ("airbyte.printer", False),
    "airbyte_cdk.sources.streams.http.http_client": ("airbyte.printer", False),
    "airbyte_cdk.sources.declarative.concurrent_declarative_source": ("airbyte.printer", False),
    "airbyte_cdk.legacy.sources.declarative.manifest_declarative_source": ("airbyte.printer", False),
    "airbyte_cdk.cli.source_declarative_manifest._run": ("airbyte.printer", False),
    "airbyte_cdk.connector_builder.main": ("airbyte.printer", False),
}


def loaded(name: str, module: "Any") -> None:
    """A module's body has run: give it what it is to have. No name: a guard has come up, see to all that is imported.

    The work is done in the thread that imports, which holds the locks of what it is importing and no other.
    """
    guard = _guard.current
    if name == "subprocess":
        importlib.import_module(f"{__name__}.children").wrap(module)
    elif guard is not None and name:
        guard.adapted.discard(name)  # loaded anew, it has the real streams again
        give(name, module, guard)
    elif guard is not None:
        for known in dict.fromkeys((*ROWS, *guard.settings.writers)):
            if sys.modules.get(known):
                give(known, importlib.import_module(known), guard)  # waits where another thread is still at its body


def function(how: str) -> "How":
    """The function that a row names; the file beside this one that holds it is loaded when it is first called."""
    file, _, name = how.rpartition(".")

    def give(module: "Any", guard: "_guard.Guard", stdin: bool) -> str:
        given: str = getattr(importlib.import_module(f"{__name__}.{file or 'sdk'}"), name)(module, guard, stdin)
        return given

    return give


def give(name: str, module: "Any", guard: "_guard.Guard") -> None:
    """Give the wire to one module if it is a protocol writer; what does not fit is said by name, never silent."""
    how, stdin = ("printing", True) if name in guard.settings.writers else ROWS.get(name, ("", False))
    if not how or guard.role != "owner" or name in guard.adapted:
        return
    guard.adapted.add(name)
    problem = _load_sdk()
    if problem:
        guard.intake.tell(
            f"the SDK adapters could not be loaded ({problem}): an SDK's frames will not reach the client; install "
            "wrapt beside stdout-guard, or give the SDK guard.wire yourself"
        )
        return
    try:
        problem = function(how)(module, guard, stdin)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        guard.intake.tell(
            f"the adapter does not fit this version of {name} ({problem}), so its frames may not reach the "
            "client; pass guard.wire (guard.text_wire, guard.take_stdin()) to the SDK's entry function yourself, or "
            "name the module that writes in STDOUT_GUARD_WRITERS"
        )


def _load_sdk() -> str:
    """Load sdk.py, and wrapt with it; "" or why that does not work.

    Tried twice: a thread that waited for a module which replaces itself in sys.modules (``collections.abc`` does) gets
    the husk from the import statement; the next one finds the real one.
    """
    problem = ""
    for _ in range(2):
        try:
            importlib.import_module(f"{__name__}.sdk")
            return ""
        except Exception as error:
            problem = str(error)
    return problem
