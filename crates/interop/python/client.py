"""A client of a server, made with the official Python SDK: `python client.py 1 PROMPT URL TOKEN`. It prints a line of JSON
for every update and at last the stop reason. It allows what it is asked for."""

import asyncio
import json
import os
import sys
from typing import Any

from acp import connect_to_agent
from acp.http.client import create_http_stream
from acp.schema import AllowedOutcome, RequestPermissionResponse, TextContentBlock
from acp.ws.client import create_websocket_stream


class OfficialClient:
    def on_connect(self, conn: Any) -> None:
        pass

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> RequestPermissionResponse:
        outcome = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        print(update.model_dump_json(by_alias=True, exclude_none=True), flush=True)


async def main() -> None:
    _, prompt, url, token = sys.argv[1:]
    headers = {"authorization": f"Bearer {token}"}
    if url.startswith("ws:"):
        transport = await create_websocket_stream(url, headers=headers)
    else:
        transport = create_http_stream(url, headers=headers)
    connection = connect_to_agent(OfficialClient(), transport)
    await connection.initialize(protocol_version=1)
    session = await connection.new_session(cwd=os.getcwd(), mcp_servers=[])
    answer = await connection.prompt(session_id=session.session_id, prompt=[TextContentBlock(type="text", text=prompt)])
    print(json.dumps({"stopReason": answer.stop_reason}), flush=True)
    await transport.close()


asyncio.run(main())
