// An MCP client of the official SDK, version 2. It begins with a scope for some tools, and asks its user for one
// more when a tool needs it.
import assert from 'node:assert/strict';

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

import { base, redirectURI, visit } from './relying.mjs';

// memory keeps what the SDK gives it, and sends the user to the gateway. It asks for less than the gateway
// proposes at first.
const memory = {
  redirectUrl: redirectURI,
  clientMetadata: {
    client_name: 'MCP client', redirect_uris: [redirectURI], grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'], token_endpoint_auth_method: 'none',
  },
  clientInformation: () => memory.client,
  saveClientInformation: (client) => { memory.client = client; },
  tokens: () => memory.saved,
  saveTokens: (tokens) => { memory.saved = tokens; },
  codeVerifier: () => memory.verifier,
  saveCodeVerifier: (verifier) => { memory.verifier = verifier; },
  saveDiscoveryState: (state) => { memory.discovered = state; },
  discoveryState: () => memory.discovered,
  redirectToAuthorization: (address) => {
    if (!memory.saved) {
      address.searchParams.set('scope', 'tools');
    }
    memory.arrival = visit(address);
  },
};
const transport = () => new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { authProvider: memory });
const client = () => new Client({ name: 'client', version: '1.0.0' });

const first = transport();
await assert.rejects(client().connect(first), UnauthorizedError);
await first.finishAuth((await memory.arrival).searchParams);
assert.equal(memory.saved.scope, 'tools');

const session = client();
const current = transport();
await session.connect(current);
const call = async (name) => (await session.callTool({ name, arguments: {} })).content[0].text;
assert.equal(await call('whoami'), 'alice user');

// The answer names the scopes, and the SDK sends the user to the gateway by itself.
await assert.rejects(call('delete_all'), UnauthorizedError);
await current.finishAuth((await memory.arrival).searchParams);
assert.match(memory.saved.scope, /\bdeleting\b/);
assert.equal(await call('delete_all'), 'deleted');
assert.equal(await call('whoami'), 'alice user');
await session.close();
process.exit(); // although the client listens
