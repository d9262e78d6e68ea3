package login

import (
	"context"
	"errors"
	"slices"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/auth"
	"authgate/gateway/record"
	"authgate/policy"
)

// lent is a record that another room made for a login, such as a grant to an OAuth client.
type lent struct {
	Key     string    `json:"key"` // in the store
	Expires time.Time `json:"expires"`
}

// Lend records a handle that another room has made for a live login. The login goes on
// until the handle expires, while its sessions and its own tokens still end at their time. A
// handle without a value names a record that is there already. client, if not empty, is a
// client that gets an ID token for the login. At most 64 handles are kept: the oldest is
// dropped. The error is ErrNoLogin if the login has ended, or that of handle.
func (l *Logins) Lend(ctx context.Context, sid, client string, handle Handle) (*Login, error) {
	return nil, errors.New("login: not built yet")
}

// Names reports whether the record under key belongs to the login.
func (login *Login) Names(key string) bool {
	return login.names(key) || slices.ContainsFunc(login.Lent, func(one lent) bool { return one.Key == key })
}

// OnEnd makes do be called once for each login that ends before its time, by whatever
// ends it. It must be called before the logins are in use. do must not block.
func (l *Logins) OnEnd(do func(*Login)) { l.ended = do }

// Holders finds the users behind logins. Users is nil without providers.
type Holders struct {
	Logins   *Logins
	Accounts *accounts.Set
	Users    *Users
}

// Find returns the user of a live login, for a token that expires, and what that depends on.
// What a provider says about the user is renewed as it is for sessions. The error is
// ErrRejected if the login has ended, or its user is gone or has changed.
func (h *Holders) Find(
	ctx context.Context, sid string, expires time.Time,
) (*policy.Identity, *Login, record.Basis, error) {
	return nil, nil, nil, auth.ErrRejected
}

// Renew updates what a provider says about the user of a login if that is due. It reports
// whether the identity may have changed. It waits only if patient.
func (h *Holders) Renew(ctx context.Context, login *Login, patient bool) bool {
	return login.Delegated != nil && h.Users != nil && h.Users.renew(ctx, login, patient)
}
