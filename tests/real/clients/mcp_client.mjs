// Drive an MCP server with the TypeScript SDK's client: `node mcp_client.mjs CONFIG.json`, results as JSON.
import { readFileSync, openSync, closeSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const config = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const answers = [];
const complaints = [];
const errlog = openSync(config.stderr, "w");
const transport = new StdioClientTransport({
  command: config.command[0],
  args: config.command.slice(1),
  env: config.env,
  cwd: config.cwd,
  stderr: errlog,
});
const client = new Client({ name: "test", version: "1" });
client.onerror = (error) => complaints.push(String(error));
const timeout = { timeout: config.deadline * 1000 };
try {
  await client.connect(transport, timeout);
  answers.push("initialized");
  const { tools } = await client.listTools({}, timeout);
  answers.push(tools.map((tool) => tool.name).sort());
  for (const [name, args] of config.calls) {
    const result = await client.callTool({ name, arguments: args }, undefined, timeout);
    answers.push(result.content[0].text);
  }
} catch (error) {
  complaints.push(String(error));
}
await client.close();
closeSync(errlog);
console.log(JSON.stringify({ answers, complaints }));
