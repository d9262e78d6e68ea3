// openid-client as a relying party. It knows the issuer, and finds all else by discovery.
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';

import * as client from 'openid-client';

import { base, more, redirectURI, show, story, visit } from './relying.mjs';

const issuer = new URL(base);
const [secret, keyFile, documentAddress] = more;
const scope = 'openid profile email groups offline_access';
const alice = {
  sub: 'alice', preferred_username: 'alice', name: 'Alice Example', email: 'alice@example.org', email_verified: true,
  groups: ['user', 'admin'],
};

// discover returns a client that checks the signatures of ID tokens too.
function discover(id, metadata, authentication) {
  return client.discovery(issuer, id, metadata, authentication, { execute: [client.enableNonRepudiationChecks] });
}

// signIn returns the tokens of a user who signs in and allows it.
async function signIn(config, parameters = {}) {
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const [expectedState, expectedNonce] = [client.randomState(), client.randomNonce()];
  const back = await visit(client.buildAuthorizationUrl(config, {
    redirect_uri: redirectURI, scope, state: expectedState, nonce: expectedNonce, max_age: '3600',
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256', ...parameters,
  }));
  return client.authorizationCodeGrant(config, back, {
    pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true, maxAge: 3600,
  });
}

// call asks the API behind the gateway, and returns the status.
async function call(config, tokens) {
  try {
    return (await client.fetchProtectedResource(config, tokens.access_token, new URL(`/api/${story}`, base), 'GET')).status;
  } catch (error) {
    if (error.code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE') return error.status;
    throw error;
  }
}

const refused = (code) => (error) => error.error === code;
const unauthenticated = (error) => error.status === 401 && error.cause[0].scheme === 'basic';

// wantAlice checks what the client learns about the user.
async function wantAlice(config, tokens) {
  const claims = tokens.claims();
  for (const [name, value] of Object.entries(alice)) assert.deepEqual(claims[name], value, name);
  assert.deepEqual(await client.fetchUserInfo(config, tokens.access_token, claims.sub), alice);
  assert.equal(await call(config, tokens), 200);
}

const stories = {
  async confidential() {
    const config = await discover('shop', undefined, client.ClientSecretBasic(secret));
    const first = await signIn(config);
    await wantAlice(config, first);
    const told = await client.tokenIntrospection(config, first.access_token);
    assert.equal(told.active, true);
    assert.equal(told.client_id, 'shop');
    assert.equal(told.username, 'alice');
    const second = await client.refreshTokenGrant(config, first.refresh_token);
    await wantAlice(config, second);
    await client.tokenRevocation(config, second.access_token);
    assert.equal((await client.tokenIntrospection(config, second.access_token)).active, false);
    assert.equal(await call(config, second), 401);
    assert.equal(await call(config, first), 200);
    await client.tokenRevocation(config, second.refresh_token);
    assert.equal(await call(config, first), 401);
    await assert.rejects(client.refreshTokenGrant(config, second.refresh_token), refused('invalid_grant'));
  },

  async ending() {
    const config = await discover('shop', undefined, client.ClientSecretPost(secret));
    const tokens = await signIn(config);
    await wantAlice(config, tokens);
    const state = client.randomState();
    const back = await visit(client.buildEndSessionUrl(config, {
      id_token_hint: tokens.id_token, post_logout_redirect_uri: redirectURI, state,
    }));
    assert.equal(back.href, `${redirectURI}?state=${state}`);
    assert.equal(await call(config, tokens), 401);
    await assert.rejects(client.refreshTokenGrant(config, tokens.refresh_token), refused('invalid_grant'));
    // The user is signed out: the next client asks for the password again, or has no answer.
    const pkceCodeVerifier = client.randomPKCECodeVerifier();
    const silent = await visit(client.buildAuthorizationUrl(config, {
      redirect_uri: redirectURI, scope, prompt: 'none',
      code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
    }));
    await assert.rejects(client.authorizationCodeGrant(config, silent, { pkceCodeVerifier }), refused('login_required'));
  },

  async public() {
    const config = await client.discovery(issuer, 'phone', undefined, client.None(), {
      algorithm: 'oauth2', execute: [client.enableNonRepudiationChecks],
    });
    const tokens = await signIn(config, { resource: `${base}/api` });
    assert.equal(await call(config, tokens), 200);
    await assert.rejects(client.fetchUserInfo(config, tokens.access_token, 'bob'));
    await wantAlice(config, await client.refreshTokenGrant(config, tokens.refresh_token, { resource: `${base}/api` }));
    await assert.rejects(client.tokenIntrospection(config, tokens.access_token), unauthenticated);
    await client.tokenRevocation(config, tokens.access_token);
    assert.equal(await call(config, tokens), 401);
  },

  async registered() {
    for (const token_endpoint_auth_method of ['none', 'client_secret_basic']) {
      const config = await client.dynamicClientRegistration(issuer, {
        client_name: 'Registered', redirect_uris: [redirectURI], grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'], token_endpoint_auth_method,
      }, undefined, { execute: [client.enableNonRepudiationChecks] });
      const tokens = await signIn(config, { resource: `${base}/api` });
      await wantAlice(config, tokens);
      await wantAlice(config, await client.refreshTokenGrant(config, tokens.refresh_token));
    }
  },

  // The name of the client is the address of a document with its keys.
  async document() {
    const key = createPrivateKey(readFileSync(keyFile)).export({ format: 'der', type: 'pkcs8' });
    const config = await discover(documentAddress, { token_endpoint_auth_method: 'private_key_jwt' }, client.PrivateKeyJwt({
      key: await crypto.subtle.importKey('pkcs8', key, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']), kid: 'its-key',
    }));
    const tokens = await signIn(config, { resource: `${base}/api` });
    await wantAlice(config, tokens);
    assert.equal((await client.tokenIntrospection(config, tokens.access_token)).username, 'alice');
  },

  async credentials() {
    const config = await discover('shop', secret);
    const tokens = await client.clientCredentialsGrant(config, { resource: `${base}/api` });
    assert.equal(tokens.refresh_token, undefined);
    assert.equal(await call(config, tokens), 200);
    await assert.rejects(client.clientCredentialsGrant(config, { resource: 'https://elsewhere.example/' }),
      refused('invalid_target'));
    const wrong = await discover('shop', 'wrong');
    await assert.rejects(client.clientCredentialsGrant(wrong), unauthenticated);
  },

  async device() {
    const config = await discover('phone', undefined, client.None());
    const begun = await client.initiateDeviceAuthorization(config, { scope });
    show(begun.verification_uri_complete);
    await wantAlice(config, await client.pollDeviceAuthorizationGrant(config, begun));
  },
};

await stories[story]();
process.exit(); // although the client listens
