// Package apitokens keeps the tokens that users make for programs that cannot sign in.
//
// # Job
//
// A token belongs to a user, a local account or somebody at a provider, and to no login.
// It outlives logins, and ends with its owner: when the account changes, or when the
// provider has not spoken of the user for too long. It has the owner's roles, reduced to
// those that it was made with.
//
// Set makes, lists, finds and revokes tokens. Bearers and Passwords are the mechanisms
// (auth.Authenticator) by which requests present them. They come before the mechanisms for
// other credentials: a token names its kind, so that no other mechanism sees it.
//
// # Limits
//
// The store decides, as for logins; see package login. The list of an owner's tokens only
// finds them, and makes none valid.
//
// # Threats
//
// A stolen copy of the store opens nothing: it has hashes of tokens. A token that is not
// whole costs no look at the store. The time of the last use is written only over an
// unchanged record, so that a use brings no revoked token back.
package apitokens
