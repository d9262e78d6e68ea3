package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"time"

	"authgate/gateway/password"
	"authgate/policy"
)

// Account is somebody who may sign in with a password. Accounts that come out
// of an Accounts are shared and must not be changed.
type Account struct {
	// Username is the login name; its case counts.
	Username string
	// Name is the display name, Email the address; empty when unknown.
	Name, Email string
	// Roles are the account's roles.
	Roles []string
	// Disabled accounts are kept and cannot sign in.
	Disabled bool
	// PasswordHash is what password.Parse reads.
	PasswordHash string

	hash    password.Hash
	version string
	epoch   time.Time // see UpdateEpochs; zero where that was not called
}

// Version is a fingerprint of the account's stored password hash. A login
// records it, so that a changed password ends the login. It is empty for an
// account that does not come from an Accounts.
func (a *Account) Version() string { return a.version }

// Epoch is the time since which the account has been what it is; zero before
// Accounts.UpdateEpochs.
func (a *Account) Epoch() time.Time { return a.epoch }

// Accounts is a set of accounts that never changes; a reload makes a new one.
// A nil Accounts is an empty set, which lets nobody in.
type Accounts struct {
	byName map[string]*Account
	// decoys holds for each account a hash that costs the same and that
	// nothing matches, those of one cost side by side.
	decoys []*password.Hash
}

// NewAccounts checks users and returns them as a set. The error tells every
// account that has no name, a name taken before, or an unusable password hash.
func NewAccounts(users []Account) (*Accounts, error) {
	a := &Accounts{byName: make(map[string]*Account, len(users))}
	byCost := make(map[string][]*password.Hash)
	var errs []error
	for i, user := range users {
		if user.Username == "" {
			errs = append(errs, fmt.Errorf("account %d: the username is empty", i+1))
			continue
		}
		if _, taken := a.byName[user.Username]; taken {
			errs = append(errs, fmt.Errorf("account %q: there are two of that username", user.Username))
			continue
		}
		hash, err := password.Parse(user.PasswordHash)
		if err != nil {
			errs = append(errs, fmt.Errorf("account %q: password hash: %w", user.Username, err))
			continue
		}
		user.Roles = slices.Clone(user.Roles)
		user.hash = hash
		user.version = version(user.Username, user.PasswordHash)
		a.byName[user.Username] = &user
		byCost[hash.Cost()] = append(byCost[hash.Cost()], &user.hash)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, cost := range slices.Sorted(maps.Keys(byCost)) {
		decoy := byCost[cost][0].Decoy()
		a.decoys = append(a.decoys, slices.Repeat([]*password.Hash{&decoy}, len(byCost[cost]))...)
	}
	return a, nil
}

func version(username, passwordHash string) string {
	sum := sha256.Sum256([]byte(username + "\x00" + passwordHash))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Lookup returns the account of that username, and false when there is none
// or it is disabled.
func (a *Accounts) Lookup(username string) (*Account, bool) {
	if a == nil {
		return nil, false
	}
	account, ok := a.byName[username]
	if !ok || account.Disabled {
		return nil, false
	}
	return account, true
}

// All yields each account that Lookup finds, by its username, in no order.
func (a *Accounts) All() iter.Seq2[string, *Account] {
	return func(yield func(string, *Account) bool) {
		if a == nil {
			return
		}
		for username, account := range a.byName {
			if !account.Disabled && !yield(username, account) {
				return
			}
		}
	}
}

// Len returns the number of accounts, disabled ones included.
func (a *Accounts) Len() int {
	if a == nil {
		return 0
	}
	return len(a.byName)
}

// target returns the account that may sign in as username, or nil, and the
// hash that a password for it has to be checked against in either case, so
// that the work tells nothing. A disabled account costs what it always cost. A
// name that does not exist costs what some account costs: which one follows
// from seed and the name alone, so that each name keeps its cost, and the
// costs are spread over unknown names as they are over the accounts.
func (a *Accounts) target(username string, seed maphash.Seed) (*Account, password.Hash) {
	if a.Len() == 0 {
		return nil, password.Unmatched()
	}
	account, ok := a.byName[username]
	switch {
	case !ok:
		// Scaled instead of modulo: when accounts come and go, few names move.
		i, _ := bits.Mul64(maphash.String(seed, username), uint64(len(a.decoys)))
		return nil, *a.decoys[i]
	case account.Disabled:
		return nil, account.hash
	}
	return account, account.hash
}

// Identity is what the account looks like to policies and upstreams when
// mechanism proved it. sid names its login, expires is when the credential
// ends.
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
