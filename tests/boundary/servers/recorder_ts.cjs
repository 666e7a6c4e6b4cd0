// A server on the TypeScript SDK, version 1, whose one tool writes down each execution where STDOUT_GUARD_RECORDER says.
// It takes whatever arrives: what is tested is the way to the tool, not the tool's schema.
const { appendFileSync } = require("node:fs");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = require("zod");

const server = new McpServer({ name: "recorder", version: "1" });
const inputSchema = { target: z.any(), count: z.any().optional() };
server.registerTool("record", { description: "Write down what was executed.", inputSchema }, async (given) => {
  appendFileSync(process.env.STDOUT_GUARD_RECORDER, JSON.stringify({ name: "record", arguments: given }) + "\n");
  return { content: [{ type: "text", text: "done" }] };
});
server.connect(new StdioServerTransport());
