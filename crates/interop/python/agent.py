"""An agent made with the official Python SDK, over HTTP and WebSocket: `python agent.py 1 serve`. It asks for a permission
and says what it got. The address is the first line on standard output."""

import socket
from typing import Any

import uvicorn
from acp.http.asgi import create_asgi_app
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)


class OfficialAgent:
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=1,
            agent_info=Implementation(name="official-agent", version="1"),
            agent_capabilities=AgentCapabilities(),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="official-1")

    async def prompt(self, prompt: Any, session_id: str, **_: Any) -> PromptResponse:
        send = self.client.session_update
        await send(session_id, ToolCallStart(session_update="tool_call", tool_call_id="call-1", title="Write", kind="edit"))
        options = [
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        call = ToolCallUpdate(tool_call_id="call-1", title="Write", kind="edit")
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        chosen = getattr(answer.outcome, "option_id", None)
        done = ToolCallProgress(session_update="tool_call_update", tool_call_id="call-1", status="completed")
        await send(session_id, done)
        words = TextContentBlock(type="text", text=f"chosen: {chosen}" if chosen else "nothing chosen")
        await send(session_id, AgentMessageChunk(session_update="agent_message_chunk", content=words))
        return PromptResponse(stop_reason="end_turn")


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = create_asgi_app(lambda connection: OfficialAgent())
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main()
