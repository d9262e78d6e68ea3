package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/store"
	"authgate/policy"
)

// Renewal is what a login became when its user changed the password with it: what its
// client had before opens nothing any more, because others may know it.
type Renewal struct {
	Version string    `json:"version"`          // of the account
	Since   time.Time `json:"since"`            // the account's epoch
	At      time.Time `json:"at,omitzero"`      // when it was
	Number  int       `json:"number,omitempty"` // how many there were; access tokens name it
}

// generation returns what the access tokens of the login must name. It is 0 until the
// user changes the password.
func (login *Login) generation() int {
	if login.Renewed == nil {
		return 0
	}
	return login.Renewed.Number
}

// names reports whether the record of a session or of refresh tokens belongs to the
// login.
func (login *Login) names(key string) bool {
	return slices.Contains(login.Handles, key) ||
		slices.ContainsFunc(login.Attached, func(a Attached) bool { return a.Key == key })
}

// Outdated reports whether the ticket is from before the user changed the password with
// the login.
func (t *Ticket) Outdated(login *Login) bool {
	return login.Renewed != nil && !t.Issued.After(login.Renewed.At)
}

// Renew makes the login of id go on under its changed account, whose new password its
// user has set. The login gets the handles that give returns, in place of all that it
// has, at other hosts too. The client must get nothing of them unless the error is nil.
// give may be called again; then the handles of the last call count. The error is
// ErrNoLogin if the login has ended.
func (o *Overview) Renew(
	ctx context.Context, id *policy.Identity, changed *auth.Account, give func(*Login) []Handle,
) (*Login, error) {
	const attempts = 100 // an attempt fails only if another change of the login has succeeded
	for range attempts {
		login, err := o.renew(ctx, id.Login, changed, give)
		if !errors.Is(err, store.ErrConflict) {
			return login, err
		}
	}
	return nil, errors.New("changing a login: other requests keep changing it")
}

// renew is one attempt of Renew. It fails with store.ErrConflict if the login changed
// meanwhile.
func (o *Overview) renew(
	ctx context.Context, sid string, changed *auth.Account, give func(*Login) []Handle,
) (*Login, error) {
	login, raw, err := o.Logins.load(ctx, sid)
	if errors.Is(err, auth.ErrRejected) {
		return nil, ErrNoLogin
	}
	if err != nil {
		return nil, err
	}
	handles, old := give(login), login.keys()
	if before, ok := login.current(o.Accounts); ok {
		login.Version, login.Since = before.Version(), before.Epoch()
	}
	login.Renewed = &Renewal{
		Version: changed.Version(), Since: changed.Epoch(), At: o.Logins.now(), Number: login.generation() + 1,
	}
	login.Handles, login.Attached = nil, nil
	err = o.Logins.putHandles(ctx, login, handles)
	if err == nil {
		err = o.Logins.replace(ctx, login, raw)
	}
	if err != nil {
		o.Logins.forget(ctx, login.Handles) // the login does not name them
		return nil, err
	}
	o.Logins.forget(ctx, old)
	return login, nil
}

// keys returns the keys of all records that the login names.
func (login *Login) keys() []string {
	keys := slices.Clone(login.Handles)
	for _, a := range login.Attached {
		keys = append(keys, a.Key)
	}
	return keys
}

// putHandles records handles of a login, which names them then.
func (l *Logins) putHandles(ctx context.Context, login *Login, handles []Handle) error {
	for _, handle := range handles {
		key, value, expires, err := handle(login)
		if err != nil {
			return err
		}
		login.Handles = append(login.Handles, key)
		if err := l.store.Put(ctx, key, value, expires); err != nil {
			return fmt.Errorf("changing a login: %w", err)
		}
	}
	return nil
}

// replace records a login that the store held as raw.
func (l *Logins) replace(ctx context.Context, login *Login, raw []byte) error {
	value, err := json.Marshal(login)
	if err != nil {
		return err
	}
	if err := l.store.Swap(ctx, loginPrefix+login.ID, raw, value, login.Expires); err != nil {
		return fmt.Errorf("changing a login: %w", err)
	}
	return nil
}

// forget deletes records that no login names. What remains after a failure opens
// nothing, and expires.
func (l *Logins) forget(ctx context.Context, keys []string) {
	var deletes errgroup.Group
	for _, key := range keys {
		deletes.Go(func() error { return l.store.Delete(ctx, key) })
	}
	_ = deletes.Wait()
}
