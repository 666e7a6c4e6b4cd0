"""A noisy language server on pygls, version 1."""

import noise
from lsprotocol import types
from pygls.server import LanguageServer

server = LanguageServer("noisy", "1")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    noise.make("during")
    return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.PlainText, value="HELLO"))


@server.command("noisy.whisper")
async def whisper(*arguments) -> str:
    print("noise async print", end="", flush=True)
    return "hello"


noise.make("before")
server.start_io()
noise.make("after")
