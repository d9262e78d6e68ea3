// Reads messages as a server of the official SDK for TypeScript does. Each line of the input is a POST. Each line of
// the output is what the server read, and its answer.
import readline from 'node:readline';

import { createMcpHandler, Server } from '@modelcontextprotocol/server';

const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true } };
const named = ['tools/call', 'prompts/get', 'resources/read', 'resources/subscribe', 'resources/unsubscribe'];
let messages;

// mark marks strings with half a pair of surrogates, which JSON in UTF-8 cannot show.
const mark = (_, value) => (typeof value === 'string' && !value.isWellFormed() ? 'half a pair of surrogates' : value);

// read notes a request, and answers it by an error.
function read({ method, params }) {
  messages.push({ method, request: true, name: params?.name, uri: params?.uri, task: params?.taskId });
  throw new Error('read');
}

const handler = createMcpHandler(() => {
  const server = new Server({ name: 'reader', version: '1.0.0' }, { capabilities });
  named.forEach((method) => server.setRequestHandler(method, read));
  server.fallbackRequestHandler = read;
  server.fallbackNotificationHandler = ({ method }) => messages.push({ method });
  return server;
});

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { body, headers } = JSON.parse(line);
  messages = [];
  const post = { method: 'POST', headers, body: Buffer.from(body, 'base64') };
  const response = await handler.fetch(new Request('http://127.0.0.1/mcp', post));
  const stream = response.body?.getReader();
  const answer = Buffer.from((await stream?.read())?.value ?? []).toString(); // streams go on
  await stream?.cancel();
  await new Promise(setImmediate); // notifications are handled by then
  if (answer.includes('notifications/subscriptions/acknowledged')) { // the SDK answers them by itself
    const { notifications } = JSON.parse(answer.split('\ndata: ')[1]).params;
    messages.push({ method: 'subscriptions/listen', request: true, watched: notifications.resourceSubscriptions });
  }
  console.log(JSON.stringify({ messages, answer }, mark));
}
