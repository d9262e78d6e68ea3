// oidc-provider for the benchmark of the token endpoint: one client, which gets tokens of its
// own and asks about them. Everything is kept in memory. The argument is the port.
import { Provider } from 'oidc-provider';

console.warn = () => {}; // about what serves a benchmark and nothing else

const [port] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'program', client_secret: 'the secret of a program that asks often', grant_types: ['client_credentials'],
    redirect_uris: [], response_types: [], token_endpoint_auth_method: 'client_secret_post',
  }],
  features: {
    clientCredentials: { enabled: true }, devInteractions: { enabled: false }, introspection: { enabled: true },
  },
  ttl: { ClientCredentials: 600 },
});
provider.listen(port, '127.0.0.1');
