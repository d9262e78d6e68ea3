// Package accounts knows the people and programs that sign in with a password of the
// gateway's own.
//
// # Job
//
// An Account is one of them, with the keys of the configuration. A Set has the accounts of
// one configuration and does not change. The store has two records about accounts: since
// when each is as it is (UpdateEpochs), and what reloads have taken from them (Withdrawals).
// So an account that changes, or comes back after it was disabled or removed, begins a new
// epoch on every instance, and logins of an older epoch do not count. A DecoyKey decides what
// unknown names cost.
//
// Lists reads the files of users, and Check and CheckBasic check the users in them and in
// the main file of the configuration. File.Edit changes one account in the file of accounts,
// which operators edit too.
//
// # Limits and threats
//
// Whether a name is an account must not show in what a password check costs: a Set has a hash
// to check against for every name.
//
// A change replaces the file whole: readers see the old content or the new one, also
// after a crash. Mode, owner and group stay; a file that would lose them counts as
// not writable. Access control lists and other attributes do not stay. The file is
// locked (flock) during a change, so that processes that change it one after the
// other lose nothing. An editor does not ask for that lock: a change that it saves
// at the same moment is lost, or overwrites this one.
package accounts
