package login

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// again begins a login of a user in the place of others; of alice and bob by the password, of
// anybody else at the provider.
func (r *rig) again(ctx context.Context, username string, replaces ...*signedIn) (*signedIn, error) {
	var sids []string
	for _, s := range replaces {
		sids = append(sids, s.login.ID)
	}
	if account, local := r.accounts.Lookup(username); local {
		session, handle := r.session.New("")
		login, err := r.logins.Begin(ctx, account, Device{}, Term{Lifetime: time.Hour, Replaces: sids}, nil, handle)
		return &signedIn{login: login, session: session}, err
	}
	session, handle := r.delegated.New("")
	attempt := &journey.Attempt{Provider: "keycloak", Before: sids, Started: r.now()}
	login, err := r.users.Begin(ctx, attempt, r.grant("user"), Device{}, handle)
	return &signedIn{login: login, delegated: session}, err
}

// signInAgain is again, and lends a grant by the new login under key, unless that is empty.
func (r *rig) signInAgain(tb testing.TB, username, key string, replaces ...*signedIn) *signedIn {
	tb.Helper()
	s := must.Get(r.again(tb.Context(), username, replaces...))(tb)
	if key != "" {
		must.Get(r.logins.Lend(tb.Context(), s.login.ID, "", r.lending(key, month)))(tb)
	}
	return s
}

// wantLent fails the test unless exactly these grants are held by live logins.
func (r *rig) wantLent(tb testing.TB, keys ...string) {
	tb.Helper()
	var lent []string
	for _, key := range storetest.Keys(tb, r.store.Store, loginPrefix) {
		for _, one := range stored[Login](tb, r.store, key).Lent {
			lent = append(lent, one.Key)
		}
	}
	slices.Sort(lent)
	if !slices.Equal(lent, keys) {
		tb.Errorf("live logins have lent %q, want %q", lent, keys)
	}
}

// A new login ends those in whose place it comes. What the user has lent goes on, over several
// sign-ins, and ends with the last login. What another user has lent ends at once.
func TestSignInAgain(t *testing.T) {
	t.Parallel()
	for user, other := range map[string]string{"alice": "bob", "carol": "alice", "bob": "carol"} {
		r := newRig(t)
		var (
			mu    sync.Mutex
			ended []string
		)
		r.logins.OnEnd(func(login *Login) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, login.ID)
		})
		first := r.signInAgain(t, user, "grant:1")
		second := r.signInAgain(t, user, "", first)
		third := r.signInAgain(t, user, "grant:3", second)
		fourth := r.signInAgain(t, user, "", third)
		for _, s := range []*signedIn{first, second, third} {
			r.wantOut(t, s)
		}
		r.wantIn(t, fourth)
		r.wantRecords(t, SessionPrefix, 1)
		r.wantLent(t, "grant:1", "grant:3")
		if len(second.login.Replaced)+len(fourth.login.Replaced) > 0 || len(third.login.Replaced) != 1 ||
			!slices.Equal(ended, []string{second.login.ID}) {
			t.Errorf("%s: %q ended, want %q, which has lent nothing", user, ended, second.login.ID)
		}
		if own := must.Get(r.logins.Inherits(t.Context(), fourth.login.ID, first.login.ID))(t); !own {
			t.Errorf("%s: the login has not inherited the first one", user)
		}
		r.end(t, fourth)
		r.wantRecords(t, loginPrefix, 0)
		r.wantRecords(t, "grant:", 0)
		r.wantRecords(t, groupPrefix, 0)
		if len(ended) != 4 {
			t.Errorf("%s: told of the ends of %q", user, ended)
		}

		mine, another := r.signInAgain(t, user, "grant:1"), r.signInAgain(t, other, "grant:2")
		heir := r.signInAgain(t, user, "", mine, another)
		r.wantLent(t, "grant:1")
		heir = r.signInAgain(t, other, "", heir)
		r.wantLent(t)
		r.wantRecords(t, loginPrefix, 1)
		r.end(t, heir)
	}
}

// A login whose clients have an ID token goes on until its own time, so that they are told of
// the logout, and not of another sign-in.
func TestSignInAgainKeepsClients(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var told []string
	r.logins.OnEnd(func(login *Login) { told = append(told, login.Clients...) })
	first := r.signInAgain(t, "alice", "")
	must.Get(r.logins.Lend(t.Context(), first.login.ID, "wiki", r.lending("grant:1", time.Minute)))(t)
	r.clock.Advance(time.Minute)
	second := r.signInAgain(t, "alice", "", first)
	if told != nil {
		t.Errorf("a sign-in tells %q", told)
	}
	r.end(t, second)
	if !slices.Equal(told, []string{"wiki"}) {
		t.Errorf("the logout tells %q", told)
	}
}

// A login that has yielded gets nothing of its own any more: no session at another host by a
// ticket from before, and none by a new password.
func TestYieldedLoginGetsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:1", month)))(t)
	r.signInAgain(t, "alice", "", s)
	r.wantOut(t, s)
	_, handle := r.session.New(otherHost)
	if login, err := r.logins.Attach(t.Context(), s.login.ID, otherHost, handle); !errors.Is(err, journey.ErrNoTicket) {
		t.Errorf("by a ticket: %+v, %v", login, err)
	}
	changed := alice
	changed.Hash = testHash("looking-glass")
	account, _ := r.withAccounts(t, changed, bob).accounts.Lookup("alice")
	if next, err := r.renew(t, s, account); !errors.Is(err, ErrNoLogin) {
		t.Errorf("by a password: %+v, %v", next, err)
	}
	r.wantRecords(t, SessionPrefix, 1)
	r.wantLent(t, "grant:1")
}

// While the end of a login cannot end what it has inherited, the login is valid, and can be
// ended again. At no time is it away and comes back.
func TestEndOfAnHeirFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.signInAgain(t, "alice", "grant:1")
	heir := r.signInAgain(t, "alice", "", first)
	for _, calls := range []string{"get login:" + first.login.ID, "remove login:" + first.login.ID} {
		r.store.Interfere(func(ctx context.Context, call string) error {
			if call != calls {
				return nil
			}
			if _, err := r.store.Store.Get(ctx, loginPrefix+heir.login.ID); err != nil {
				t.Errorf("before %.10s of what it has inherited, the login is %v", call, err)
			}
			return errStore
		})
		if _, err := r.logins.End(t.Context(), heir.login.ID); !errors.Is(err, errStore) {
			t.Errorf("got %v", err)
		}
		r.store.Interfere(nil)
		r.wantIn(t, heir)
	}
	r.end(t, heir)
	r.wantLent(t)
}

// A login that was recorded, and could not replace another one, ends. The other one goes on
// unless it has yielded already.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		r := newRig(t)
		first := r.signInAgain(t, "alice", "grant:1")
		r.store.Late = late
		r.store.Fails("swap login:" + first.login.ID)
		if _, err := r.again(t.Context(), "alice", first); !errors.Is(err, errStore) {
			t.Errorf("got %v", err)
		}
		r.store.Fails("")
		if late {
			r.wantOut(t, first)
			r.wantLent(t)
			continue
		}
		r.wantIn(t, first)
		r.wantRecords(t, loginPrefix, 1)
		r.wantLent(t, "grant:1")
	}
}

// Whatever happens while a new login replaces another one: what was lent never goes on without a
// login that ends it.
func TestSignInAgainAtTheSameTime(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(r *rig, first *signedIn) *signedIn{
		"the old login ends": func(r *rig, first *signedIn) *signedIn {
			_, _ = r.logins.End(context.Background(), first.login.ID)
			return nil
		},
		"all logins end": func(r *rig, _ *signedIn) *signedIn {
			_, _ = r.overview().EndAll(context.Background(), "alice")
			return nil
		},
		"another tab": func(r *rig, first *signedIn) *signedIn {
			other, _ := r.again(context.Background(), "alice", first)
			return other
		},
		"a client gets its tokens": func(r *rig, first *signedIn) *signedIn {
			_, _ = r.logins.Lend(context.Background(), first.login.ID, "", r.lending("grant:2", month))
			return nil
		},
	} {
		for _, lends := range []string{"grant:1", ""} {
			t.Run(name+strings.TrimPrefix(lends, "grant:"), func(t *testing.T) {
				t.Parallel()
				atEachCall(t, func(t *testing.T, r *rig, before func(func()) func() bool) {
					first, elsewhere := r.signInAgain(t, "alice", lends), r.elsewhere(t)
					r.clock.Advance(time.Second)
					var other *signedIn
					happened := before(func() { other = event(elsewhere, first) })
					heir, err := r.again(t.Context(), "alice", first)
					happened()
					r.wantOut(t, first)
					for _, s := range []*signedIn{heir, other} {
						if s != nil && s.login != nil {
							r.end(t, s)
						}
					}
					if err != nil && !errors.Is(err, auth.ErrRejected) {
						t.Errorf("got %v", err)
					}
					r.wantLent(t)
					r.wantRecords(t, loginPrefix, 0)
				})
			})
		}
	}
}

// A group that makes room waits for no login that ends with one of its own.
func TestMakeRoomForAnHeir(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.signInAgain(t, "alice", "grant:1")
		heir := r.signInAgain(t, "alice", "", first)
		for range maxGroup - 2 {
			r.signInAgain(t, "alice", "")
		}
		g := r.group(t, groupKey("account", "alice"))
		at := slices.IndexFunc(g.Members, func(m member) bool { return m.Login == heir.login.ID })
		g.Members[0], g.Members[at] = g.Members[at], g.Members[0] // as if both made room at once
		swapped := must.Get(g.edited())(t)
		must.Do(t, r.store.Put(t.Context(), groupKey("account", "alice"), swapped.Value, swapped.Expires))
		began := time.Now()
		r.signInAgain(t, "alice", "")
		if took := time.Since(began); took > 0 {
			t.Errorf("it takes %v", took)
		}
	})
}

// What a login has no room to inherit ends.
func TestInheritMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.signInAgain(t, "alice", "grant:1")
	second := r.signInAgain(t, "alice", "grant:2", first)
	restore(t, r.store, loginPrefix+second.login.ID, func(l *Login) {
		for range maxLent - 1 {
			l.Inherited = append(l.Inherited, "gone")
		}
	})
	heir := r.signInAgain(t, "alice", "", second)
	if len(heir.login.Inherited) != maxLent {
		t.Errorf("it has inherited %d", len(heir.login.Inherited))
	}
	r.wantLent(t, "grant:2")
}
