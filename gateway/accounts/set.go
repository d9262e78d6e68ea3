package accounts

import (
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"sync/atomic"
	"time"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/password"
	"authgate/policy"
)

// Account is a person or program that can sign in with a password. The keys are those of
// accounts.users. The accounts of a Set are shared and must not be changed.
type Account struct {
	// Username is the name for signing in. It is case-sensitive, and as the
	// configuration writes it.
	Username     string            `yaml:"username"`
	PasswordHash strictyaml.Secret `yaml:"password_hash"` // argon2id PHC string or bcrypt
	Hash         password.Hash     `yaml:"-"`             // PasswordHash, parsed
	// Name is the display name, Email the email address. Empty means unknown.
	Name  string   `yaml:"name"`
	Email string   `yaml:"email"`
	Roles []string `yaml:"roles"` // no entry is empty
	// Disabled accounts cannot sign in.
	Disabled bool `yaml:"disabled"`

	version string
	changed time.Time // see RecordChanges
}

// Version returns a fingerprint of the user name and the stored password hash. A
// login records it, so a changed password ends the login. It is empty for an
// account that is not from a Set.
func (a *Account) Version() string { return a.version }

// Changed returns when the account changed last. It is zero until Set.RecordChanges is
// called.
func (a *Account) Changed() time.Time { return a.changed }

// Unchanged reports whether the account has the version and the time of its last change
// that were recorded.
func (a *Account) Unchanged(version string, changed time.Time) bool {
	return a.version == version && a.changed.Equal(changed)
}

// Set is an immutable set of accounts. A reload makes a new one. A nil Set is empty.
type Set struct {
	byName map[string]*Account // by policy.NormalName
	decoys decoys
	// recorded is the record of RecordChanges. agreed are the records of the last Agree, nil
	// if there was none.
	recorded []byte
	agreed   atomic.Pointer[records]
	known    bool // it is known when the accounts changed last
	// ended is when accounts ended here that the record in the store may still have; nil:
	// the record agrees with the accounts.
	ended times
}

// New returns a set of users. It keeps the slice, which must not be used
// any more. The user names must not be empty, and must differ in more than their
// normalization. Package config checks this. key decides what unknown names cost.
func New(users []Account, key *DecoyKey) *Set {
	a := &Set{byName: make(map[string]*Account, len(users)), decoys: newDecoys(key, users)}
	for i := range users {
		user := &users[i]
		user.version = version(user.Username, user.Hash)
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
func (a *Set) Lookup(username string) (*Account, bool) {
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
func (a *Set) All() iter.Seq2[string, *Account] {
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
func (a *Set) Len() int {
	if a == nil {
		return 0
	}
	return len(a.byName)
}

// Target returns the account that may sign in as username, or nil. It also
// returns the hash that the password must be checked against in either case, so
// that the time of the check tells nothing about the account. A disabled account
// keeps its cost. An unknown name gets the cost of one of the accounts.
func (a *Set) Target(username string) (*Account, password.Hash) {
	if a.Len() == 0 {
		return nil, password.Unmatched()
	}
	username = policy.NormalName(username)
	account, ok := a.byName[username]
	switch {
	case !ok:
		return nil, a.decoys.of(username)
	case account.Disabled:
		return nil, account.Hash
	}
	return account, account.Hash
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
