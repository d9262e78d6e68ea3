// An agent with the official SDK for TypeScript. It makes its tour of a server, and writes what it saw.
import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [address, version, token] = process.argv.slice(2);

let changes = 0;
const client = new Client({ name: 'agent', version: '1.0.0' }, {
  capabilities: { elicitation: { form: {} } },
  versionNegotiation: { mode: version === '2025-11-25' ? 'legacy' : { pin: version } },
  listChanged: { prompts: { autoRefresh: false, debounceMs: 0, onChanged: () => { changes += 1; } } },
});
client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { color: 'blue' } }));
const transport = new StreamableHTTPClientTransport(new URL(address), {
  requestInit: { headers: { authorization: `Bearer ${token}` } },
});
await client.connect(transport);

async function call(name, options) {
  const { content } = await client.callTool({ name, arguments: {} }, options);
  return content[0].text;
}

const saw = { version: client.getNegotiatedProtocolVersion(), progress: [], refused: [] };
saw.tools = (await client.listTools()).tools.map(({ name }) => name);
saw.text = await call('search_text', { onprogress: ({ message }) => { saw.progress.push(message); } });
saw.answer = await call('search_ask');
if (version === '2025-11-25') {
  saw.resumed = await call('search_slow');
}
while (changes === 0) {
  await call('search_more');
}
saw.changed = true;
saw.resource = (await client.readResource({ uri: 'notes://today' })).contents[0].text;
saw.prompt = (await client.getPrompt({ name: 'greet' })).messages[0].content.text;

for (const refused of [
  () => call('delete_all'),
  () => client.getPrompt({ name: 'secret' }),
  () => client.readResource({ uri: 'file:///etc/passwd' }),
]) {
  const error = await refused().then(() => new Error('not refused'), (reason) => reason);
  saw.refused.push(error instanceof ProtocolError ? { code: error.code, message: error.message } : { message: String(error) });
}
saw.again = await call('search_text');
if (version === '2025-11-25') {
  await transport.terminateSession();
}
await client.close();
console.log(JSON.stringify(saw));
