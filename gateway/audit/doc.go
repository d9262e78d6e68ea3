// Package audit records events of credentials and accounts: sign-ins, refusals, changes. Each goes
// through one Recorder, and is one line of the log.
//
// # Limits and threats
//
// An event holds no secret, and no text that a client chooses without a bound; its callers see to
// that. The Recorder escapes the characters on which a terminal could act, and leaves out fields
// without a value.
package audit
