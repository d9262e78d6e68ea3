// Package proofs checks the proofs of users beside a password, and keeps their state from one
// request to the next.
//
// Package factors decides whether a code or an answer is right. This package sees to it that each
// counts once, on all instances. It takes the record of a ceremony out of the store before it looks
// at the answer. It stores the step of a TOTP code and the counter of a passkey by an update that
// compares, and removes a recovery code from the file of accounts. It does so before it says that
// the proof is good.
//
// # Keys in the store
//
//	ceremony:HASH         a ceremony of a passkey, by its challenge; for factors.ChallengeLife
//	signin-step:HASH      a sign-in whose password was right, by its secret; for as long
//	totp-pending:HASH     a TOTP secret to confirm, encrypted, by the account; for as long
//	totp-step:HASH        the last used step of a TOTP secret
//	totp-wrong:HASH       how many codes of an account with TOTP were wrong in a row, until a
//	                      running gateway sees that it has another secret
//	totp-warning:HASH     that its codes had stopped to count; for 30 days
//	passkey-counter:HASH  the last signature counter of a passkey that counts, until a running
//	                      gateway sees that no account has the passkey any more
//
// # Limits and threats
//
// If the store is lost, all factors remain. Counters are then those of the enrolment, TOTP
// steps those of the confirmation, no code was wrong, and used recovery codes stay used: they are gone from the
// file. A TOTP code that was used in the last minute could then be used again.
//
// TOTP secrets are encrypted; see Key. If the key is lost, accounts have a factor that
// no code fits. A password alone does not open them; a passkey or a recovery code does.
package proofs
