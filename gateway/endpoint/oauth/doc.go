// Package oauth is the gateway as an OAuth 2.1 authorization server and as an OpenID
// provider: applications that speak these protocols use the gateway's sign-in.
//
// # Job
//
// The files follow the protocol: authorize and consent (RFC 6749, section 3.1, and RFC
// 7636), token (section 3.2), device (RFC 8628), revoke (RFC 7009), introspect (RFC 7662),
// register (RFC 7591), userinfo and logout (OpenID Connect), metadata (RFC 8414, RFC 9728).
// Each returns rows for the table of own endpoints. Package clients knows who is a client,
// and package grants keeps the grants of users: this package speaks with both.
//
// # Errors
//
// A refusal is an error for the client: in the JSON of RFC 6749, section 5.2, or by a redirect
// (section 4.1.2.1). An error about the client itself, or about where it wants the answer, is a
// page for the user: nothing is sent to an address that is not registered. Any other error takes
// the way of all errors, so a store that does not answer is 503.
//
// # Threats
//
// A code is bound to its client, its redirect URI and a secret of the client (PKCE), and
// serves once. The answer names its issuer (RFC 9207). The consent page cannot be framed,
// and its form is bound to the session and to the request that the user saw. A token is for
// one resource. Endpoints for programs read no cookie, so any origin may call them.
package oauth
