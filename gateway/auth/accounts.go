package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"sync/atomic"
	"time"

	"authgate/gateway/password"
	"authgate/policy"
)

// Account is a person or program that can sign in with a password. The accounts
// of an Accounts are shared and must not be changed.
type Account struct {
	// Username is the name for signing in. It is case-sensitive, and as the
	// configuration writes it.
	Username string
	// Name is the display name, Email the email address. Empty means unknown.
	Name, Email string
	Roles       []string
	// Disabled accounts cannot sign in.
	Disabled     bool
	PasswordHash password.Hash

	version string
	epoch   time.Time // see UpdateEpochs
}

// Version returns a fingerprint of the user name and the stored password hash. A
// login records it, so a changed password ends the login. It is empty for an
// account that is not from an Accounts.
func (a *Account) Version() string { return a.version }

// Epoch returns the time since which the account is unchanged. It is zero until
// Accounts.UpdateEpochs is called.
func (a *Account) Epoch() time.Time { return a.epoch }

// Accounts is an immutable set of accounts. A reload makes a new set. A nil
// Accounts is an empty set.
type Accounts struct {
	byName map[string]*Account // by policy.NormalName
	decoys decoys
	epochs atomic.Pointer[[]byte] // the record in the store that agrees with the accounts; nil: unknown
	known  bool                   // the accounts have their epochs
	// ended is when accounts ended here that the record in the store may still have; nil:
	// the record agrees with the accounts.
	ended epochs
}

// NewAccounts returns a set of users. It keeps the slice, which must not be used
// any more. The user names must not be empty, and must differ in more than their
// normalization. Package config checks this. key decides what unknown names cost.
func NewAccounts(users []Account, key *DecoyKey) *Accounts {
	a := &Accounts{byName: make(map[string]*Account, len(users)), decoys: newDecoys(key, users)}
	for i := range users {
		user := &users[i]
		user.version = version(user.Username, user.PasswordHash)
		a.byName[policy.NormalName(user.Username)] = user
	}
	return a
}

func version(username string, hash password.Hash) string {
	sum := sha256.Sum256([]byte(username + "\x00" + hash.Encoded()))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Lookup returns the account with that user name, in any normalization. It returns
// false if there is none or if it is disabled.
func (a *Accounts) Lookup(username string) (*Account, bool) {
	if a == nil {
		return nil, false
	}
	account, ok := a.byName[policy.NormalName(username)]
	if !ok || account.Disabled {
		return nil, false
	}
	return account, true
}

// All yields the accounts that are not disabled, by user name, in no order.
func (a *Accounts) All() iter.Seq2[string, *Account] {
	return func(yield func(string, *Account) bool) {
		if a == nil {
			return
		}
		for _, account := range a.byName {
			if !account.Disabled && !yield(account.Username, account) {
				return
			}
		}
	}
}

// Len returns the number of accounts, including disabled ones.
func (a *Accounts) Len() int {
	if a == nil {
		return 0
	}
	return len(a.byName)
}

// target returns the account that may sign in as username, or nil. It also
// returns the hash that the password must be checked against in either case, so
// that the time of the check tells nothing about the account. A disabled account
// keeps its cost. An unknown name gets the cost of one of the accounts.
func (a *Accounts) target(username string) (*Account, password.Hash) {
	if a.Len() == 0 {
		return nil, password.Unmatched()
	}
	username = policy.NormalName(username)
	account, ok := a.byName[username]
	switch {
	case !ok:
		return nil, a.decoys.of(username)
	case account.Disabled:
		return nil, account.PasswordHash
	}
	return account, account.PasswordHash
}

// Identity returns the account's identity for policies and upstreams. The
// credential that mechanism verified belongs to the login sid and ends at expires.
func (a *Account) Identity(mechanism policy.Mechanism, sid string, expires time.Time) *policy.Identity {
	return &policy.Identity{
		Username:  a.Username,
		Subject:   policy.LocalProvider + ":" + a.Username,
		Name:      a.Name,
		Email:     a.Email,
		Roles:     a.Roles,
		Mechanism: mechanism,
		Provider:  policy.LocalProvider,
		Login:     sid,
		Expires:   expires,
	}
}
