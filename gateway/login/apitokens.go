package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/auth"
	"authgate/gateway/record"
	"authgate/gateway/store"
	"authgate/policy"
)

const (
	// MaxAPITokens is the maximum number of API tokens of one account.
	MaxAPITokens = 100
	// apiTokenUse is how old the stored time of the last use may become while the
	// token is used.
	apiTokenUse = 5 * time.Minute
	// apiTokenRetry is the pause before a last use that could not be stored is
	// stored again.
	apiTokenRetry = time.Minute
)

// Errors of the operations on API tokens.
var (
	ErrNoAPIToken       = errors.New("login: the account has no such API token")
	ErrTooManyAPITokens = errors.New("login: the account has as many API tokens as it may have")
	// ErrRoleNotHeld: a token cannot have a role that its owner does not have.
	ErrRoleNotHeld = errors.New("login: the owner does not have the role")
)

// APIToken is what a user sees of an API token of theirs.
type APIToken struct {
	ID, Name string
	Roles    []string // of the owner's, those that the token has
	Created  time.Time
	Expires  time.Time
	LastUsed time.Time // zero before the first use; up to five minutes too early
}

// apiTokenRecord is the record of a token. Its key is the hash of the token. The
// token is valid only while the record exists and its owner is the same: an account that
// has not changed, or a user of whom the provider has spoken
// recently.
type apiTokenRecord struct {
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

// apiTokenEntry is a token in the list of its account. The list only serves to
// find tokens: it makes none valid.
type apiTokenEntry struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"` // of the record
	Expires time.Time `json:"expires"`
}

// owner returns the account of the token. It reports whether the account has not
// changed since the token was made.
func (r *apiTokenRecord) owner(accounts *accounts.Set) (*accounts.Account, bool) {
	account, ok := accounts.Lookup(r.Username)
	return account, ok && account.Unchanged(r.Version, r.Since)
}

// rolesOf returns the roles in held, those of the owner, that the token has too.
func (r *apiTokenRecord) rolesOf(held []string) []string {
	roles := []string{}
	for _, role := range held {
		if slices.Contains(r.Roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

func (r *apiTokenRecord) token(held []string) APIToken {
	return APIToken{
		ID: r.ID, Name: r.Name, Roles: r.rolesOf(held),
		Created: r.Created, Expires: r.Expires, LastUsed: r.LastUsed,
	}
}

// APITokens keeps the API tokens of users. Users make them for programs
// that cannot sign in. They do not belong to a login, and so outlive it.
type APITokens struct {
	accounts *accounts.Set
	users    *Users // nil: users of providers have none
	logins   *Logins
	cache    record.Cache[cachedAPIToken] // by what was presented
}

// cachedAPIToken is a token that an earlier request looked up.
type cachedAPIToken struct {
	presented apiTokenClaim
	stored    record.Stored
	basis     record.Basis // stored; nothing if the owner is a user of a provider, who is looked up each time
	record    *apiTokenRecord
	identity  *policy.Identity

	tried atomic.Int64 // when the last use was to be stored, in Unix nanoseconds
}

// apiTokenClaim is how a request presents a token. The user name is that of Basic
// credentials.
type apiTokenClaim struct {
	basic    bool
	username string
}

// NewAPITokens returns the API tokens of accounts, in the store of logins.
func NewAPITokens(accounts *accounts.Set, logins *Logins) *APITokens {
	return &APITokens{accounts: accounts, logins: logins, cache: record.NewCache[cachedAPIToken]()}
}

// Create makes a token of owner, which is shown only this once. It has the given
// roles, and never gets another one. The errors are ErrRoleNotHeld and
// ErrTooManyAPITokens.
func (a *APITokens) Create(
	ctx context.Context, owner *TokenOwner, name string, roles []string, lifetime time.Duration,
) (string, APIToken, error) {
	for _, role := range roles {
		if !slices.Contains(owner.Roles(), role) {
			return "", APIToken{}, fmt.Errorf("%w %q", ErrRoleNotHeld, role)
		}
	}
	token, now := newAPIToken(), a.logins.now()
	record := owner.record
	record.ID, record.Name, record.Roles = newAPITokenID(), name, roles
	record.Created, record.Expires = now, now.Add(lifetime)
	value, err := json.Marshal(&record)
	if err != nil {
		return "", APIToken{}, fmt.Errorf("recording an API token: %w", err)
	}
	// The record comes first: a token that is not in the list is one that the client
	// does not get.
	key := apiTokenKey(token)
	if err := a.logins.store.Put(ctx, key, value, record.Expires); err != nil {
		return "", APIToken{}, fmt.Errorf("recording an API token: %w", err)
	}
	err = a.change(ctx, owner.list, func(entries []apiTokenEntry) ([]apiTokenEntry, error) {
		entries, err := a.withRoom(ctx, entries)
		return append(entries, apiTokenEntry{record.ID, key, record.Expires}), err
	})
	if err != nil {
		_ = a.logins.store.Delete(ctx, key) // the first error is the one to return
		return "", APIToken{}, err
	}
	return token, record.token(owner.Roles()), nil
}

// withRoom returns the entries of tokens that may be valid. The error is
// ErrTooManyAPITokens if there is no room for another one.
func (a *APITokens) withRoom(ctx context.Context, entries []apiTokenEntry) ([]apiTokenEntry, error) {
	now := a.logins.now()
	entries = slices.DeleteFunc(entries, func(e apiTokenEntry) bool { return !now.Before(e.Expires) })
	if len(entries) < MaxAPITokens {
		return entries, nil
	}
	valid := []apiTokenEntry{}
	for _, e := range entries {
		switch _, _, err := a.find(ctx, e.Key); {
		case err == nil:
			valid = append(valid, e)
		case !errors.Is(err, auth.ErrRejected):
			return nil, err
		}
	}
	if len(valid) >= MaxAPITokens {
		return nil, ErrTooManyAPITokens
	}
	return valid, nil
}

// find returns a valid token and the roles of its owner. The error is ErrRejected if there is
// none under the key.
func (a *APITokens) find(ctx context.Context, key string) (*apiTokenRecord, []string, error) {
	raw, err := a.logins.read(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	token, err := record.Decode[apiTokenRecord](raw)
	if err != nil {
		return nil, nil, err
	}
	if !a.logins.now().Before(token.Expires) {
		return nil, nil, auth.ErrRejected
	}
	identity, err := a.holder(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	return token, identity.Roles, nil
}

// List returns the valid tokens of owner, the oldest first.
func (a *APITokens) List(ctx context.Context, owner *TokenOwner) ([]APIToken, error) {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return nil, err
	}
	tokens := []APIToken{}
	for _, e := range entries {
		record, roles, err := a.find(ctx, e.Key)
		if errors.Is(err, auth.ErrRejected) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, record.token(roles))
	}
	return tokens, nil
}

// Revoke ends a token of owner. The error is ErrNoAPIToken if owner has no token with
// that id.
func (a *APITokens) Revoke(ctx context.Context, owner *TokenOwner, id string) error {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e apiTokenEntry) bool { return e.ID == id })
	if at < 0 {
		return ErrNoAPIToken
	}
	_, err = a.logins.store.Take(ctx, entries[at].Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("revoking an API token: %w", err)
	}
	known := err == nil
	// What remains in the list after an error makes nothing valid.
	_ = a.change(ctx, owner.list, func(entries []apiTokenEntry) ([]apiTokenEntry, error) {
		return slices.DeleteFunc(entries, func(e apiTokenEntry) bool { return e.ID == id }), nil
	})
	if !known {
		return ErrNoAPIToken
	}
	return nil
}

// RevokeAll ends all tokens of owner. It returns the ids of those that it has
// ended, also beside an error.
func (a *APITokens) RevokeAll(ctx context.Context, owner *TokenOwner) (revoked []string, err error) {
	entries, err := a.list(ctx, owner.list)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		_, err := a.logins.store.Take(ctx, e.Key)
		if err == nil {
			revoked = append(revoked, e.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return revoked, fmt.Errorf("revoking API tokens: %w", err)
		}
	}
	// What remains in the list after an error makes nothing valid.
	_ = a.change(ctx, owner.list, func(now []apiTokenEntry) ([]apiTokenEntry, error) {
		return slices.DeleteFunc(now, func(e apiTokenEntry) bool { return slices.Contains(entries, e) }), nil
	})
	return revoked, nil
}

// list returns the list of that name.
func (a *APITokens) list(ctx context.Context, name string) ([]apiTokenEntry, error) {
	raw, err := a.logins.read(ctx, apiTokensPrefix+name)
	if errors.Is(err, auth.ErrRejected) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := record.Decode[[]apiTokenEntry](raw)
	if err != nil {
		return nil, err
	}
	return *entries, nil
}

// change replaces the list of that name. It calls edit again if another
// request changes the list meanwhile.
func (a *APITokens) change(
	ctx context.Context, name string, edit func([]apiTokenEntry) ([]apiTokenEntry, error),
) error {
	err := store.Update(ctx, a.logins.store, apiTokensPrefix+name, func(raw []byte) (store.Edit, error) {
		entries := new([]apiTokenEntry)
		var err error
		if raw != nil {
			if entries, err = record.Decode[[]apiTokenEntry](raw); err != nil {
				return store.Edit{}, err
			}
		}
		next, err := edit(*entries)
		if err != nil {
			return store.Edit{}, err
		}
		expires := a.logins.now() // an empty list is deleted
		for _, e := range next {
			expires = later(expires, e.Expires)
		}
		return record.Edited(next, expires)
	})
	if err != nil {
		err = fmt.Errorf("changing the list of API tokens: %w", err)
	}
	return err
}

// authenticate is alive for a request. A request counts as use.
func (a *APITokens) authenticate(ctx context.Context, value string, basic bool) (*policy.Identity, error) {
	cached, err := a.look(ctx, value, basic)
	if err != nil {
		return nil, err
	}
	a.touch(cached)
	return cached.identity, nil
}

// alive returns the identity that a presented token proves. value is the token, or
// the value of Basic credentials with it.
func (a *APITokens) alive(ctx context.Context, value string, basic bool) (*policy.Identity, error) {
	cached, err := a.look(ctx, value, basic)
	if err != nil {
		return nil, err
	}
	return cached.identity, nil
}

func (a *APITokens) look(ctx context.Context, value string, basic bool) (*cachedAPIToken, error) {
	cached := a.cache.Get(value)
	if cached == nil {
		var err error
		if cached, err = readAPIToken(value, basic); err != nil {
			return nil, err
		}
	}
	current := cached
	holds, err := cached.basis.Holds(ctx, a.logins.store)
	if err == nil && !holds {
		current, err = a.resolve(ctx, cached)
	}
	if err != nil {
		return nil, err
	}
	if !a.logins.now().Before(current.record.Expires) {
		return nil, badAPIToken(basic, "expired")
	}
	if current != cached {
		a.cache.Keep(value, current)
	}
	return current, nil
}

// readAPIToken reads what a request presents. A token with a mistake costs no look
// at the store.
func readAPIToken(value string, basic bool) (*cachedAPIToken, error) {
	token, presented := value, apiTokenClaim{basic: basic}
	if basic {
		var err error
		if presented.username, token, err = auth.ParseBasic(value); err != nil {
			return nil, badAPIToken(basic, err.Error())
		}
	}
	if !wholeAPIToken(token) {
		return nil, badAPIToken(basic, "not whole: its length or its checksum is wrong")
	}
	return &cachedAPIToken{presented: presented, stored: record.Stored{Key: apiTokenKey(token)}}, nil
}

// resolve looks up a token and its owner.
func (a *APITokens) resolve(ctx context.Context, cached *cachedAPIToken) (*cachedAPIToken, error) {
	key, presented := cached.stored.Key, cached.presented
	raw, err := a.logins.read(ctx, key)
	if errors.Is(err, auth.ErrRejected) {
		return nil, badAPIToken(presented.basic, "unknown, revoked or expired")
	}
	if err != nil {
		return nil, err
	}
	token, err := record.Decode[apiTokenRecord](raw)
	if err != nil {
		return nil, err
	}
	owner, err := a.holder(ctx, token)
	switch {
	case errors.Is(err, auth.ErrRejected):
		return nil, badAPIToken(presented.basic, token.gone())
	case err != nil:
		return nil, err
	case presented.basic && !namesOwner(presented.username, owner.Username):
		return nil, badAPIToken(presented.basic, "presented with the user name of another account")
	}
	next := &cachedAPIToken{
		presented: presented, stored: record.Stored{Key: key, Raw: raw}, record: token, identity: owner.Reduced(token.Roles),
	}
	if token.Provider == "" {
		next.basis = record.Basis{next.stored}
	}
	next.tried.Store(cached.tried.Load())
	return next, nil
}

// namesOwner reports whether a token of owner may be a password with this user name. The
// token itself says whose it is. So there may be no name, and "__token__" is what package
// registries have in its place.
func namesOwner(username, owner string) bool {
	return username == "" || username == "__token__" || username == policy.NormalName(owner)
}

// touch stores the time of the request from time to time, in the background, so
// that no request waits for a disk.
func (a *APITokens) touch(c *cachedAPIToken) {
	now := a.logins.now()
	// Abs: if the clock was set back, the stored time is in the future.
	if now.Sub(c.record.LastUsed).Abs() < apiTokenUse {
		return
	}
	tried := c.tried.Load()
	if now.Sub(time.Unix(0, tried)).Abs() < apiTokenRetry || !c.tried.CompareAndSwap(tried, now.UnixNano()) {
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
		_ = a.logins.store.Swap(ctx, c.stored.Key, c.stored.Raw, value, used.Expires)
	}()
}

func badAPIToken(basic bool, reason string) error {
	detail := auth.DetailBadToken
	if basic {
		detail = auth.DetailWrongPassword
	}
	return &auth.Rejection{Detail: detail, Reason: "API token: " + reason}
}
