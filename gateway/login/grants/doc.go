// Package grants keeps the access that users lend to OAuth clients.
//
// # Job
//
// A user who consents gives a client a code (RFC 6749, section 4.1) or approves its
// device (RFC 8628). Of either, one grant is made: a record that is lent by the user's
// login. Its refresh tokens rotate, and its access tokens (RFC 9068) open one resource.
// All of these are worth nothing without the grant, the login and the consent. So a logout, a
// disabled account, a withdrawn consent and a replay each end them by one write.
//
// Clients that act for themselves get access tokens without a login.
//
// A login lends a grant. The record of the grant names its lender: the login, its user and the consent.
// A liveLender is that lender as the store has it now; login.Holders finds the user behind a login.
//
// # Limits
//
// The package does not know who a client is and speaks no HTTP. The functions that
// redeem something take a check from the caller, which compares the client, the redirect
// URI and the proof of the code. A check that refuses consumes nothing.
//
// # Threats
//
// A stolen copy of the store opens nothing: codes, refresh tokens and device codes are
// stored as hashes. A code that is used twice ends its grant, and so does a refresh token
// that is used again after the leeway: somebody else has it too. An access token never
// has a role that its owner does not have at the time of the request, and opens no
// resource but its own.
package grants
