package apitokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// Key prefixes in the store. A secret is never part of a key: its hash is.
const (
	tokenPrefix = "apitoken:"  // + hash of the token
	listPrefix  = "apitokens:" // + user name of the owner
)

const (
	// Max is the maximum number of API tokens of one account.
	Max = 100
	// useInterval is how old the stored time of the last use may become while the
	// token is used.
	useInterval = 5 * time.Minute
	// useRetry is the pause before a last use that could not be stored is
	// stored again.
	useRetry = time.Minute
)

// Errors of the operations on API tokens.
var (
	ErrUnknown = errors.New("apitokens: the account has no such API token")
	ErrTooMany = errors.New("apitokens: the account has as many API tokens as it may have")
	// ErrRoleNotHeld: a token cannot have a role that its owner does not have.
	ErrRoleNotHeld = errors.New("apitokens: the owner does not have the role")
)

// Token describes an API token to its owner.
type Token struct {
	ID, Name string
	Roles    []string // of the owner's, those that the token has
	Created  time.Time
	Expires  time.Time
	LastUsed time.Time // zero before the first use; up to five minutes too early
}

// tokenRecord is the record of a token. Its key is the hash of the token. The
// token is valid only while the record exists and its owner is the same: an account that
// has not changed, or a user of whom the provider has spoken
// recently.
type tokenRecord struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Username string    `json:"user"`    // of an account
	Version  string    `json:"version"` // of the account
	Since    time.Time `json:"since"`   // when the account had changed last
	Provider string    `json:"provider,omitempty"`
	Issuer   string    `json:"issuer,omitempty"` // of the provider
	Subject  string    `json:"sub,omitempty"`    // of a user of the provider
	Roles    []string  `json:"roles"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
	LastUsed time.Time `json:"last_used,omitzero"`
}

// entry is a token in the list of its account. The list only serves to
// find tokens: it makes none valid.
type entry struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"` // of the record
	Expires time.Time `json:"expires"`
}

// owner returns the account of the token. It reports whether the account has not
// changed since the token was made.
func (r *tokenRecord) owner(accounts *accounts.Set) (*accounts.Account, bool) {
	account, ok := accounts.Lookup(r.Username)
	return account, ok && account.Unchanged(r.Version, r.Since)
}

// rolesOf returns the roles in held, those of the owner, that the token has too.
func (r *tokenRecord) rolesOf(held []string) []string {
	roles := []string{}
	for _, role := range held {
		if slices.Contains(r.Roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

func (r *tokenRecord) token(held []string) Token {
	return Token{
		ID: r.ID, Name: r.Name, Roles: r.rolesOf(held),
		Created: r.Created, Expires: r.Expires, LastUsed: r.LastUsed,
	}
}

// Set keeps the API tokens of users. Users make them for programs
// that cannot sign in. They do not belong to a login, and so outlive it.
type Set struct {
	accounts *accounts.Set
	users    *login.Users  // nil: users of providers have none
	spoken   time.Duration // how long after the provider's last word about a user their tokens work
	store    store.Store
	now      func() time.Time          // the clock of store
	cache    record.Cache[cachedToken] // by what was presented
}

// cachedToken is a token that an earlier request looked up.
type cachedToken struct {
	presented claim
	stored    record.Stored
	basis     record.Basis // stored; nothing if the owner is a user of a provider, who is looked up each time
	record    *tokenRecord
	identity  *policy.Identity

	tried atomic.Int64 // when the last use was to be stored, in Unix nanoseconds
}

// claim is how a request presents a token. The user name is that of Basic
// credentials.
type claim struct {
	basic    bool
	username string
}

// New returns the API tokens of accounts, in a store whose clock is now; see store.ClockOf.
func New(accounts *accounts.Set, s store.Store, now func() time.Time) *Set {
	return &Set{accounts: accounts, store: s, now: now, cache: record.NewCache[cachedToken]()}
}

// Create makes a token of owner, which is shown only this once. It has the given
// roles, and never gets another one. The errors are ErrRoleNotHeld and
// ErrTooMany.
func (a *Set) Create(
	ctx context.Context, owner *Owner, name string, roles []string, lifetime time.Duration,
) (string, Token, error) {
	for _, role := range roles {
		if !slices.Contains(owner.Roles(), role) {
			return "", Token{}, fmt.Errorf("%w %q", ErrRoleNotHeld, role)
		}
	}
	token, now := newToken(), a.now()
	made := owner.record
	made.ID, made.Name, made.Roles = newID(), name, roles
	made.Created, made.Expires = now, now.Add(lifetime)
	value, err := json.Marshal(&made)
	if err != nil {
		return "", Token{}, fmt.Errorf("recording an API token: %w", err)
	}
	// The record comes first: a token that is not in the list is one that the client
	// does not get.
	key := keyOf(token)
	if err := a.store.Put(ctx, key, value, made.Expires); err != nil {
		return "", Token{}, fmt.Errorf("recording an API token: %w", err)
	}
	err = a.change(ctx, owner.list, func(entries []entry) ([]entry, error) {
		entries, err := a.withRoom(ctx, entries)
		return append(entries, entry{made.ID, key, made.Expires}), err
	})
	if err != nil {
		_ = a.store.Delete(ctx, key) // the first error is the one to return
		return "", Token{}, err
	}
	return token, made.token(owner.Roles()), nil
}

// withRoom returns the entries of tokens that may be valid. The error is
// ErrTooMany if there is no room for another one.
func (a *Set) withRoom(ctx context.Context, entries []entry) ([]entry, error) {
	now := a.now()
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !now.Before(e.Expires) })
	if len(entries) < Max {
		return entries, nil
	}
	valid := []entry{}
	for _, e := range entries {
		switch _, _, err := a.findToken(ctx, e.Key); {
		case err == nil:
			valid = append(valid, e)
		case !errors.Is(err, auth.ErrRejected):
			return nil, err
		}
	}
	if len(valid) >= Max {
		return nil, ErrTooMany
	}
	return valid, nil
}

// findToken returns a valid token and the roles of its owner. The error is ErrRejected if there is
// none under the key.
func (a *Set) findToken(ctx context.Context, key string) (*tokenRecord, []string, error) {
	raw, err := record.Find(ctx, a.store, key)
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return nil, nil, auth.ErrRejected
	}
	token, err := record.Decode[tokenRecord](raw)
	if err != nil {
		return nil, nil, err
	}
	if !a.now().Before(token.Expires) {
		return nil, nil, auth.ErrRejected
	}
	identity, err := a.holder(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	return token, identity.Roles, nil
}

// List returns the valid tokens of owner, the oldest first.
func (a *Set) List(ctx context.Context, owner *Owner) ([]Token, error) {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return nil, err
	}
	tokens := []Token{}
	for _, e := range entries {
		token, roles, err := a.findToken(ctx, e.Key)
		if errors.Is(err, auth.ErrRejected) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token.token(roles))
	}
	return tokens, nil
}

// Revoke ends a token of owner. The error is ErrUnknown if owner has no token with
// that id.
func (a *Set) Revoke(ctx context.Context, owner *Owner, id string) error {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return e.ID == id })
	if at < 0 {
		return ErrUnknown
	}
	_, err = a.store.Take(ctx, entries[at].Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("revoking an API token: %w", err)
	}
	known := err == nil
	// An entry that remains in the list after an error makes nothing valid.
	_ = a.change(ctx, owner.list, func(entries []entry) ([]entry, error) {
		return slices.DeleteFunc(entries, func(e entry) bool { return e.ID == id }), nil
	})
	if !known {
		return ErrUnknown
	}
	return nil
}

// RevokeAll ends all tokens of owner. It returns the ids of those that it has
// ended, also beside an error.
func (a *Set) RevokeAll(ctx context.Context, owner *Owner) (revoked []string, err error) {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		_, err := a.store.Take(ctx, e.Key)
		if err == nil {
			revoked = append(revoked, e.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return revoked, fmt.Errorf("revoking API tokens: %w", err)
		}
	}
	// An entry that remains in the list after an error makes nothing valid.
	_ = a.change(ctx, owner.list, func(now []entry) ([]entry, error) {
		return slices.DeleteFunc(now, func(e entry) bool { return slices.Contains(entries, e) }), nil
	})
	return revoked, nil
}

// list returns the list of that name.
func (a *Set) list(ctx context.Context, name string) ([]entry, error) {
	raw, err := record.Find(ctx, a.store, listPrefix+name)
	if err != nil || raw == nil {
		return nil, err
	}
	entries, err := record.Decode[[]entry](raw)
	if err != nil {
		return nil, err
	}
	return *entries, nil
}

// change replaces the list of that name. It calls edit again if another
// request changes the list meanwhile.
func (a *Set) change(
	ctx context.Context, name string, edit func([]entry) ([]entry, error),
) error {
	err := store.Update(ctx, a.store, listPrefix+name, func(raw []byte) (store.Edit, error) {
		entries := new([]entry)
		var err error
		if raw != nil {
			if entries, err = record.Decode[[]entry](raw); err != nil {
				return store.Edit{}, err
			}
		}
		next, err := edit(*entries)
		if err != nil {
			return store.Edit{}, err
		}
		expires := a.now() // an empty list is deleted
		for _, e := range next {
			if e.Expires.After(expires) {
				expires = e.Expires
			}
		}
		return record.Edited(next, expires)
	})
	if err != nil {
		err = fmt.Errorf("changing the list of API tokens: %w", err)
	}
	return err
}

// authenticate is alive for a request. A request counts as use.
func (a *Set) authenticate(ctx context.Context, value string, basic bool) (*policy.Identity, error) {
	cached, err := a.look(ctx, value, basic)
	if err != nil {
		return nil, err
	}
	a.touch(cached)
	return cached.identity, nil
}

// alive returns the identity that a presented token proves. value is the token, or
// the value of Basic credentials with it.
func (a *Set) alive(ctx context.Context, value string, basic bool) (*policy.Identity, error) {
	cached, err := a.look(ctx, value, basic)
	if err != nil {
		return nil, err
	}
	return cached.identity, nil
}

func (a *Set) look(ctx context.Context, value string, basic bool) (*cachedToken, error) {
	cached := a.cache.Get(value)
	if cached == nil {
		var err error
		if cached, err = readToken(value, basic); err != nil {
			return nil, err
		}
	}
	current := cached
	holds, err := cached.basis.Holds(ctx, a.store)
	if err == nil && !(holds && cached.identity.Holds(a.now())) {
		current, err = a.resolve(ctx, cached)
	}
	if err != nil {
		return nil, err
	}
	if !a.now().Before(current.record.Expires) {
		return nil, auth.Past(bad(basic, "expired"))
	}
	if current != cached {
		a.cache.Keep(value, current)
	}
	return current, nil
}

// readToken reads the token that a request presents. A token with a mistake costs no look at the
// store.
func readToken(value string, basic bool) (*cachedToken, error) {
	token, presented := value, claim{basic: basic}
	if basic {
		var err error
		if presented.username, token, err = auth.ParseBasic(value); err != nil {
			return nil, bad(basic, err.Error())
		}
	}
	if !whole(token) {
		return nil, bad(basic, "not whole: its length or its checksum is wrong")
	}
	return &cachedToken{presented: presented, stored: record.Stored{Key: keyOf(token)}}, nil
}

// resolve looks up a token and its owner.
func (a *Set) resolve(ctx context.Context, cached *cachedToken) (*cachedToken, error) {
	key, presented := cached.stored.Key, cached.presented
	raw, err := record.Find(ctx, a.store, key)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, auth.Past(bad(presented.basic, "unknown, revoked or expired"))
	}
	token, err := record.Decode[tokenRecord](raw)
	if err != nil {
		return nil, err
	}
	owner, err := a.holder(ctx, token)
	switch {
	case errors.Is(err, auth.ErrRejected):
		return nil, auth.Past(bad(presented.basic, token.gone()))
	case err != nil:
		return nil, err
	case presented.basic && !namesOwner(presented.username, owner.Username):
		return nil, bad(presented.basic, "presented with the user name of another account")
	}
	next := &cachedToken{
		presented: presented, stored: record.Stored{Key: key, Raw: raw},
		record: token, identity: owner.Reduced(token.Roles),
	}
	if token.Provider == "" {
		next.basis = record.Basis{next.stored}
	}
	next.tried.Store(cached.tried.Load())
	return next, nil
}

// namesOwner reports whether a token of owner may be a password with this user name. The token
// itself names its owner. So the name may be empty, or "__token__", as for package registries.
func namesOwner(username, owner string) bool {
	return username == "" || username == "__token__" || username == policy.NormalName(owner)
}

// touch stores the time of the request from time to time, in the background, so
// that no request waits for a disk.
func (a *Set) touch(c *cachedToken) {
	now := a.now()
	// Abs: if the clock was set back, the stored time is in the future.
	if now.Sub(c.record.LastUsed).Abs() < useInterval {
		return
	}
	tried := c.tried.Load()
	if now.Sub(time.Unix(0, tried)).Abs() < useRetry || !c.tried.CompareAndSwap(tried, now.UnixNano()) {
		return
	}
	used := *c.record
	used.LastUsed = now
	value, err := json.Marshal(&used)
	if err != nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// With Swap, a token that was revoked meanwhile stays revoked.
		_ = a.store.Swap(ctx, c.stored.Key, c.stored.Raw, value, used.Expires)
	}()
}

func bad(basic bool, reason string) error {
	detail := auth.DetailBadToken
	if basic {
		detail = auth.DetailWrongPassword
	}
	return &auth.Rejection{Detail: detail, Reason: "API token: " + reason}
}
