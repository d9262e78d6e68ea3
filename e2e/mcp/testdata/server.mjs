// An MCP server of the official SDK for TypeScript, at an address of its own for each version of the protocol.
import { randomUUID } from 'node:crypto';
import http from 'node:http';

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from '@modelcontextprotocol/server';

const text = (said) => ({ content: [{ type: 'text', text: said }] });
const color = { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] };

// notes returns a server. It calls changed when its prompts change.
function notes(changed) {
  const server = new McpServer({ name: 'notes', version: '1.0.0' }, { capabilities: { prompts: { listChanged: true } } });
  server.registerTool('search_text', {}, async (ctx) => {
    const { progressToken } = ctx.mcpReq._meta ?? {};
    if (progressToken !== undefined) {
      const params = { progressToken, progress: 1, total: 2, message: 'half' };
      await ctx.mcpReq.notify({ method: 'notifications/progress', params });
    }
    return text(`${ctx.http.req.headers.get('x-auth-user')} finds text`);
  });
  server.registerTool('search_ask', {}, (ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'color');
    const question = inputRequired.elicit({ message: 'Which color?', requestedSchema: color });
    return answer ? text(answer.color) : inputRequired({ inputRequests: { color: question } });
  });
  server.registerTool('search_slow', {}, (ctx) => {
    ctx.http.closeSSE();
    return text('after the break');
  });
  server.registerTool('search_more', {}, () => {
    changed(server);
    return text('more');
  });
  server.registerTool('delete_all', {}, () => text('deleted'));
  server.registerResource('today', 'notes://today', {}, ({ href }) => ({ contents: [{ uri: href, text: 'a note' }] }));
  const hello = { role: 'user', content: { type: 'text', text: 'hello' } };
  server.registerPrompt('greet', {}, () => ({ messages: [hello] }));
  return server;
}

// memory keeps the events of streams, so that they resume.
function memory() {
  const events = [];
  return {
    async storeEvent(stream, message) {
      return String(events.push({ stream, message }) - 1);
    },
    async getStreamIdForEventId(id) {
      return events[id]?.stream;
    },
    async replayEventsAfter(last, { send }) {
      const { stream } = events[last];
      for (let id = Number(last) + 1; id < events.length; id += 1) {
        if (events[id].stream === stream) {
          await send(String(id), events[id].message);
        }
      }
      return stream;
    },
  };
}

const sessions = new Map();

// withSession passes a request to its session, or begins one.
async function withSession(request, response) {
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID, eventStore: memory(), retryInterval: 1,
      onsessioninitialized: (id) => { sessions.set(id, transport); },
    });
    await notes((server) => server.sendPromptListChanged()).connect(transport);
  }
  await transport.handleRequest(request, response);
}

const stateless = createMcpHandler(() => notes(() => stateless.notify.promptsChanged()), { legacy: 'reject' });
const withoutSession = toNodeHandler(stateless);

http.createServer((request, response) => {
  if (request.url === '/ready') {
    response.end();
  } else if (request.url === '/mcp/2025-11-25') {
    withSession(request, response);
  } else {
    withoutSession(request, response);
  }
}).listen(process.argv[2], '127.0.0.1');
