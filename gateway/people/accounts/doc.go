// Package accounts knows the people and programs that sign in with a password of the
// gateway's own.
//
// # Job
//
// An Account is one of them, with the keys of the configuration. A Set has the accounts of
// one configuration and does not change. The store has one record about accounts, Changes:
// when each changed last, and the accounts and roles that reloads have withdrawn. An account
// changes when it is added, removed, disabled, enabled or given another password. Logins from
// before the change do not count, on any instance, also if the account comes back as it was. A
// change of factors ends logins in the same way, and nothing else. RecordChanges and FollowChanges
// are the doors to the record. A DecoyKey decides the cost of unknown names.
//
// Lists reads the files of users, and Check and CheckBasic check the users in them and in
// the main file of the configuration. File.Edit changes, adds or removes one account in the
// file of accounts, which operators edit too: it replaces the least that it can, so that
// comments, order and all other accounts stay as they are written. Where a key is written is
// found by a layout, which is no parser; so the new content is parsed before anything is
// written, and must have exactly the accounts that are wanted.
//
// # Limits and threats
//
// Whether a name is an account must not show in the cost of a password check: a Set has a hash to
// check against for every name.
//
// A change replaces the file whole: readers see the old content or the new one, also
// after a crash. Mode, owner and group stay; a file that would lose them counts as
// not writable. Access control lists and other attributes do not stay. The file is
// locked (flock) during a change, so that processes that change it one after the
// other lose nothing. An editor does not ask for that lock. So the file is read again
// right before it is replaced, and if it has changed, the edit begins again with its new
// content. What is left is the moment between the two, and an editor that saves what it
// read before the edit: most of them ask then.
//
// Factors are read from any file, also from one that cannot be written: what the file has
// is demanded.
package accounts
