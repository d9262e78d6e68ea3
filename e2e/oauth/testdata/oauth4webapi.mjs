// oauth4webapi reads each answer of the gateway to the letter of its RFC.
import assert from 'node:assert/strict';

import * as oauth from 'oauth4webapi';

import { base, more, redirectURI, visit } from './relying.mjs';

const [secret] = more;
const resource = `${base}/api`;
const shop = { client_id: 'shop' };

// The resource names its authorization server (RFC 9728), which describes itself in two ways.
const described = await oauth.processResourceDiscoveryResponse(new URL(resource),
  await oauth.resourceDiscoveryRequest(new URL(resource)));
assert.deepEqual(described.authorization_servers, [base]);
const issuer = new URL(described.authorization_servers[0]);
const servers = [];
for (const algorithm of ['oauth2', 'oidc']) {
  servers.push(await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm })));
}
assert.deepEqual(servers[0], servers[1]);
const as = servers[1];
assert.equal(as.authorization_response_iss_parameter_supported, true);

// authorize returns the answer to an authorization request (RFC 9207).
async function authorize(parameters) {
  const verifier = oauth.generateRandomCodeVerifier();
  const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()];
  const address = new URL(as.authorization_endpoint);
  address.search = new URLSearchParams({
    client_id: shop.client_id, redirect_uri: redirectURI, response_type: 'code', state, nonce, resource,
    scope: 'openid email', code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
    ...parameters,
  });
  return { answer: await visit(address), verifier, state, nonce };
}

const { answer, verifier, state, nonce } = await authorize({});
const checked = oauth.validateAuthResponse(as, shop, answer, state);
const mixedUp = new URL(answer);
mixedUp.searchParams.set('iss', 'https://elsewhere.example');
assert.throws(() => oauth.validateAuthResponse(as, shop, mixedUp, state), /unexpected "iss"/);

const basic = oauth.ClientSecretBasic(secret);
const response = await oauth.authorizationCodeGrantRequest(as, shop, basic, checked, redirectURI, verifier);
assert.match(response.headers.get('cache-control'), /no-store/);
const tokens = await oauth.processAuthorizationCodeResponse(as, shop, response, {
  expectedNonce: nonce, requireIdToken: true,
});
await oauth.validateApplicationLevelSignature(as, response);
const { sub } = oauth.getValidatedIdTokenClaims(tokens);
assert.equal(sub, 'alice');

// The access token is one of RFC 9068, for the resource alone.
const api = new Request(`${resource}/strict`, { headers: { authorization: `Bearer ${tokens.access_token}` } });
const claims = await oauth.validateJwtAccessToken(as, api, resource);
assert.equal(claims.client_id, 'shop');
await assert.rejects(oauth.validateJwtAccessToken(as, api, `${base}/other`));
assert.equal((await oauth.protectedResourceRequest(tokens.access_token, 'GET', new URL(api.url))).status, 200);

const user = await oauth.processUserInfoResponse(as, shop, sub, await oauth.userInfoRequest(as, shop, tokens.access_token));
assert.deepEqual(user, { sub: 'alice', email: 'alice@example.org', email_verified: true });
const told = await oauth.processIntrospectionResponse(as, shop,
  await oauth.introspectionRequest(as, shop, basic, tokens.access_token));
assert.deepEqual([told.active, told.aud, told.jti], [true, resource, claims.jti]);
const refreshed = await oauth.processRefreshTokenResponse(as, shop,
  await oauth.refreshTokenGrantRequest(as, shop, basic, tokens.refresh_token));
assert.notEqual(refreshed.refresh_token, tokens.refresh_token);

// A code serves once: the second use ends what came of it.
const again = await oauth.authorizationCodeGrantRequest(as, shop, basic, checked, redirectURI, verifier);
await assert.rejects(oauth.processAuthorizationCodeResponse(as, shop, again), (error) => error.error === 'invalid_grant');
const ended = await oauth.processIntrospectionResponse(as, shop,
  await oauth.introspectionRequest(as, shop, basic, refreshed.access_token));
assert.deepEqual(ended, { active: false });

// Requests that the gateway refuses come back with iss and state too.
const refused = await authorize({ resource: 'https://elsewhere.example/' });
assert.throws(() => oauth.validateAuthResponse(as, shop, refused.answer, refused.state),
  (error) => error.error === 'invalid_target');

await oauth.processRevocationResponse(await oauth.revocationRequest(as, shop, basic, 'unknown'));
process.exit(); // although the client listens
