// An agent made with the official TypeScript SDK: `node agent.mjs 1|2 [serve]`. It asks for a permission and says what
// it got. `serve`: over HTTP and WebSocket; the address is the first line on standard output.
import { Readable, Writable } from "node:stream";

const version = process.argv[2];
const acp = await import(version === "1" ? "@agentclientprotocol/sdk" : "@agentclientprotocol/sdk/experimental/v2");
const { agent, client } = acp.methods;
const options = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const words = (outcome) => (outcome.outcome === "selected" ? `chosen: ${outcome.optionId}` : "nothing chosen");
const app = acp.agent({ name: "official-agent" });

if (version === "1") {
  app
    .onRequest(agent.initialize, () => ({
      protocolVersion: 1,
      agentInfo: { name: "official-agent", version: "1" },
      agentCapabilities: {},
    }))
    .onRequest(agent.session.new, () => ({ sessionId: "official-1" }))
    .onRequest(agent.session.prompt, async ({ params, client: peer }) => {
      const send = (update) => peer.notify(client.session.update, { sessionId: params.sessionId, update });
      const toolCall = { toolCallId: "call-1", title: "Write", kind: "edit" };
      await send({ sessionUpdate: "tool_call", status: "pending", ...toolCall });
      const asked = { sessionId: params.sessionId, toolCall, options };
      const { outcome } = await peer.request(client.session.requestPermission, asked);
      await send({ sessionUpdate: "tool_call_update", toolCallId: "call-1", status: "completed" });
      await send({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: words(outcome) } });
      return { stopReason: "end_turn" };
    });
} else {
  app
    .onRequest(agent.initialize, () => ({
      protocolVersion: 2,
      info: { name: "official-agent", version: "1" },
      capabilities: { session: {} },
    }))
    .onRequest(agent.session.new, () => ({ sessionId: "official-1" }))
    .onRequest(agent.session.prompt, ({ params, client: peer }) => {
      const sessionId = params.sessionId;
      const send = (update) => peer.notify(client.session.update, { sessionId, update });
      const work = async () => {
        await send({ sessionUpdate: "state_update", state: "running" });
        await send({ sessionUpdate: "user_message", messageId: "user-1", content: params.prompt });
        const toolCall = { toolCallId: "call-1", title: "Write", kind: "edit" };
        await send({ sessionUpdate: "tool_call_update", status: "pending", ...toolCall });
        const asked = { sessionId, title: "May I?", subject: { type: "tool_call", toolCall }, options };
        const { outcome } = await peer.request(client.session.requestPermission, asked);
        await send({ sessionUpdate: "tool_call_update", toolCallId: "call-1", status: "completed" });
        const content = { type: "text", text: words(outcome) };
        await send({ sessionUpdate: "agent_message_chunk", messageId: "message-1", content });
        await send({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
      };
      setImmediate(() => work().catch((error) => console.error(error)));
      return { messageId: "user-1" };
    });
}

if (process.argv[3] === "serve") {
  const { AcpServer } = await import("@agentclientprotocol/sdk/experimental/server");
  const node = await import("@agentclientprotocol/sdk/experimental/node");
  const { createServer } = await import("node:http");
  const { WebSocketServer } = await import("ws");
  const server = new AcpServer({ agent: app });
  const http = createServer(node.createNodeHttpHandler(server));
  http.on("upgrade", node.createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${http.address().port}`));
} else {
  app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
