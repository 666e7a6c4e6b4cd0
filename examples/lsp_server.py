"""A language server on pygls 2. The framing is Content-Length; the guard does not care."""

import stdout_guard.auto  # noqa: F401

# isort: split
from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("hover-example", "v1")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    print("hover at", params.position.line)  # would have torn a frame
    return types.Hover(contents="hello")


if __name__ == "__main__":
    server.start_io()
