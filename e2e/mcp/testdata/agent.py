"""An agent with the official SDK for Python. It makes its tour of a server, and writes what it saw."""

import asyncio
import contextlib
import json
import sys

import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

address, version, token = sys.argv[1:]
sessions = version == "2025-11-25"
changed = asyncio.Event()


async def answer(_context, _params):
    return types.ElicitResult(action="accept", content={"color": "blue"})


async def notice(message):
    if isinstance(message, types.PromptListChangedNotification):
        changed.set()


async def watch(subscription):
    async for _ in subscription:
        changed.set()


async def error_of(call):
    try:
        await call
    except MCPError as error:
        return {"code": error.code, "message": error.message}
    return {"message": "not refused"}


async def tour(client):
    progress, reported = [], asyncio.Event()

    async def report(_progress, _total, message):
        progress.append(message)
        reported.set()

    async def call(name, **options):
        return (await client.call_tool(name, {}, **options)).content[0].text

    saw = {"version": client.protocol_version, "progress": progress, "resumed": ""}
    saw["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    saw["text"] = await call("search_text", progress_callback=report)
    await reported.wait()
    saw["answer"] = await call("search_ask")
    if sessions:
        saw["resumed"] = await call("search_slow")
    while not changed.is_set():
        await call("search_more")
    saw["changed"] = True
    saw["resource"] = (await client.read_resource("notes://today")).contents[0].text
    saw["prompt"] = (await client.get_prompt("greet")).messages[0].content.text
    saw["refused"] = [
        await error_of(client.call_tool("delete_all", {})),
        await error_of(client.get_prompt("secret")),
        await error_of(client.read_resource("file:///etc/passwd")),
    ]
    saw["again"] = await call("search_text")
    return saw


async def main():
    http = create_mcp_http_client(headers={"Authorization": "Bearer " + token})
    client = Client(
        streamable_http_client(address, http_client=http), mode="legacy" if sessions else version,
        elicitation_callback=answer, message_handler=notice,
    )
    async with http, client, contextlib.AsyncExitStack() as stack:
        if not sessions:
            watching = asyncio.create_task(watch(
                await stack.enter_async_context(client.listen(prompts_list_changed=True))))
            stack.callback(watching.cancel)
        print(json.dumps(await tour(client)))


asyncio.run(main())
