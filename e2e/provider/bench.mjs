// oidc-provider for the benchmark of the token endpoint: one client, which gets tokens of its
// own, asks about them, and renews those of a user. Everything is kept in memory. The argument is the port.
import { generateKeyPairSync } from 'node:crypto';

import { Provider } from 'oidc-provider';

console.warn = () => {}; // about what serves a benchmark and nothing else

// ID tokens cost what the gateway's do, whose generated key has this length.
const key = generateKeyPairSync('rsa', { modulusLength: 3072 }).privateKey.export({ format: 'jwk' });
const [port] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'program', client_secret: 'the secret of a program that asks often',
    grant_types: ['client_credentials', 'authorization_code', 'refresh_token'],
    redirect_uris: ['https://program.example.net/'], response_types: ['code'], token_endpoint_auth_method: 'client_secret_post',
  }],
  jwks: { keys: [{ ...key, alg: 'RS256', use: 'sig' }] },
  features: {
    clientCredentials: { enabled: true }, devInteractions: { enabled: false }, introspection: { enabled: true },
  },
  rotateRefreshToken: true,
  ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 86400, IdToken: 600, RefreshToken: 86400 },
});

// mint returns a refresh token, as if a user had signed in.
async function mint() {
  const scope = 'openid offline_access';
  const grant = new provider.Grant({ accountId: 'alice', clientId: 'program' });
  grant.addOIDCScope(scope);
  const client = await provider.Client.find('program');
  return new provider.RefreshToken({
    accountId: 'alice', client, grantId: await grant.save(), scope, gty: 'authorization_code', claims: {},
  }).save();
}

provider.use(async (ctx, next) => {
  if (ctx.path === '/mint') ctx.body = await mint();
  else await next();
});
provider.listen(port, '127.0.0.1');
