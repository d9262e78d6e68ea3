// Package account has the pages of a user's own account: who is signed in, their
// logins, their password, their second factors, their API tokens, their consents
// to OAuth clients.
//
// All but /me and /csrf-token are served at the host of public_url alone. A change needs a session:
// a token must not make another one, or end a login.
package account
