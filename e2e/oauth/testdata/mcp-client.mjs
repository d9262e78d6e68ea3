// An MCP client of the official SDK. It knows the address of the server alone; the story is
// how it becomes a client of the gateway: registered, or by a document about it.
import assert from 'node:assert/strict';

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { base, more, redirectURI, story, visit } from './relying.mjs';

const [documentAddress] = more;

// memory keeps what the SDK gives it, and sends the user to the gateway.
const memory = {
  redirectUrl: redirectURI,
  clientMetadata: {
    client_name: 'MCP client', redirect_uris: [redirectURI], grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'], token_endpoint_auth_method: 'none',
  },
  clientMetadataUrl: story === 'document' ? documentAddress : undefined,
  clientInformation: () => memory.client,
  saveClientInformation: (client) => { memory.client = client; },
  tokens: () => memory.saved,
  saveTokens: (tokens) => { memory.saved = tokens; },
  codeVerifier: () => memory.verifier,
  saveCodeVerifier: (verifier) => { memory.verifier = verifier; },
  redirectToAuthorization: (address) => { memory.arrival = visit(address); },
};

const transport = () => new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { authProvider: memory });
const client = () => new Client({ name: 'client', version: '1.0.0' });

const first = transport();
await assert.rejects(client().connect(first), UnauthorizedError);
const arrival = await memory.arrival;
assert.equal(arrival.searchParams.get('iss'), base);
await first.finishAuth(arrival.searchParams.get('code'));
assert.equal(memory.saved.scope, 'tools');
assert.equal(memory.client.client_id === documentAddress, story === 'document');

const session = client();
await session.connect(transport());
async function wantUser() {
  const { content } = await session.callTool({ name: 'whoami', arguments: {} });
  assert.deepEqual(content, [{ type: 'text', text: 'alice user' }]);
}
await wantUser();

// A tool that the policy refuses is an error, and the session goes on.
await assert.rejects(session.callTool({ name: 'delete_all', arguments: {} }), { code: 403, message: /delete_all/ });
await wantUser();

// An access token that is no longer valid leads to a refresh, without the user.
const before = memory.saved;
memory.saved = { ...before, access_token: 'stale' };
await wantUser();
assert.notEqual(memory.saved.refresh_token, before.refresh_token);

// A token for the server opens nothing else behind the gateway.
const elsewhere = await fetch(`${base}/api/`, { headers: { authorization: `Bearer ${memory.saved.access_token}` } });
assert.equal(elsewhere.status, 401);
process.exit(); // although the client listens
