// Package factors knows how users prove more than a password: with one-time codes
// (TOTP, RFC 6238), passkeys (WebAuthn Level 3) and recovery codes.
//
// # Job
//
// A Set has the factors of one account. It is kept beside the password hash, in the file of
// accounts: passkeys by their public keys, the TOTP secret encrypted, recovery codes hashed. The
// package decides whether a code or an answer of an authenticator is right. It does no I/O. The
// caller keeps the state of the rules from one request to the next:
//
//   - a Ceremony between the options for a browser and its answer, for ChallengeLife at
//     most. It is stored under its Key and taken out, not read, before the answer is
//     checked: so a challenge serves once.
//   - the last used step of each account's TOTP, and the counter of each passkey. They are
//     stored before the login, by an update that compares: so of two equal codes or
//     answers at once, one wins.
//
// A sign-in with a password and a code:
//
//	step, err := account.Factors.TOTP.Check(box, account.Username, code, now, lastStep)
//	// store step if it is above what is stored, then:
//	login.AMR = factors.AMR(factors.Password, factors.OTP)
//
// or with a recovery code, which ends with its use:
//
//	rest, ok := account.Factors.Spend(account.Username, code)
//	// write rest to the file of accounts, then:
//	login.AMR = factors.AMR(factors.Password, factors.Multi)
//
// A sign-in with a passkey:
//
//	ceremony, err := site.BeginSignIn() // or, after a right password:
//	ceremony, err := site.BeginSecondFactor(account.Username, account.Factors.Passkeys)
//	// store ceremony.Record under ceremony.Key for ChallengeLife; answer with ceremony.Options
//
//	key, err := factors.CeremonyKey(answer)
//	// take the record out of the store, then:
//	assertion, err := site.FinishSignIn(record, answer, lookup)
//	// store assertion.Counter if it rises above what is stored, then:
//	login.AMR = assertion.AMR()
//
// # Limits and threats
//
// A passkey is bound to the RP ID and to one origin, so a page at another address gets no
// answer that counts. A code can be typed at the wrong place; a passkey cannot.
//
// JSON is read so that no two parsers can understand it differently: names of members are
// exact, and no two members of an object have names that differ only in case.
//
// A passkey proves two factors by itself only if its authenticator verified the user, now
// and when the passkey was added. A person who finds an authenticator without a PIN
// could set one; such a PIN does not verify the user.
//
// The gateway trusts no makers of authenticators. An attestation that names one cannot be
// verified, and is refused. It is not asked for.
package factors
