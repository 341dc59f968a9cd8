// A client made with the official TypeScript SDK: `node client.mjs 1|2 PROMPT PROGRAM ARGUMENT...`, or with a server:
// `node client.mjs 1|2 PROMPT URL TOKEN`. It prints a line of JSON for every update, and allows what it is asked for.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [version, prompt, program, ...rest] = process.argv.slice(2);
const acp = await import(version === "1" ? "@agentclientprotocol/sdk" : "@agentclientprotocol/sdk/experimental/v2");
let child;
const stream = await connect();
const { agent, client } = acp.methods;
let idle;
const isIdle = new Promise((resolve) => (idle = resolve));

async function connect() {
  const headers = { authorization: `Bearer ${rest[0]}` };
  if (program.startsWith("http:")) {
    const { createHttpStream } = await import("@agentclientprotocol/sdk/experimental/http-client");
    return createHttpStream(program, { headers });
  }
  if (program.startsWith("ws:")) {
    const { createWebSocketStream } = await import("@agentclientprotocol/sdk/experimental/ws-client");
    const { WebSocket } = await import("ws");
    return createWebSocketStream(program, { headers, WebSocket });
  }
  child = spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });
  return acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

await acp
  .client({ name: "official-client" })
  .onRequest(client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onNotification(client.session.update, ({ params }) => {
    console.log(JSON.stringify(params.update));
    if (params.update.state === "idle" && params.update.stopReason) idle();
  })
  .connectWith(stream, async (context) => {
    const cwd = process.cwd();
    const content = [{ type: "text", text: prompt }];
    if (version === "1") {
      await context.request(agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
      const { sessionId } = await context.request(agent.session.new, { cwd, mcpServers: [] });
      const { stopReason } = await context.request(agent.session.prompt, { sessionId, prompt: content });
      console.log(JSON.stringify({ stopReason }));
    } else {
      const info = { name: "official-client", version: "1" };
      await context.request(agent.initialize, { protocolVersion: 2, info, capabilities: {} });
      const { sessionId } = await context.request(agent.session.new, { cwd });
      await context.request(agent.session.prompt, { sessionId, prompt: content });
      await isIdle;
      await context.request(agent.session.close, { sessionId });
    }
  });
child?.stdin.end();
child?.kill();
