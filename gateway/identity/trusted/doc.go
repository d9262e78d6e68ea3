// Package trusted verifies access tokens of other issuers that the gateway trusts.
//
// # Job
//
// [Tokens] finds the issuer that a token names. It verifies the token by the issuer's keys, or asks
// the issuer about an opaque one, and remembers the answer for a while. It is the part of
// login.BearerTokens for tokens that are not the gateway's own, and knows nothing of logins: such a
// token belongs to none. Package provider reads and checks the claims of a token.
//
// # Limits
//
// The issuer decides. A remembered answer is valid for five minutes if it came from keys, and for
// ten seconds if it came from the issuer. For that long the gateway accepts a token that was
// revoked there. An issuer that does not answer is an error and never a decision, and is not
// remembered. A token can be revoked in the gateway alone: the store keeps the revocation until the
// token expires, and the issuer is not told.
//
// # Threats
//
// A token is shown to the issuer that it names and to no other. A text that may be a secret of the
// gateway is shown to none. A flood of invalid tokens asks an issuer a bounded number of questions
// at once, one about each token, and drives no valid token out of memory. A token that is spelled
// in another way, with another signature of the same key, is the same token to a revocation.
package trusted
