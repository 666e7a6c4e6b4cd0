"""Drive an ACP agent with the protocol's own Python client: `acp_client.py CONFIG.json`, results as JSON."""

import asyncio
import json
import logging
import sys

import acp

complaints = []


class Keep(logging.Handler):
    def emit(self, record):
        complaints.append(f"{record.name}: {record.getMessage()}")


class Client(acp.Client):
    def __init__(self):
        self.said = []

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.said.append(update.content.text)


async def converse(config, answers):
    client = Client()
    with open(config["stderr"], "w", encoding="utf-8") as errlog:
        async with acp.spawn_agent_process(
            client,
            *config["command"],
            env=config["env"],
            cwd=config["cwd"],
            transport_kwargs={"stderr": errlog, "shutdown_timeout": 20.0},
        ) as (connection, process):
            await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
            answers.append("initialized")
            session = await connection.new_session(cwd=config["cwd"], mcp_servers=[])
            answers.append(session.session_id)
            response = await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("hello")])
            answers.append(response.stop_reason)
            answers.append(client.said)
    answers.append(process.returncode)


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
