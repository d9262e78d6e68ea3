// An MCP client of the official SDK that acts for a user of a company. The provider of the company has
// vouched for the user by an assertion, so that nobody is asked.
import assert from 'node:assert/strict';

import { Client, CrossAppAccessProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [base, , secret, assertion] = process.argv.slice(3);

const authProvider = new CrossAppAccessProvider({
  clientId: 'agent', clientSecret: secret, expectedIssuer: base,
  assertion: ({ authorizationServerUrl, resourceUrl }) => {
    assert.equal(new URL(authorizationServerUrl).origin, base);
    assert.equal(resourceUrl, `${base}/mcp`);
    return assertion;
  },
});
const session = new Client({ name: 'client', version: '1.0.0' });
await session.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { authProvider }));
const { content } = await session.callTool({ name: 'whoami', arguments: {} });
assert.deepEqual(content, [{ type: 'text', text: 'alice user' }]);

// The token is for the server alone.
const elsewhere = await fetch(`${base}/api/`, { headers: { authorization: `Bearer ${authProvider.tokens().access_token}` } });
assert.equal(elsewhere.status, 401);
await session.close();
