package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/store"
)

// Expired logins leave their group and are not counted.
func TestExpiredLoginsLeaveTheirGroup(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	for range maxGroup {
		d.signIn(t, d.grant("user"))
	}
	d.clock.Advance(30 * time.Minute)
	young := d.signIn(t, d.grant("user")) // instead of the first
	d.clock.Advance(30 * time.Minute)
	s := d.signIn(t, d.grant("user"))
	d.wantIn(t, young, "user")
	members := stored[group](t, d.store, personGroup("keycloak", testOP, testPerson)).Members
	if len(members) != 2 || members[0].Login != young.login.ID || members[1].Login != s.login.ID {
		t.Errorf("%d members, want the two that live", len(members))
	}
}

// Concurrent logins on two instances are all in the group.
func TestConcurrentLoginsAllJoin(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	instances := []*delegation{d, d.instance(nil)}
	all := make([]*signedIn, 80)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = instances[i%2].signIn(t, d.grant("user")) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	d.clock.Advance(time.Second)
	ended := must(d.logins.groups.end(t.Context(), personGroup("keycloak", testOP, testPerson), true))(t)
	var sids []string
	for _, login := range ended {
		sids = append(sids, login.ID)
	}
	for i, s := range all {
		if !slices.Contains(sids, s.login.ID) {
			t.Errorf("login %d was not found", i)
		}
		for _, each := range instances {
			each.wantOut(t, s)
		}
	}
	if len(ended) != len(all) {
		t.Errorf("%d logins ended, want %d", len(ended), len(all))
	}
}

// While one change of a group is written, the others wait and share the next write.
// Another group does not wait.
func TestGroupChangesShareWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDelegation(t, nil)
		hold := make(chan struct{})
		writes := map[string]int{}
		var mu sync.Mutex
		d.store.before = func(_ context.Context, call string) error {
			key, swap := strings.CutPrefix(call, "swap ")
			mu.Lock()
			if swap {
				writes[key]++
			}
			held := swap && key == groupKey("account", "alice") && writes[key] == 1
			mu.Unlock()
			if held {
				<-hold
			}
			return nil
		}
		begin := func(username string) {
			account := &auth.Account{Username: username}
			if _, err := d.logins.Begin(t.Context(), account, d.now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { begin("alice") })
		}
		synctest.Wait()
		begin("bob")
		close(hold)
		all.Wait()
		if n := len(stored[group](t, d.store, groupKey("account", "alice")).Members); n != 50 {
			t.Errorf("%d logins are in the group, want 50", n)
		}
		if n := writes[groupKey("account", "alice")]; n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
		synctest.Wait()
		if n := len(d.logins.groups.waiting); n != 0 {
			t.Errorf("%d groups are still being changed", n)
		}
	})
}

// If an account has too many logins, the oldest valid one ends. A login that ends leaves
// nothing in the store.
func TestOneAccountHasSoManyLogins(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	account, _ := m.accounts.Lookup("alice")
	var all []*Login
	begin := func() {
		t.Helper()
		login := must(m.logins.Begin(t.Context(), account, m.clock.Now().Add(time.Hour)))(t)
		all = append(all, login)
	}
	alive := func(login *Login) bool {
		_, err := m.logins.read(t.Context(), loginPrefix+login.ID)
		return err == nil
	}
	for range maxGroup {
		begin()
	}
	must(m.logins.End(t.Context(), all[100].ID))(t)
	begin()
	m.store.fails("take login:" + all[0].ID) // the oldest, which must end
	if _, err := m.logins.Begin(t.Context(), account, m.clock.Now().Add(time.Hour)); !errors.Is(err, errStore) {
		t.Errorf("a login that is one too many: got %v, want the error of the store", err)
	}
	m.store.fails("")
	begin()
	begin()
	for i, login := range all {
		if want := i > 1 && i != 100; alive(login) != want {
			t.Errorf("login %d is alive: %t", i, !want)
		}
	}
	for _, login := range all {
		must(m.logins.End(t.Context(), login.ID))(t)
	}
	n, err := m.store.Store.(store.Counter).Count(t.Context(), "")
	if err != nil || n != 0 {
		t.Errorf("%d records are left, %v", n, err)
	}
}

// A group ends as a whole, and no other login ends.
func TestGroupsEndApart(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, func(d *delegation) {
		d.options.Providers["other"] = &testProvider{issuer: testOP}
	})
	begin := func(name string, change func(*provider.Grant)) *signedIn {
		t.Helper()
		grant := d.grant("user")
		change(grant)
		return must(d.begin(t, name, grant, d.now()))(t)
	}
	first, second := d.signIn(t, d.grant("user")), d.signIn(t, d.grant("user"))
	ended := d.signIn(t, d.grant("user"))
	must(d.logins.End(t.Context(), ended.login.ID))(t)
	others := []*signedIn{ // of another person, and at another provider
		begin("keycloak", func(g *provider.Grant) { g.Profile.Subject, g.Session = "1", "1" }),
		begin("other", func(*provider.Grant) {}),
	}
	got, err := d.logins.groups.end(t.Context(), personGroup("keycloak", testOP, testPerson), false)
	if err != nil || len(got) != 2 || got[0].ID != first.login.ID || got[1].ID != second.login.ID || got[0].Subject() != "keycloak:"+testPerson {
		t.Errorf("got %+v, %v, want the two that were alive", got, err)
	}
	d.wantOut(t, first)
	d.wantOut(t, second)
	for _, s := range others {
		must(d.by(t, s))(t)
	}
	if again, err := d.logins.groups.end(t.Context(), personGroup("keycloak", testOP, testPerson), false); err != nil || len(again) != 0 {
		t.Errorf("again: got %+v, %v, want nothing to end", again, err)
	}
}

// A person who has signed out is not signed in by an older attempt, but by a new one.
func TestAttemptsFromBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"session at the provider", ""} {
		for _, token := range []provider.LogoutToken{{Subject: testPerson}, {Subject: testPerson, Session: "session at the provider"}} {
			t.Run(fmt.Sprintf("session %q, token %+v", session, token), func(t *testing.T) {
				t.Parallel()
				d := newDelegation(t, nil)
				token.ID, token.Expires = "one", d.now().Add(time.Hour)
				before := d.now()
				d.clock.Advance(time.Second)
				must(d.users.BackChannel(t.Context(), "keycloak", &token))(t)
				try := func(started time.Time) error {
					grant := d.grant("user")
					grant.Session = session
					s, err := d.begin(t, "keycloak", grant, started)
					if err != nil {
						wantRejected(t, auth.DetailNotSignedIn, "signed out at the provider")(nil, err)
						d.wantOut(t, s)
						return err
					}
					d.wantIn(t, s, "user")
					return nil
				}
				if err := try(d.now()); err == nil {
					t.Error("an attempt that began at the same instant passes")
				}
				if err := try(before); err == nil {
					t.Error("an attempt that began before passes")
				}
				if err := try(d.now().Add(1)); err != nil {
					t.Errorf("an attempt that began after: %v", err)
				}
				if err := try(before); err == nil {
					t.Error("an attempt that began before passes after a new login")
				}
			})
		}
	}
}

// An attempt can be finished at its last moment, and the provider's answers take time.
// The group remembers for long enough that it was ended.
func TestLastAttemptFromBeforeTheEnd(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	started := d.now()
	d.clock.Advance(1)
	token := &provider.LogoutToken{ID: "one", Subject: testPerson, Expires: d.now().Add(2 * time.Minute)}
	must(d.users.BackChannel(t.Context(), "keycloak", token))(t)
	d.clock.Advance(AttemptLifetime - 2 + 30*time.Second) // three calls of ten seconds
	s, err := d.begin(t, "keycloak", d.grant("user"), started)
	wantRejected(t, auth.DetailNotSignedIn, "signed out at the provider")(nil, err)
	d.wantOut(t, s)
}

// The mark of an ended group expires.
func TestEndedGroupsLeaveTheStore(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, func(d *delegation) {
		clock := d.clock
		d.now = func() time.Time { return clock.Now().In(time.FixedZone("", 17*60)) } // in any time zone
	})
	s := d.signIn(t, d.grant("user"))
	token := &provider.LogoutToken{ID: "one", Subject: testPerson, Session: "session at the provider", Expires: d.now().Add(2 * time.Minute)}
	must(d.users.BackChannel(t.Context(), "keycloak", token))(t)
	d.wantOut(t, s)
	if members := stored[group](t, d.store, sessionGroup("keycloak", testOP, token.Session)).Members; len(members) != 0 {
		t.Errorf("%+v stay in the group", members)
	}
	d.clock.Advance(time.Hour)
	if n := d.records(t, ""); n != 0 {
		t.Errorf("%d records stay", n)
	}
}

// A damaged record is an error: a login does not begin, and a logout does not succeed.
func TestDamagedGroupDecidesNothing(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	key := personGroup("keycloak", testOP, testPerson)
	noError(t, d.store.Put(t.Context(), key, []byte(`{"members":7`), time.Time{}))
	login, err := d.users.Begin(t.Context(), "keycloak", d.grant("user"), d.now())
	if login != nil {
		t.Errorf("got %+v", login)
	}
	wantNoAnswer(t)(nil, err)
	ended, err := d.logins.groups.end(t.Context(), key, true)
	if len(ended) != 0 {
		t.Errorf("ended %+v", ended)
	}
	wantNoAnswer(t)(nil, err)
}

// A logout at the provider can arrive at any step of a login. The login never survives.
func TestNoLoginSurvivesALogoutInItsMiddle(t *testing.T) {
	t.Parallel()
	const session = "session at the provider"
	for _, test := range []struct {
		name, session string
		token         provider.LogoutToken
	}{
		{"by sub", session, provider.LogoutToken{Subject: testPerson}},
		{"by sid", session, provider.LogoutToken{Session: session}},
		{"by both", session, provider.LogoutToken{Subject: testPerson, Session: session}},
		{"by sub, of a login without sid", "", provider.LogoutToken{Subject: testPerson}},
		{"by both, of a login without sid", "", provider.LogoutToken{Subject: testPerson, Session: session}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for step, more := int64(1), true; more; step++ {
				more = logoutAtStep(t, step, test.session, test.token)
			}
		})
	}
}

// logoutAtStep signs in, and signs out at the provider just before the given call to the
// store. It reports whether there was such a call.
func logoutAtStep(t *testing.T, step int64, session string, token provider.LogoutToken) bool {
	t.Helper()
	d := newDelegation(t, nil)
	elsewhere := *d
	elsewhere.store = &recordingStore{Store: d.store.Store}
	other := elsewhere.instance(nil)
	token.ID, token.Expires = "one", d.now().Add(2*time.Minute)
	var calls atomic.Int64
	var at atomic.Pointer[string]
	d.store.before = func(_ context.Context, call string) error {
		if calls.Add(1) != step {
			return nil
		}
		at.Store(&call)
		if _, err := other.users.BackChannel(context.Background(), "keycloak", &token); err != nil {
			t.Errorf("step %d, %s: the logout: %v", step, call, err)
		}
		return nil
	}
	started := d.now()
	d.clock.Advance(time.Second)
	grant := d.grant("user")
	grant.Session = session
	s, err := d.begin(t, "keycloak", grant, started)
	if s.login == nil && !errors.Is(err, auth.ErrRejected) {
		t.Errorf("step %d: got %v, want it rejected or done", step, err)
	}
	d.store.before = nil
	id, err := d.by(t, s)
	if at.Load() == nil { // there was no logout
		if err != nil {
			t.Errorf("without a logout: %v", err)
		}
		return false
	}
	if id != nil || !errors.Is(err, auth.ErrRejected) {
		t.Errorf("a logout before step %d (%.12s...) is survived: %+v, %v", step, *at.Load(), id, err)
	}
	return true
}
