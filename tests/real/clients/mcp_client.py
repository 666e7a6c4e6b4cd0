"""Drive an MCP server with the official Python client, any version: `mcp_client.py CONFIG.json`, results as JSON."""

import asyncio
import json
import logging
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

complaints = []


class Keep(logging.Handler):
    def emit(self, record):
        complaints.append(f"{record.name}: {record.getMessage()}")


async def on_message(message):
    if isinstance(message, Exception):
        complaints.append(repr(message))


async def converse(config, answers):
    server = StdioServerParameters(
        command=config["command"][0], args=config["command"][1:], env=config["env"], cwd=config["cwd"]
    )
    with open(config["stderr"], "w", encoding="utf-8") as errlog:
        async with (
            stdio_client(server, errlog=errlog) as (read, write),
            ClientSession(read, write, message_handler=on_message) as session,
        ):
            await session.initialize()
            answers.append("initialized")
            answers.append(sorted(tool.name for tool in (await session.list_tools()).tools))
            for name, arguments in config["calls"]:
                result = await session.call_tool(name, arguments)
                answers.append(result.content[0].text)


def main():
    with open(sys.argv[1], encoding="utf-8") as handle:
        config = json.load(handle)
    logging.basicConfig(level=logging.WARNING, handlers=[Keep()])
    answers = []
    try:
        asyncio.run(asyncio.wait_for(converse(config, answers), config["deadline"]))
    except BaseException as error:  # a broken server ends in a timeout, a closed connection or a group of them
        complaints.append(repr(error))
    print(json.dumps({"answers": answers, "complaints": complaints}))


main()
