package login

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// maxLent is how many lent handles, and how many clients, a login keeps. Each sign-in of a user
// to a client lends one, so that it must suffice for the clients of a large organization.
const maxLent = 256

// lent is a record that another room made for a login, such as a grant to an OAuth client.
type lent struct {
	Key     string    `json:"key"` // in the store
	Expires time.Time `json:"expires"`
}

// lentSlack is how much longer than needed the records live that keep a login which has
// lent something. So not each new handle writes them.
const lentSlack = 24 * time.Hour

// Lend records a handle that another room has made for a live login. The login goes on
// until the handle expires, while its sessions and its own tokens still end at their time. A
// handle without a value names a record that is there already. client, if not empty, is a
// client that gets an ID token for the login. At most 256 handles are kept: the oldest is
// dropped. The error is ErrNoLogin if the login has ended, or that of handle.
func (l *Logins) Lend(ctx context.Context, sid, client string, handle Handle) (*Login, error) {
	login, err := l.amend(ctx, sid, func(login *Login) (made, left []string, err error) {
		key, value, expires, err := handle(login)
		if err != nil {
			return nil, nil, err
		}
		left = login.lend(lent{key, expires}, client, l.now())
		// First, so that the end of all logins of a user finds each that goes on.
		if err := l.outlive(ctx, login); err != nil || value == nil {
			return nil, left, err
		}
		return []string{key}, left, l.store.Put(ctx, key, value, expires)
	})
	return login, amended(err)
}

// lend adds a handle and a client. It returns the keys of those handles for which there is
// no room any more.
func (login *Login) lend(one lent, client string, now time.Time) (dropped []string) {
	login.Lent = slices.DeleteFunc(slices.Clone(login.Lent), func(old lent) bool {
		return old.Key == one.Key || !now.Before(old.Expires)
	})
	login.Lent = append(login.Lent, one)
	for len(login.Lent) > maxLent {
		dropped, login.Lent = append(dropped, login.Lent[0].Key), login.Lent[1:]
	}
	if client != "" && !slices.Contains(login.Clients, client) {
		login.Clients = append(login.Clients, client)
		login.Clients = login.Clients[max(0, len(login.Clients)-maxLent):]
	}
	return dropped
}

// ends returns when the login ends: at its own time, or with the last handle that it has
// lent.
func (login *Login) ends() time.Time {
	last := login.Expires
	for _, one := range login.Lent {
		last = later(last, one.Expires)
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// outlive makes the groups of a login, and the record of its user, live as long as the login.
func (l *Logins) outlive(ctx context.Context, login *Login) error {
	var all errgroup.Group
	for _, key := range groupsOf(login) {
		all.Go(func() error { return l.groups.outlive(ctx, key, login) })
	}
	if login.Delegated != nil && l.users != nil {
		all.Go(func() error { return l.users.outlive(ctx, login) })
	}
	return all.Wait()
}

// Names reports whether the record under key belongs to the login.
func (login *Login) Names(key string) bool {
	return slices.Contains(login.keys(), key)
}

// OnEnd makes do be called once for each login that ends before its time, in any way. Further
// calls add functions. It must be called before the logins are in use. do must not block.
func (l *Logins) OnEnd(do func(*Login)) {
	before := l.ended
	l.ended = func(ended *Login) {
		before(ended)
		do(ended)
	}
}

// Holders finds the users behind logins. Users is nil without providers.
type Holders struct {
	Logins   *Logins
	Accounts *accounts.Set
	Users    *Users
}

// Find returns the user of a live login, for a token that expires, and the records that they depend
// on. A profile from a provider is renewed as it is for sessions. The error is ErrRejected if the
// login has ended, or its user is gone or has changed.
func (h *Holders) Find(
	ctx context.Context, sid string, expires time.Time,
) (*policy.Identity, *Login, record.Basis, error) {
	id, login, basis, err := h.findUser(ctx, sid, expires)
	if err == nil && h.Renew(ctx, login, true) {
		return h.findUser(ctx, sid, expires)
	}
	return id, login, basis, err
}

func (h *Holders) findUser(
	ctx context.Context, sid string, expires time.Time,
) (*policy.Identity, *Login, record.Basis, error) {
	login, raw, err := h.Logins.load(ctx, sid)
	if err != nil {
		return nil, nil, nil, err
	}
	var who owner = localOwner{h.Accounts}
	if login.Delegated != nil {
		if h.Users == nil {
			return nil, nil, nil, auth.ErrRejected
		}
		who = h.Users
	}
	id, more, err := who.identify(ctx, login, expires)
	if err != nil {
		return nil, nil, nil, err
	}
	id.Mechanism = policy.Bearer // it was made for this call
	return id, login, append(record.Basis{{Key: loginPrefix + sid, Raw: raw}}, more...), nil
}

// Tenure returns since when a subject belongs to its user, by the last change of a local account,
// and from which issuer it is, for a user of a provider. It returns false if no user has it.
func (h *Holders) Tenure(subject string) (since time.Time, issuer string, ok bool) {
	provider, name, _ := strings.Cut(subject, ":")
	if provider != policy.LocalProvider {
		if h.Users != nil {
			issuer, ok = h.Users.Issuer(provider)
		}
		return time.Time{}, issuer, ok
	}
	account, ok := h.Accounts.Lookup(name)
	if ok {
		since = account.Changed()
	}
	return since, "", ok
}

// Renew updates the profile of the user of a login from the provider if that is due. It reports
// whether the identity may have changed. It waits only if patient.
func (h *Holders) Renew(ctx context.Context, login *Login, patient bool) bool {
	return login.Delegated != nil && h.Users != nil && h.Users.renew(ctx, login, patient)
}
