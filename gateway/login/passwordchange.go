package login

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/policy"
)

// renewal describes the change that a user made to the account with this login. After a new
// password, the client's earlier handles open nothing any more, because others may know them.
type renewal struct {
	Version string    `json:"version"`          // of the account
	Since   time.Time `json:"since"`            // when the account changed
	At      time.Time `json:"at,omitzero"`      // when it was
	Number  int       `json:"number,omitempty"` // how many there were; access tokens name it
}

// Generation returns the generation that access tokens of the login must name. It is 0 until the
// user changes the password.
func (login *Login) Generation() int {
	if login.Renewed == nil {
		return 0
	}
	return login.Renewed.Number
}

// Outdates reports whether a ticket is from before the user changed the password with the
// login.
func (login *Login) Outdates(ticket *journey.Ticket) bool {
	return login.Renewed != nil && !ticket.Issued.After(login.Renewed.At)
}

// Renew makes the login of id go on under its changed account, whose new password its
// user has set. The login gets the handles that give returns, in place of all that it
// has, at other hosts too. The client must get nothing of them unless the error is nil.
// give may be called again; then the handles of the last call count. The error is
// ErrNoLogin if the login has ended.
func (o *Overview) Renew(
	ctx context.Context, id *policy.Identity, changed *accounts.Account, give func(*Login) []Handle,
) (*Login, error) {
	login, err := o.Logins.amend(ctx, id.Login, func(login *Login) (made, left []string, err error) {
		if login.Yielded {
			return nil, nil, auth.ErrRejected
		}
		handles, old := give(login), login.keys()
		o.recordChange(login, changed)
		login.Renewed.Number++
		login.Handles, login.Attached, login.Lent = nil, nil, nil
		err = o.Logins.putHandles(ctx, login, handles)
		return login.Handles, old, err
	})
	return login, amended(err)
}

// Keep makes the login of id go on under its changed account, whose factors its user has
// changed, with all that it has. used are the methods that the user has just proved with
// it, by adding them: they count as those of the sign-in, whose time stays. The error is
// ErrNoLogin if the login has ended.
func (o *Overview) Keep(
	ctx context.Context, id *policy.Identity, changed *accounts.Account, used ...string,
) (*Login, error) {
	login, err := o.Logins.amend(ctx, id.Login, func(login *Login) (made, left []string, err error) {
		o.recordChange(login, changed)
		login.Proof.AMR = factors.AMR(append(used, login.Proof.AMR...)...)
		return nil, nil, nil
	})
	return login, amended(err)
}

// recordChange notes that a login goes on under its changed account.
func (o *Overview) recordChange(login *Login, changed *accounts.Account) {
	if before, ok := login.current(o.Accounts); ok {
		login.Version, login.Since = before.LoginVersion(), before.LoginChanged()
	}
	login.Renewed = &renewal{
		Version: changed.LoginVersion(), Since: changed.LoginChanged(), At: o.Logins.now(), Number: login.Generation(),
	}
}

// amended returns the error of a login that was to go on.
func amended(err error) error {
	switch {
	case errors.Is(err, auth.ErrRejected):
		return ErrNoLogin
	case err != nil:
		return fmt.Errorf("changing a login: %w", err)
	}
	return nil
}

// putHandles records handles of a login, which names them then.
func (l *Logins) putHandles(ctx context.Context, login *Login, handles []Handle) error {
	for _, handle := range handles {
		key, value, expires, err := handle(login)
		if err != nil {
			return err
		}
		login.Handles = append(login.Handles, key)
		if err := l.putHandle(ctx, key, value, expires); err != nil {
			return err
		}
	}
	return nil
}
