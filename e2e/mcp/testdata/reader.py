"""Reads messages as a server of the official SDK for Python does. Each line of the input is a POST. Each line of the
output is what the server read, and its answer."""

import base64
import json
import sys

import anyio
import mcp_types as types
import pydantic
import pydantic_core
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

messages = []


def mark(text):
    """Marks a string with half a pair of surrogates, which JSON in UTF-8 cannot show."""
    try:
        return text and text.encode() and text
    except UnicodeEncodeError:
        return "half a pair of surrogates"


async def read(ctx, params):
    """Notes a request, and answers it by an error."""
    notifications = getattr(params, "notifications", None)
    messages.append({
        "method": ctx.method, "request": True, "name": mark(getattr(params, "name", None)),
        "uri": mark(getattr(params, "uri", None)), "task": mark(getattr(params, "task_id", None)),
        "watched": notifications and notifications.resource_subscriptions,
    })
    raise MCPError(0, "read")


def note_notification(body):
    """Notes a notification as the transport reads it, because the server handles those of some methods alone."""
    try:
        message = types.jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except (ValueError, pydantic.ValidationError):
        return
    if isinstance(message, types.JSONRPCNotification):
        messages.append({"method": message.method})


async def post(manager, body, headers):
    """Returns the answer to a POST."""
    answer, bodies = [], [{"type": "http.request", "body": body}]

    async def receive():
        return bodies.pop() if bodies else await anyio.sleep_forever()

    async def send(part):
        answer.append(part.get("body", b""))

    fields = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": fields}
    await manager.handle_request(scope, receive, send)
    return b"".join(answer).decode()


async def main():
    server = Server("reader", on_call_tool=read, on_get_prompt=read, on_read_resource=read, on_subscribe_resource=read,
                    on_unsubscribe_resource=read, on_subscriptions_listen=read, on_ping=read)
    server.add_request_handler("tasks/get", types.GetTaskRequestParams, read)
    server.add_request_handler("tasks/cancel", types.CancelTaskRequestParams, read)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with manager.run():
        for line in sys.stdin:
            message = json.loads(line)
            body = base64.b64decode(message["body"])
            messages.clear()
            note_notification(body)
            answer = await post(manager, body, message["headers"])
            print(json.dumps({"messages": messages, "answer": answer}))


anyio.run(main)
