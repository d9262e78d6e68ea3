// An MCP server of the official SDK, without authentication of its own. One tool
// tells who asks as the gateway says, and the other should not be called by everybody.
import http from 'node:http';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

function whoami({ requestInfo: { headers } }) {
  return { content: [{ type: 'text', text: `${headers['x-auth-user']} ${headers['x-auth-roles']}` }] };
}

http.createServer(async (request, response) => {
  if (request.url === '/ready') {
    response.end();
    return;
  }
  const server = new McpServer({ name: 'tools', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Tells who asks.' }, whoami);
  server.registerTool('delete_all', { description: 'Deletes all.' }, () => ({ content: [{ type: 'text', text: 'deleted' }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on('close', () => transport.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
}).listen(process.argv[2], '127.0.0.1');
