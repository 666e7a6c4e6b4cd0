// Drive an MCP server with the TypeScript SDK's client, version 1 or 2: `node mcp_client.mjs VERSION CONFIG.json`,
// results as JSON.
import { readFileSync, openSync, closeSync } from "node:fs";

const PACKAGES = {
  1: ["@modelcontextprotocol/sdk/client/index.js", "@modelcontextprotocol/sdk/client/stdio.js"],
  2: ["@modelcontextprotocol/client", "@modelcontextprotocol/client/stdio"],
};
const version = process.argv[2];
const { Client } = await import(PACKAGES[version][0]);
const { StdioClientTransport } = await import(PACKAGES[version][1]);

const config = JSON.parse(readFileSync(process.argv[3], "utf-8"));
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
    const call = { name, arguments: args };
    const result = await (version === "1" ? client.callTool(call, undefined, timeout) : client.callTool(call, timeout));
    answers.push(result.content[0].text);
  }
} catch (error) {
  complaints.push(String(error));
}
await client.close();
closeSync(errlog);
console.log(JSON.stringify({ answers, complaints }));
