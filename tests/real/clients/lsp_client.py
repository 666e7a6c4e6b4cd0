"""Drive a language server with pytest-lsp's client: `lsp_client.py CONFIG.json`; its stderr is the server's."""

import asyncio
import json
import logging
import sys

from lsprotocol import types
from pytest_lsp import make_test_lsp_client

complaints = []


class Keep(logging.Handler):
    def emit(self, record):
        complaints.append(f"{record.name}: {record.getMessage()}")


async def ask(client, method, uri):
    document = types.TextDocumentIdentifier(uri=uri)
    start = types.Position(line=0, character=0)
    if method == "hover":
        found = await client.text_document_hover_async(types.HoverParams(text_document=document, position=start))
        return found.contents.value
    if method == "command":
        return await client.workspace_execute_command_async(
            types.ExecuteCommandParams(command="noisy.whisper", arguments=[])
        )
    found = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=document))
    return [symbol.name for symbol in found]


async def converse(config, answers):
    client = make_test_lsp_client()
    await client.start_io(*config["command"], env=config["env"], cwd=config["cwd"])
    try:
        await client.initialize_session(types.InitializeParams(capabilities=types.ClientCapabilities()))
        answers.append("initialized")
        uri = "file:///nowhere/example.py"
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text="answer = 42\n")
        client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        for method in config["calls"]:
            answers.append(await ask(client, method, uri))
        await client.shutdown_session()
        await client.stop()
        answers.append(client._server.returncode)
    finally:
        if client.error is not None:
            complaints.append(repr(client.error))
        if client._server.returncode is None:
            client._server.kill()


def main():
    with open(sys.argv[1], encoding="utf-8") as handle:
        config = json.load(handle)
    logging.basicConfig(level=logging.WARNING, handlers=[Keep()])
    answers = []
    try:
        asyncio.run(asyncio.wait_for(converse(config, answers), config["deadline"]))
    except BaseException as error:  # a lost answer ends in a timeout
        complaints.append(repr(error))
    print(json.dumps({"answers": answers, "complaints": complaints}))


main()
