// Package audit records events of credentials and accounts: sign-ins, refusals, changes. Each goes
// through one Recorder, and is one line of the log. With a file, it is a line of that before: the
// lines of the file form a chain, which a Verifier checks.
//
// # Limits and threats
//
// An event holds no secret, and no text that a client chooses without a bound; its callers see to
// that. The Recorder escapes the characters on which a terminal could act, and leaves out fields
// without a value.
//
// Without the key, no one can change, remove, move or add a line of the file unseen, but lines at its
// end can be removed: a line that left the machine shows that. Who reads the key can write another
// chain. The file survives a process that is killed, and not a loss of power: nothing is synced. A process
// may be killed while it writes a line, and the file then compressed or moved to another folder before
// the next start. The verifier then finds that a line is missing, or that there are two with its number.
package audit
