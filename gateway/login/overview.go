package login

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// ErrNoLogin: the user has no login with this sid.
var ErrNoLogin = errors.New("login: the user has no such login")

// handlesSeen is how many of the sessions that a login has at other hosts an
// overview looks at, the newest ones.
const handlesSeen = 16

// LiveLogin describes one of their logins to a user.
type LiveLogin struct {
	ID        string
	Mechanism policy.Mechanism // bearer, if it has tokens alone
	Provider  string
	Created   time.Time
	// LastUsed is the last request by a session, or the last refresh of tokens. For
	// sessions it is up to five minutes too early, or an eighth of the idle timeout.
	LastUsed time.Time
	Expires  time.Time
	Device   Device
}

// Overview lists users' logins for them, and ends those that they choose. Without providers, Users
// and Delegated are nil.
type Overview struct {
	Logins    *Logins
	Accounts  *accounts.Set
	Sessions  *Sessions
	Users     *Users
	Delegated *Sessions
}

// List returns the live logins of the user of id, the last used one first. It does not
// know logins of an account that has changed since.
func (o *Overview) List(ctx context.Context, id *policy.Identity) ([]LiveLogin, error) {
	key, err := o.group(ctx, id)
	if err != nil || key == "" {
		return []LiveLogin{}, err
	}
	members, err := o.Logins.groups.members(ctx, key)
	if err != nil {
		return nil, err
	}
	all, err := gather(members, func(m member) (LiveLogin, error) {
		login, err := o.readLogin(ctx, key, m.Login)
		if err != nil {
			return LiveLogin{}, err
		}
		return o.describeLogin(ctx, login)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b LiveLogin) int {
		return cmp.Or(b.LastUsed.Compare(a.LastUsed), b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// gather returns the results of look for all, in no order, without those for which it returns
// ErrNoLogin.
func gather[T, Seen any](all []T, look func(T) (Seen, error)) ([]Seen, error) {
	var mu sync.Mutex
	gathered := []Seen{}
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for _, one := range all {
		reads.Go(func() error {
			seen, err := look(one)
			if errors.Is(err, ErrNoLogin) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			gathered = append(gathered, seen)
			return nil
		})
	}
	err := reads.Wait()
	return gathered, err
}

// End ends one login of the user of id, as Logins.End does. The error is ErrNoLogin if
// the user has no live login with that sid.
func (o *Overview) End(ctx context.Context, id *policy.Identity, sid string) (*Login, error) {
	key, err := o.group(ctx, id)
	if err != nil {
		return nil, err
	}
	if key == "" || len(sid) != sidLength {
		return nil, ErrNoLogin
	}
	if _, err := o.readLogin(ctx, key, sid); err != nil {
		return nil, err
	}
	ended, err := o.Logins.End(ctx, sid)
	if err == nil && ended == nil {
		err = ErrNoLogin // ended at this very moment
	}
	return ended, err
}

// EndOthers ends all logins of the user of id but the one of id itself. It returns
// those that it has ended, also beside an error.
func (o *Overview) EndOthers(ctx context.Context, id *policy.Identity) ([]*Login, error) {
	key, err := o.group(ctx, id)
	if err != nil || key == "" {
		return nil, err
	}
	return o.Logins.groups.endLogins(ctx, key, true, id.Login)
}

// Counts returns how many live logins each of those local accounts has.
func (o *Overview) Counts(ctx context.Context, usernames []string) ([]int, error) {
	counts := make([]int, len(usernames))
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	for i, name := range usernames {
		reads.Go(func() error {
			logins, err := o.List(ctx, &policy.Identity{Username: name, Provider: policy.LocalProvider})
			counts[i] = len(logins)
			return err
		})
	}
	return counts, reads.Wait()
}

// EndAll ends all logins of a local account. It returns those that it has ended, also beside
// an error.
func (o *Overview) EndAll(ctx context.Context, username string) ([]*Login, error) {
	return o.EndOthers(ctx, &policy.Identity{Username: username, Provider: policy.LocalProvider})
}

// group returns the key of the group with all logins of the user of id. It is empty if the user
// cannot have one here, as a user of another issuer of tokens.
func (o *Overview) group(ctx context.Context, id *policy.Identity) (string, error) {
	if id.Provider == policy.LocalProvider {
		return groupKey("account", id.Username), nil
	}
	if id.Login == "" {
		return "", nil
	}
	login, _, err := o.Logins.load(ctx, id.Login)
	if errors.Is(err, auth.ErrRejected) {
		return "", nil // it has ended at this very moment
	}
	if err != nil {
		return "", err
	}
	return groupsOf(login)[0], nil
}

// readLogin returns a login of the group of all logins of a user. The error is ErrNoLogin if
// there is none that counts.
func (o *Overview) readLogin(ctx context.Context, group, sid string) (*Login, error) {
	login, _, err := o.Logins.load(ctx, sid)
	if errors.Is(err, auth.ErrRejected) {
		return nil, ErrNoLogin
	}
	if err != nil {
		return nil, err
	}
	if groupsOf(login)[0] != group || !o.counts(login) {
		return nil, ErrNoLogin
	}
	return login, nil
}

// counts reports whether the account or the provider of a login is still there.
func (o *Overview) counts(login *Login) bool {
	d := login.Delegated
	if d == nil {
		_, ok := login.current(o.Accounts)
		return ok
	}
	if o.Users == nil {
		return false
	}
	p, ok := o.Users.options.Providers[d.Provider]
	return ok && p.Issuer() == d.Issuer
}

// EndOutdated ends the logins of these local accounts whose account does not exist any more,
// is disabled, or has changed since. running returns the Overview of the configuration that runs, which
// is asked when the turn of a login comes: the account may have changed again, and the login gone on.
func EndOutdated(ctx context.Context, running func() *Overview, usernames []string) error {
	logins := running().Logins
	counts := func(login *Login) bool { return running().counts(login) }
	var all errgroup.Group
	all.SetLimit(readsAtOnce)
	for _, name := range usernames {
		all.Go(func() error {
			members, err := logins.groups.members(ctx, groupKey("account", name))
			for _, m := range members {
				if err == nil {
					_, err = logins.endLogin(ctx, m.Login, ending{unless: counts, leaves: true})
				}
			}
			return err
		})
	}
	return all.Wait()
}

// describeLogin describes a login that counts to its user. The error is ErrNoLogin if it is not
// live: nothing that opens it is valid.
func (o *Overview) describeLogin(ctx context.Context, login *Login) (LiveLogin, error) {
	live := LiveLogin{
		ID: login.ID, Mechanism: policy.Bearer, Provider: policy.LocalProvider,
		Created: login.Created, LastUsed: login.Created, Device: login.Device,
	}
	if login.Delegated != nil {
		live.Mechanism, live.Provider = policy.OIDC, login.Delegated.Provider
	}
	keys := slices.Clone(login.Handles)
	for _, a := range login.Attached[max(0, len(login.Attached)-handlesSeen):] {
		keys = append(keys, a.Key)
	}
	for _, key := range keys {
		if err := o.addHandle(ctx, &live, login, key); err != nil {
			return LiveLogin{}, err
		}
	}
	for _, one := range login.Lent {
		if err := o.addLent(ctx, &live, one.Key); err != nil {
			return LiveLogin{}, err
		}
	}
	if !o.Logins.now().Before(live.Expires) {
		return LiveLogin{}, ErrNoLogin
	}
	return live, nil
}

// addLent adds the times in the record of a lent handle.
func (o *Overview) addLent(ctx context.Context, live *LiveLogin, key string) error {
	raw, err := record.Find(ctx, o.Logins.store, key)
	if err != nil || raw == nil {
		return err
	}
	times, err := record.Decode[struct{ Used, Expires time.Time }](raw)
	if err != nil {
		return err
	}
	live.LastUsed, live.Expires = later(live.LastUsed, times.Used), later(live.Expires, times.Expires)
	return nil
}

// addHandle adds the times in the record of a handle: when it was used, and until when it opens the
// login. A handle that is not valid adds nothing.
func (o *Overview) addHandle(ctx context.Context, live *LiveLogin, login *Login, key string) error {
	raw, err := o.Logins.readRecord(ctx, key)
	if errors.Is(err, auth.ErrRejected) {
		return nil
	}
	if err != nil {
		return err
	}
	var used, expires time.Time
	switch store.KindOf(key) {
	case SessionPrefix:
		session, err := record.Decode[sessionRecord](raw)
		if err != nil {
			return err
		}
		kind := o.Sessions
		if live.Mechanism == policy.OIDC {
			kind = o.Delegated
		} else {
			live.Mechanism = policy.Session
		}
		if kind.longIdle(session) {
			return nil
		}
		used, expires = session.Seen, kind.expires(session, login)
	case refreshPrefix:
		f, err := record.Decode[family](raw)
		if err != nil {
			return err
		}
		expires = f.Expires
		if n := len(f.Rotated); n > 0 {
			used = f.Rotated[n-1].At
		}
	}
	live.LastUsed, live.Expires = later(live.LastUsed, used), later(live.Expires, expires)
	return nil
}
