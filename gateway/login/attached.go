package login

import (
	"context"
	"errors"
	"fmt"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
)

// How many sessions at other hosts a login keeps. Browsers that forget cookies
// ask for more.
const (
	maxAttached       = 256
	maxAttachedAtHost = 8 // tabs that arrive at the same moment
)

// attached is a session that a login got after it began, at another host.
type attached struct {
	Scope string `json:"scope"`
	Key   string `json:"key"` // in the store
}

// Attach records one more handle of a login, for scope, and returns the login.
// The error is journey.ErrNoTicket if the login has ended. The client must get nothing
// of the handle unless the error is nil.
func (l *Logins) Attach(ctx context.Context, sid, scope string, handle Handle) (*Login, error) {
	login, err := l.amend(ctx, sid, func(login *Login) (made, left []string, err error) {
		if login.Yielded {
			return nil, nil, auth.ErrRejected
		}
		key, value, expires, err := handle(login)
		if err != nil {
			return nil, nil, err
		}
		if !l.now().Before(expires) {
			return nil, nil, fmt.Errorf("%w: its login is too old for a session", journey.ErrNoTicket)
		}
		for _, old := range login.attach(attached{Scope: scope, Key: key}) {
			left = append(left, old.Key)
		}
		return []string{key}, left, l.putHandle(ctx, key, value, expires)
	})
	switch {
	case errors.Is(err, auth.ErrRejected):
		return nil, fmt.Errorf("%w: its login has ended", journey.ErrNoTicket)
	case err != nil && !errors.Is(err, journey.ErrNoTicket):
		return nil, fmt.Errorf("attaching a session: %w", err)
	}
	return login, err
}

// attach adds one and returns those that there is no room for any more.
func (login *Login) attach(one attached) (dropped []attached) {
	atHost := 0
	for _, a := range login.Attached {
		if a.Scope == one.Scope {
			atHost++
		}
	}
	kept := login.Attached[:0:0]
	for _, a := range login.Attached {
		if a.Scope == one.Scope && atHost >= maxAttachedAtHost {
			dropped, atHost = append(dropped, a), atHost-1
			continue
		}
		kept = append(kept, a)
	}
	if over := len(kept) + 1 - maxAttached; over > 0 {
		dropped, kept = append(dropped, kept[:over]...), kept[over:]
	}
	login.Attached = append(kept, one)
	return dropped
}
