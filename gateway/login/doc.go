// Package login keeps the logins and everything that belongs to them.
//
// # Job
//
// A successful sign-in is a Login: one record in the store, named by its sid.
// Session identifiers, refresh tokens and access tokens are handles of a login
// and are worth nothing without its record. So a logout, a reused refresh token
// and a changed account all end a login in the same way: Logins.End deletes one
// record.
//
// Sessions and BearerTokens are mechanisms (auth.Authenticator). They are here
// and not in package auth because they look up the login on every request.
// BearerTokens also choose which tokens are of a trusted issuer, and leave them
// to package trusted. Users are the people who sign in at an identity provider;
// they keep the provider's tokens and renew them. How a browser comes from a
// provider, or to another host of the gateway, is in package journey; Attach
// gives the login a session at that host.
//
// # Limits
//
// The store decides. A mechanism remembers records only to save work, and uses them while the store
// still holds the same bytes. A store that fails is an error and never a decision.
//
// # Threats
//
// A stolen copy of the store opens nothing: session identifiers and refresh
// tokens are stored as hashes, and the tokens of providers are encrypted. A
// stolen refresh token is noticed when the second of its two holders uses it,
// and the login ends. A login records the version of its account and when it
// had changed last, so it ends when the account changes. A session is valid at
// one host, so a host whose application is hostile learns nothing that works at
// another.
package login
