package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
)

// wantMembers fails the test unless exactly these logins are in the group.
func (r *rig) wantMembers(tb testing.TB, key string, want ...*signedIn) {
	tb.Helper()
	var sids, wanted []string
	for _, m := range stored[group](tb, r.store, key).Members {
		sids = append(sids, m.Login)
	}
	for _, s := range want {
		wanted = append(wanted, s.login.ID)
	}
	slices.Sort(sids)
	slices.Sort(wanted)
	if !slices.Equal(sids, wanted) {
		tb.Errorf("the members are %q, want %q", sids, wanted)
	}
}

// Expired logins leave their group and are not counted.
func TestExpiredLoginsLeaveTheirGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range maxGroup {
		r.signInAt(t, r.grant("user"))
	}
	r.clock.Advance(30 * time.Minute)
	young := r.signInAt(t, r.grant("user")) // instead of the first
	r.clock.Advance(30 * time.Minute)
	s := r.signInAt(t, r.grant("user"))
	r.wantIn(t, young, "user")
	r.wantMembers(t, personGroup("keycloak", testOP, testPerson), young, s)
	r.clock.Advance(30 * time.Minute) // the end of young
	r.wantMembers(t, personGroup("keycloak", testOP, testPerson), s, r.signInAt(t, r.grant("user")))
}

// Logins that have ended, and are still members, make room for a new one.
func TestEndedLoginsMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.signInAt(t, r.grant("user"))
	var ended *signedIn
	for range maxGroup - 1 {
		ended = r.signInAt(t, r.grant("user"))
	}
	must.Do(t, r.store.Delete(t.Context(), loginPrefix+ended.login.ID))
	r.wantIn(t, r.signInAt(t, r.grant("user")), "user")
	r.wantIn(t, first, "user")
	if got := len(stored[group](t, r.store, personGroup("keycloak", testOP, testPerson)).Members); got != maxGroup {
		t.Errorf("%d members, want %d", got, maxGroup)
	}
}

// Of two instances that change a group at the same time, the later one changes what the
// other wrote.
func TestConcurrentLoginsAllJoin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	elsewhere := r.elsewhere(t)
	var first *signedIn
	r.store.Once("swap "+groupPrefix, func() { first = elsewhere.signInAt(t, r.grant("user")) })
	second := r.signInAt(t, r.grant("user"))
	r.wantMembers(t, personGroup("keycloak", testOP, testPerson), first, second)
	r.wantMembers(t, sessionGroup("keycloak", testOP, testSession), first, second)
}

// While one change of a group is written, the others wait and share the next write.
// Another group does not wait.
func TestGroupChangesShareWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		swap, hold := "swap "+groupKey("account", "alice"), make(chan struct{})
		r.store.Once(swap, func() { <-hold })
		begin := func(username string) {
			if _, err := r.logins.Begin(t.Context(), &accounts.Account{Username: username}, Device{},
				Term{Lifetime: time.Hour}, nil); err != nil {
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
		if n := len(stored[group](t, r.store, groupKey("account", "alice")).Members); n != 50 {
			t.Errorf("%d logins are in the group, want 50", n)
		}
		writes := 0
		for _, call := range r.store.TakeCalls() {
			if call == swap {
				writes++
			}
		}
		if writes != 2 {
			t.Errorf("%d writes, want 2", writes)
		}
		synctest.Wait()
		if n := len(r.logins.groups.waiting); n != 0 {
			t.Errorf("%d groups are still being changed", n)
		}
	})
}

// If an account has too many logins, the oldest valid one ends. A login that ends leaves
// nothing in the store.
func TestOneAccountHasSoManyLogins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	account, _ := r.accounts.Lookup("alice")
	var all []*Login
	begin := func() error {
		login, err := r.logins.Begin(t.Context(), account, Device{}, Term{Lifetime: time.Hour}, nil)
		if err == nil {
			all = append(all, login)
		}
		return err
	}
	for range maxGroup {
		must.Do(t, begin())
	}
	must.Get(r.logins.End(t.Context(), all[100].ID))(t)
	must.Do(t, begin())
	r.store.Fails("remove login:" + all[0].ID) // the oldest, which must end
	if err := begin(); !errors.Is(err, errStore) {
		t.Errorf("a login that is one too many: got %v, want the error of the store", err)
	}
	r.store.Fails("")
	must.Do(t, begin())
	must.Do(t, begin())
	for i, login := range all {
		_, err := r.logins.readRecord(t.Context(), loginPrefix+login.ID)
		if want := i > 1 && i != 100; (err == nil) != want {
			t.Errorf("login %d is alive: %t", i, !want)
		}
		must.Get(r.logins.End(t.Context(), login.ID))(t)
	}
	r.wantRecords(t, "", 0)
}

// A person who has signed out is not signed in by an older attempt, but by a new one. The
// group remembers this for longer than the last attempt takes, and then leaves the store.
func TestAttemptsFromBeforeTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.now = func() time.Time { return r.clock.Now().In(time.FixedZone("", 17*60)) } // in any time zone
	})
	before, s := r.now(), r.signInAt(t, r.grant("user"))
	r.clock.Advance(1)
	must.Get(r.users.BackChannel(t.Context(), "keycloak", r.logoutToken("one", testPerson, "")))(t)
	r.wantOut(t, s)
	r.wantMembers(t, personGroup("keycloak", testOP, testPerson))
	try := func(started time.Time, want bool) {
		t.Helper()
		s, err := r.beginAt(t, "keycloak", r.grant("user"), started)
		if want {
			must.Do(t, err)
			r.wantIn(t, s, "user")
			return
		}
		wantRejected(t, auth.DetailNotSignedIn, "were ended during the login")(nil, err)
		r.wantOut(t, s)
	}
	ended := r.now()
	try(before, false)
	r.clock.Advance(journey.AttemptLifetime - 2 + 30*time.Second) // three calls of ten seconds
	try(before, false)
	try(ended, false)
	try(ended.Add(1), true)
	try(before, false)
	r.clock.Advance(auth.TraceLifetime + time.Hour + time.Second) // the last second counts to its end
	r.wantRecords(t, "", 0)
}

// A logout at the provider can arrive at any step of a login. The login never survives.
func TestNoLoginSurvivesALogoutInItsMiddle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, session, tokenSub, tokenSession string }{
		{"by sub", testSession, testPerson, ""},
		{"by sid", testSession, "", testSession},
		{"by both", testSession, testPerson, testSession},
		{"by sub, of a login without sid", "", testPerson, ""},
		{"by both, of a login without sid", "", testPerson, testSession},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			atEachCall(t, func(t *testing.T, r *rig, before func(func()) func() bool) {
				elsewhere, started := r.elsewhere(t), r.now()
				r.clock.Advance(time.Second)
				grant := r.grant("user")
				grant.Session = test.session
				signedOut := before(func() {
					if _, err := elsewhere.users.BackChannel(context.Background(),
						"keycloak", r.logoutToken("one", test.tokenSub, test.tokenSession)); err != nil {
						t.Errorf("the logout: %v", err)
					}
				})
				s, err := r.beginAt(t, "keycloak", grant, started)
				if s.login == nil && !errors.Is(err, auth.ErrRejected) {
					t.Errorf("got %v, want it rejected or done", err)
				}
				if signedOut() {
					r.wantOut(t, s)
				} else {
					r.wantIn(t, s, "user")
				}
			})
		})
	}
}

// A caller that leaves while its login is added to a group reads nothing that the
// change still writes. The race detector sees it.
func TestJoinIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.store.Once("get ", cancel)
		login := &Login{ID: "sid", Created: r.now(), Expires: r.now().Add(time.Hour)}
		if err := r.logins.groups.join(ctx, "group", login, r.now()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait() // for the change
	})
}

// The record of a group is the JSON that earlier versions read and write, and so is one that they
// have written in another way. What is no such record is an error.
func TestGroupIsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 5000, time.FixedZone("", 17*60))
	ids := []string{rand.Text(), rand.Text(), rand.Text()}
	for _, ended := range []time.Time{{}, at.UTC(), at} {
		for n := range 4 {
			now := &group{Ended: ended}
			for i, id := range ids[:n] {
				now.Members = append(now.Members, member{Login: id, Expires: at.Add(time.Duration(i) * time.Hour)})
			}
			want := must.Get(json.Marshal(now))(t)
			if got := must.Get(now.encode())(t); !bytes.Equal(got, want) {
				t.Errorf("the record is %s, want %s", got, want)
			}
			indented := must.Get(json.MarshalIndent(now, "", " "))(t)
			for _, raw := range [][]byte{want, indented} {
				if got := must.Get(must.Get(decodeGroup(raw))(t).encode())(t); !bytes.Equal(got, want) {
					t.Errorf("%s is read as %s", raw, got)
				}
			}
		}
	}
	strange := `{"members":[{"sid":"a\"b","expires":"2026-11-29T12:00:00Z"}]}`
	now := must.Get(decodeGroup([]byte(strange)))(t)
	if got := now.Members; len(got) != 1 || got[0].Login != `a"b` {
		t.Errorf("%s is read as %v", strange, got)
	}
	if got := must.Get(now.encode())(t); string(got) != strange {
		t.Errorf("%s is written as %s", strange, got)
	}
	const one = `"members":[{"sid":"A","expires":"2026-11-29T12:00:00Z"}]`
	for _, damaged := range []string{`{"members":[{"sid":"A","expires":"soon"}]}`, `{"members":[{"sid":"A"}]}x`,
		`{"ended":1,` + one + `}`, `{,` + one + `}`, `{"ended":"2026-11-29T12:00:00Z"` + one + `}`, `{`} {
		if now, err := decodeGroup([]byte(damaged)); err == nil {
			t.Errorf("%s is read as %v", damaged, now)
		}
	}
}
