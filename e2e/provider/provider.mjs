// Certified OpenID providers for the whole-system tests: oidc-provider with its
// own pages. One process holds any number of them, each on its own loopback
// port. The tests control them over HTTP:
//
//   POST /start              a new provider: {port, ...options}
//   POST /VERB/PORT          one of the verbs of OpenIDProvider, with its argument as JSON
//
// The first line on standard output is the address of this control. The process
// ends when its standard input does, and so with the tests.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';

import { Provider, errors } from 'oidc-provider';
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js';

// oidc-provider warns about what this file does on purpose.
console.warn = () => {};

const keyTypes = {
  RS256: ['rsa', { modulusLength: 2048 }],
  PS256: ['rsa', { modulusLength: 2048 }],
  ES256: ['ec', { namedCurve: 'P-256' }],
  EdDSA: ['ed25519', {}],
};

function newKey(alg) {
  const { privateKey } = generateKeyPairSync(...keyTypes[alg]);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

// post makes a back-channel call. It trusts the CA of the gateway and allows
// loopback, which the fetch of oidc-provider does not.
function post(url, { headers, body, signal }, ca) {
  return new Promise((resolve, reject) => {
    const call = https.request(url, { method: 'POST', headers: Object.fromEntries(headers), signal, ca }, (answer) => {
      answer.resume().on('end', () => resolve(new Response(null, { status: answer.statusCode })));
    });
    call.on('error', reject).end(String(body));
  });
}

// OpenIDProvider is one provider and its state. The tests call its verbs, which
// are methods; the result is the answer.
class OpenIDProvider {
  static verbs = ['up', 'down', 'hold', 'rotate', 'client', 'account', 'revoke', 'state'];

  accounts = new Map([
    ['alice', { preferred_username: 'alice.example', name: 'Alice Example', email: 'alice@example.org', email_verified: true, roles: ['user', 'admin'] }],
    ['bob', { preferred_username: 'bob.example', name: 'Bob Example', email: 'bob@example.org', email_verified: false, roles: ['user'] }],
  ]);

  clients = new Map(); // by client_id: metadata of OpenID Connect Registration 1.0
  authorities = new Map(); // by back-channel endpoint: the file with the CA of its certificate
  records = createMemoryAdapter(); // sessions, grants and tokens; they survive down and up
  grants = new Map(); // by identifier, live or not: account and sid
  requests = {}; // counts by method and path
  logoutTokens = []; // sent, oldest first

  constructor({ port, alg = 'ES256', accessTokenLifetime = 3600, rolesIn = ['id_token', 'userinfo'], resources = {} }) {
    Object.assign(this, { port, alg, accessTokenLifetime, rolesIn, resources });
    this.issuer = `http://127.0.0.1:${port}`;
    this.rotate();
    this.server = http.createServer((request, response) => this.serve(request, response));
  }

  serve(request, response) {
    const what = `${request.method} ${request.url.split('?')[0]}`;
    this.requests[what] = (this.requests[what] ?? 0) + 1;
    if (!this.holding) {
      this.handle(request, response);
    }
  }

  // up listens, or fails if the port is in use.
  async up() {
    await once(this.server.listen(this.port, '127.0.0.1'), 'listening');
    return this.issuer;
  }

  // down closes all connections and accepts no new one.
  down() {
    return new Promise((resolve) => {
      this.server.close(resolve);
      this.server.closeAllConnections();
    });
  }

  // hold leaves requests without an answer until hold(false).
  hold(on) {
    this.holding = on;
  }

  // rotate replaces the signing key, also in the published keys.
  rotate() {
    this.key = newKey(this.alg);
    this.build();
  }

  // client registers or changes a client. ca is a file with the CA of its
  // back-channel endpoint.
  client({ ca, ...metadata }) {
    this.clients.set(metadata.client_id, metadata);
    this.authorities.set(metadata.backchannel_logout_uri, ca);
  }

  // account changes claims of a user.
  account({ user, claims }) {
    Object.assign(this.accounts.get(user), claims);
  }

  // revoke ends all grants of a user, as an administrator does.
  async revoke(name) {
    for (const [id, { account }] of this.grants) {
      if (account === name) {
        await (await this.provider.Grant.find(id))?.destroy();
      }
    }
  }

  // state returns requests, logout tokens and live grants.
  async state() {
    const live = [];
    for (const [id, grant] of this.grants) {
      if (await this.provider.Grant.find(id)) live.push(grant);
    }
    return { requests: this.requests, logoutTokens: this.logoutTokens, grants: live };
  }

  build() {
    this.provider = new Provider(this.issuer, this.configuration());
    this.handle = this.provider.callback();
    this.provider.on('grant.success', ({ oidc: { entities } }) => {
      const source = entities.AuthorizationCode ?? entities.RefreshToken;
      this.grants.set(source.grantId, { account: source.accountId, sid: source.sid });
    });
    this.provider.on('server_error', (_, error) => console.error(error));
    this.provider.on('backchannel.error', (_, error) => console.error(error));
  }

  configuration() {
    return {
      adapter: (model) => (model === 'Client' ? { find: (id) => this.clients.get(id) } : this.records(model)),
      jwks: { keys: [this.key] },
      cookies: { keys: ['of the tests'] },
      claims: {
        openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'], roles: ['roles'],
      },
      conformIdTokenClaims: false, // the claims of a scope are in the ID token too
      findAccount: (_, accountId) => (!this.accounts.has(accountId) ? undefined : {
        accountId,
        claims: (use) => {
          const { roles, ...claims } = this.accounts.get(accountId);
          return this.rolesIn.includes(use) ? { ...claims, roles } : claims;
        },
      }),
      clientDefaults: { grant_types: ['authorization_code', 'refresh_token'], id_token_signed_response_alg: this.alg },
      pkce: { required: () => true },
      rotateRefreshToken: true, // a used one that comes again ends its grant
      ttl: {
        AccessToken: (_, token) => token.resourceServer?.accessTokenTTL ?? this.accessTokenLifetime,
        Grant: 86400, IdToken: 3600, Interaction: 3600, RefreshToken: 86400, Session: 86400,
      },
      extraTokenClaims: (_, token) => {
        const { roles, preferred_username } = this.accounts.get(token.accountId) ?? {};
        return roles && { roles, preferred_username };
      },
      features: {
        devInteractions: { enabled: true },
        backchannelLogout: { enabled: true },
        introspection: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_, resource) => {
            if (!Object.hasOwn(this.resources, resource)) throw new errors.InvalidTarget();
            return { scope: 'read write', audience: resource, accessTokenTTL: 3600, accessTokenFormat: this.resources[resource] };
          },
        },
      },
      fetch: (url, options) => {
        this.logoutTokens.push(new URLSearchParams(options.body).get('logout_token'));
        return post(url, options, readFileSync(this.authorities.get(String(url))));
      },
    };
  }
}

const providers = new Map(); // by port

async function control(path, argument) {
  const [, verb, port] = path.split('/');
  if (verb === 'start') {
    const provider = new OpenIDProvider(argument);
    providers.set(String(argument.port), provider);
    return provider.up();
  }
  if (!OpenIDProvider.verbs.includes(verb)) {
    throw new Error(`no verb ${verb}`);
  }
  return providers.get(port)[verb](argument);
}

const server = http.createServer(async (request, response) => {
  try {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    response.end(JSON.stringify(await control(request.url, body && JSON.parse(body))));
  } catch (error) {
    response.writeHead(500).end(error.stack);
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.resume().on('end', () => process.exit());
