package accounts

import (
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authgate/gateway/people/factors"
	"authgate/gateway/people/password"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Account is a person or program that can sign in with a password. The keys are those of
// accounts.users. The accounts of a Set are shared and must not be changed.
type Account struct {
	// Username is the name for signing in. It is case-sensitive, and as the
	// configuration writes it.
	Username string `yaml:"username"`
	// PasswordHash is an argon2id PHC string or bcrypt. Only an account of the file can be
	// without one: no password signs in to it.
	PasswordHash strictyaml.Secret `yaml:"password_hash"`
	Hash         password.Hash     `yaml:"-"` // PasswordHash, parsed
	// Name is the display name, Email the email address. Empty means unknown.
	Name  string `yaml:"name"`
	Email string `yaml:"email"`
	// Until is when the account ends: then it is as if disabled. Zero, and the year 9999: never.
	Until        time.Time            `yaml:"until"`
	WrittenRoles []WrittenRole        `yaml:"roles"` // as they are read, until Settle
	Roles        []string             `yaml:"-"`     // also those that have ended; no entry is empty
	RoleEnds     map[string]time.Time `yaml:"-"`     // as Until, for roles that end
	// Disabled accounts cannot sign in.
	Disabled bool `yaml:"disabled"`
	// ID tells an account that File.Edit has added from an earlier one of the same name. It is
	// empty for others.
	ID string `yaml:"-"`
	// Factors are those of the account beside its password. Only an account of the file can have
	// some: in the main file their keys are unknown.
	Factors factors.Set `yaml:"-"`

	version string
	proof   string    // see LoginVersion
	changed time.Time // see RecordChanges
	proven  time.Time // since when it has the LoginVersion; set only if that is not Version
	now     func() time.Time
}

// Version returns a fingerprint of the user name, the stored password hash and the ID. Logins,
// grants and tokens of the account record it, so a changed password ends them, and so does the end
// of the account: a later namesake has another ID. It is empty for an account that is not from a
// Set.
func (a *Account) Version() string { return a.version }

// LoginVersion is Version for logins. It comes from the factors too: a login ends when one
// of them is added, removed or replaced. It does not come from recovery codes, which a
// sign-in uses up.
func (a *Account) LoginVersion() string { return a.proof }

// LoginChanged returns since when the account has its LoginVersion, see Changed.
func (a *Account) LoginChanged() time.Time {
	if a.proof == a.version {
		return a.changed
	}
	return a.proven
}

// HasPassword reports whether there is a password that signs in to the account.
func (a *Account) HasPassword() bool { return a.Hash.Encoded() != "" }

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
	now    func() time.Time // by which accounts and roles end
	ends   []End            // in order
	// recorded is the record of RecordChanges. agreed is that of the last Agree, nil if there
	// was none.
	recorded []byte
	agreed   atomic.Pointer[[]byte]
	// The times of the accounts are unknown at first. Without the store they are known here alone, and
	// ended is not nil. As a rule, they are recorded.
	hasTimes bool // it is known when the accounts changed last
	// ended is when accounts ended here that the record in the store may still have; nil:
	// the record agrees with the accounts.
	ended times
}

// New returns a set of users. It keeps the slice, which must not be used
// any more. The user names must not be empty, and must differ in more than their
// normalization. Package config checks this. key decides the cost of unknown names. Accounts and
// roles end by the clock now.
func New(users []Account, key *DecoyKey, now func() time.Time) *Set {
	a := &Set{
		byName: make(map[string]*Account, len(users)), decoys: newDecoys(key, users), now: now, ends: endsOf(users),
	}
	for i := range users {
		user := &users[i]
		user.now = now
		user.version = version(user)
		user.proof = user.version
		if user.Factors.Any() {
			user.proof = fingerprintText(user.version + "\x00" + factorsVersion(user.Factors))
		}
		a.byName[policy.NormalName(user.Username)] = user
	}
	return a
}

// version returns the Version of an account.
func version(a *Account) string {
	text := a.Username + "\x00" + a.Hash.Encoded()
	if a.ID != "" {
		text += "\x00" + a.ID
	}
	return fingerprintText(text)
}

// factorsVersion returns a fingerprint of the factors whose change ends logins.
func factorsVersion(f factors.Set) string {
	var keys []string
	for _, passkey := range f.Passkeys {
		keys = append(keys, passkey.ID+"\x00"+passkey.PublicKey)
	}
	slices.Sort(keys)
	if f.TOTP != nil {
		keys = append(keys, f.TOTP.Secret)
	}
	return strings.Join(keys, "\x00\x00")
}

func fingerprintText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// off reports whether the account is disabled or has ended.
func (a *Account) off() bool { return a.Disabled || !a.Until.IsZero() && a.Ended(a.now()) }

// Lookup returns the account with that user name, in any normalization. It returns
// false if there is none, or if it is disabled or has ended.
func (a *Set) Lookup(username string) (*Account, bool) {
	account, ok := a.Find(username)
	if !ok || account.off() {
		return nil, false
	}
	return account, true
}

// Find is Lookup for any account, disabled and ended ones too.
func (a *Set) Find(username string) (*Account, bool) {
	if a == nil {
		return nil, false
	}
	account, ok := a.byName[policy.NormalName(username)]
	return account, ok
}

// All yields the accounts that are neither disabled nor have ended, by user name, in no order.
func (a *Set) All() iter.Seq2[string, *Account] {
	return func(yield func(string, *Account) bool) {
		if a == nil {
			return
		}
		for _, account := range a.byName {
			if !account.off() && !yield(account.Username, account) {
				return
			}
		}
	}
}

// Everyone yields all accounts, disabled and ended ones too, in no order.
func (a *Set) Everyone() iter.Seq[*Account] {
	return func(yield func(*Account) bool) {
		if a == nil {
			return
		}
		for _, account := range a.byName {
			if !yield(account) {
				return
			}
		}
	}
}

// Len returns the number of accounts, including disabled and ended ones.
func (a *Set) Len() int {
	if a == nil {
		return 0
	}
	return len(a.byName)
}

// Target returns the account that may sign in as username, or nil. It also
// returns the hash that the password must be checked against in either case, so
// that the time of the check tells nothing about the account. A disabled or ended account
// keeps its cost. An unknown name, and an account without a password, get the cost of
// one of the accounts.
func (a *Set) Target(username string) (*Account, password.Hash) {
	if a.Len() == 0 {
		return nil, password.Unmatched()
	}
	username = policy.NormalName(username)
	account, ok := a.byName[username]
	switch {
	case !ok, !account.HasPassword():
		return nil, a.decoys.of(username)
	case account.off():
		return nil, account.Hash
	}
	return account, account.Hash
}

// Identity returns the account's identity for policies and upstreams, with the roles that have not ended.
// The account is from a Set, or one that At has returned. The credential that mechanism verified
// belongs to the login sid and ends at expires.
func (a *Account) Identity(mechanism policy.Mechanism, sid string, expires time.Time) *policy.Identity {
	roles, ends := a.Roles, policy.Ends{}
	if !a.Until.IsZero() || a.RoleEnds != nil {
		roles, ends = a.Current(a.now())
	}
	return &policy.Identity{
		Username:  a.Username,
		Subject:   policy.LocalProvider + ":" + a.Username,
		Name:      a.Name,
		Email:     a.Email,
		Roles:     roles,
		Mechanism: mechanism,
		Provider:  policy.LocalProvider,
		Login:     sid,
		Expires:   expires,
		Ends:      ends,
	}
}
