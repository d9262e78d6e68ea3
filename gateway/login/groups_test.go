package login

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
)

// group returns a group of the store.
func (r *rig) group(tb testing.TB, key string) *group {
	tb.Helper()
	return must.Get(decodeGroup(must.Get(r.store.Get(tb.Context(), key))(tb)))(tb)
}

// wantMembers fails the test unless exactly these logins are in the group.
func (r *rig) wantMembers(tb testing.TB, key string, want ...*signedIn) {
	tb.Helper()
	var sids, wanted []string
	for _, m := range r.group(tb, key).Members {
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
	if got := len(r.group(t, personGroup("keycloak", testOP, testPerson)).Members); got != maxGroup {
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
		if n := len(r.group(t, groupKey("account", "alice")).Members); n != 50 {
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
		login := &Login{ID: rand.Text(), Created: r.now(), Expires: r.now().Add(time.Hour)}
		if err := r.logins.groups.join(ctx, "group", login, r.now()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait() // for the change
	})
}

// The record of a group holds what the group was, also with members that no gateway makes. What is no record of a
// group is an error.
func TestGroupIsKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 5001, time.FixedZone("", 17*60))
	for _, ended := range []time.Time{{}, at.UTC(), at} {
		for n := range 4 {
			now := &group{Ended: ended}
			for i := range n {
				now.Members = append(now.Members, member{rand.Text(), at.Add(time.Duration(i) * time.Hour)})
			}
			wantGroup(t, must.Get(now.edited())(t).Value, now)
		}
	}
	for _, sid := range []string{"", `a"b`, rand.Text()[1:], rand.Text() + "A"} {
		now := &group{Ended: at, Members: []member{{rand.Text(), at}, {sid, at}}}
		wantGroup(t, must.Get(now.edited())(t).Value, now)
	}
	whole := string(must.Get((&group{Members: []member{{rand.Text(), at}}}).edited())(t).Value)
	for _, damaged := range []string{"", "{", `{"members":[{"sid":"A","expires":"soon"}]}`, `{"members":[]}x`,
		whole[:len(whole)-1], whole[:5], whole + "x", "\x02" + whole[1:]} {
		if now, err := decodeGroup([]byte(damaged)); err == nil {
			t.Errorf("%q is read as %v", damaged, now)
		}
	}
}

// Logins that end after 2262, the last year that the record can tell, end together too.
func TestFarLoginsEndTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		must.Get(r.logins.Begin(t.Context(), &accounts.Account{Username: "alice"}, Device{},
			Term{Lifetime: 280 * 365 * 24 * time.Hour}, nil))(t)
	}
	ended := must.Get(r.logins.groups.endLogins(t.Context(), groupKey("account", "alice"), false, ""))(t)
	if len(ended) != 3 {
		t.Errorf("%d logins have ended, want 3", len(ended))
	}
}

// wantGroup fails the test unless this is the record of that group.
func wantGroup(t *testing.T, raw []byte, want *group) {
	t.Helper()
	if diff := cmp.Diff(want, must.Get(decodeGroup(raw))(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%q (-want +got):\n%s", raw, diff)
	}
}

// An account keeps all its logins when the gateway in the place of an earlier version reads its group.
func TestGroupOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := personGroup("keycloak", testOP, testPerson)
	first := r.signInAt(t, r.grant("user"))
	before := must.Get(json.Marshal(r.group(t, key)))(t)
	must.Do(t, r.store.Put(t.Context(), key, before, first.login.Expires))
	second := r.signInAt(t, r.grant("user"))
	r.wantMembers(t, key, first, second)
	must.Do(t, r.store.Put(t.Context(), key, before, first.login.Expires))
	must.Get(r.users.BackChannel(t.Context(), "keycloak", r.logoutToken("one", testPerson, "")))(t)
	r.wantOut(t, first)
}
