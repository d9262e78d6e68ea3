"""An MCP server of the official SDK for Python. It speaks both versions of the protocol at each address."""

import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.streamable_http import EventMessage, EventStore
from pydantic import BaseModel
from starlette.responses import Response

server = MCPServer("notes")


class Choice(BaseModel):
    color: str


def ask() -> Elicit[Choice]:
    return Elicit("Which color?", Choice)


@server.tool(structured_output=False)
async def search_text(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    return ctx.headers["x-auth-user"] + " finds text"


@server.tool(structured_output=False)
async def search_ask(choice: Annotated[Choice, Resolve(ask)]) -> str:
    return choice.color


@server.tool(structured_output=False)
async def search_slow(ctx: Context) -> str:
    await ctx.close_sse_stream()
    return "after the break"


@server.tool(structured_output=False)
async def search_more(ctx: Context) -> str:
    await ctx.notify_prompts_changed()  # to those who speak the version of 2026
    if ctx.protocol_version == "2025-11-25":
        await ctx.session.send_prompt_list_changed()
    return "more"


@server.tool(structured_output=False)
async def delete_all() -> str:
    return "deleted"


@server.resource("notes://today")
def today() -> str:
    return "a note"


@server.prompt()
def greet() -> str:
    return "hello"


@server.custom_route("/ready", methods=["GET"])
async def ready(_) -> Response:
    return Response()


class Memory(EventStore):
    """The events of streams, so that they resume."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.events[last][0]
        for number, (of, message) in enumerate(self.events[last + 1:], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


app = server.streamable_http_app(streamable_http_path="/mcp/{version}", event_store=Memory(), retry_interval=1)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
