"""A noisy agent on the Agent Client Protocol's Python SDK."""

import asyncio

import acp
import noise


class Agent(acp.Agent):
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **kwargs):
        print("noise async print", end="", flush=True)
        return acp.NewSessionResponse(session_id="session-1")

    async def prompt(self, session_id, prompt, **kwargs):
        noise.make("during")
        await self.client.session_update(session_id, acp.update_agent_message_text("HELLO"))
        return acp.PromptResponse(stop_reason="end_turn")


noise.make("before")
asyncio.run(acp.run_agent(Agent()))
noise.make("after")
