package login

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/must"
	"authgate/policy"
)

func (r *rig) overview() *Overview {
	return &Overview{Logins: r.logins, Accounts: r.accounts, Sessions: r.session, Users: r.users, Delegated: r.delegated}
}

// identity returns the identity of a client by what it has.
func (r *rig) identity(tb testing.TB, s *signedIn) *policy.Identity {
	tb.Helper()
	return must.Get(r.bySession(tb, s))(tb)
}

// wantLive fails the test unless the overview of s has these logins, in this order.
func (r *rig) wantLive(tb testing.TB, s *signedIn, want ...*signedIn) {
	tb.Helper()
	var got, ids []string
	for _, live := range must.Get(r.overview().List(tb.Context(), r.identity(tb, s)))(tb) {
		got = append(got, live.ID)
	}
	for _, w := range want {
		ids = append(ids, w.login.ID)
	}
	if !slices.Equal(got, ids) {
		tb.Errorf("the live logins are %q, want %q", got, ids)
	}
}

// The overview of a user has their own live logins, each with its device and times.
func TestOverview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.signIn(t, "alice")
		r.signIn(t, "bob")
		r.clock.Advance(time.Minute)
		second := r.signIn(t, "alice")
		id := r.identity(t, second)
		account, _ := r.accounts.Lookup("alice")
		token, handle := r.refresh.New(testDevice)
		tokens := &signedIn{}
		term := Term{Lifetime: 24 * time.Hour}
		tokens.login = must.Get(r.logins.Begin(t.Context(), account, Device{}, term, nil, handle))(t)
		r.clock.Advance(10 * time.Minute)
		r.wantRotated(t, token)
		r.clock.Advance(time.Minute)
		used := r.now()
		r.identity(t, first)
		synctest.Wait() // for the note

		live := must.Get(r.overview().List(t.Context(), id))(t)
		want := []LiveLogin{
			{first.login.ID, policy.Session, "local", first.login.Created, used, first.login.Expires, DeviceOf(testDevice)},
			{tokens.login.ID, policy.Bearer, "local", tokens.login.Created, used.Add(-time.Minute),
				tokens.login.Created.Add(7 * 24 * time.Hour), Device{}},
			{second.login.ID, policy.Session, "local", second.login.Created, second.login.Created,
				second.login.Expires, DeviceOf(testDevice)},
		}
		for i := range min(len(live), len(want)) {
			g, w := live[i], want[i]
			if g.ID != w.ID || g.Mechanism != w.Mechanism || g.Provider != w.Provider || g.Device != w.Device ||
				!g.Created.Equal(w.Created) || !g.LastUsed.Equal(w.LastUsed) || !g.Expires.Equal(w.Expires) {
				t.Errorf("login %d is\n%+v, want\n%+v", i, g, w)
			}
		}
		if len(live) != len(want) {
			t.Errorf("%d logins, want %d", len(live), len(want))
		}
		r.end(t, second)
		r.wantLive(t, first, first, tokens)
		r.clock.Advance(49 * time.Minute) // the session of first has expired, and its tokens have not
		other := r.signIn(t, "alice")
		r.wantLive(t, other, other, tokens, first)
	})
}

// A login counts while something opens it.
func TestOverviewOfSessionsThatEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.sessionOptions.Idle = 8 * time.Minute })
	account, _ := r.accounts.Lookup("alice")
	session := func() *signedIn {
		id, handle := r.session.New("")
		term := Term{Lifetime: time.Hour}
		return &signedIn{session: id, login: must.Get(r.logins.Begin(t.Context(), account, Device{}, term, nil, handle))(t)}
	}
	idle := session()
	r.clock.Advance(8 * time.Minute)
	r.wantExpired(t, idle)
	here := session()
	r.wantLive(t, here, here, idle) // another instance may have seen a request
	r.clock.Advance(time.Minute)
	r.wantLive(t, here, here)
	must.Do(t, r.store.Delete(t.Context(), idle.login.Handles[0]))
	shorter := r.instance(t, func(r *rig) { r.sessionOptions = SessionOptions{Lifetime: 30 * time.Second} })
	late := session()
	shorter.wantLive(t, late, late)
}

// Logins of a provider's user are those of the same person there.
func TestOverviewOfProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signInAt(t, r.grant("user"))
	r.clock.Advance(time.Second)
	other := r.signInAt(t, r.grant("user"))
	local := r.signIn(t, "alice")
	r.wantLive(t, s, other, s)
	r.wantLive(t, local, local)
	live := must.Get(r.overview().List(t.Context(), r.identity(t, s)))(t)
	if l := live[0]; l.Mechanism != policy.OIDC || l.Provider != "keycloak" ||
		l.Device != DeviceOf(testDevice) || !l.Expires.Equal(other.login.Expires) {
		t.Errorf("got %+v", l)
	}
	overview := r.overview()
	if _, err := overview.End(t.Context(), r.identity(t, s), local.login.ID); !errors.Is(err, ErrNoLogin) {
		t.Errorf("the login of a local account is ended: %v", err)
	}
	if ended := must.Get(overview.EndOthers(t.Context(), r.identity(t, s)))(t); len(ended) != 1 ||
		ended[0].ID != other.login.ID || ended[0].Delegated == nil {
		t.Errorf("ended %+v", ended)
	}
	r.wantOut(t, other)
	r.wantIn(t, s)
	r.wantIn(t, local)
	// Another issuer of that name is another provider.
	moved := r.instance(t, func(r *rig) {
		r.usersOptions.Providers["keycloak"] = providerAt("https://id.example.net")
	})
	if live := must.Get(moved.overview().List(t.Context(), r.identity(t, s)))(t); len(live) != 0 {
		t.Errorf("got %+v", live)
	}
	// The user of another issuer of tokens has none.
	id := &policy.Identity{Username: "alice", Provider: "plain", Mechanism: policy.Bearer}
	if live := must.Get(overview.List(t.Context(), id))(t); len(live) != 0 {
		t.Errorf("got %+v", live)
	}
	if ended := must.Get(overview.EndOthers(t.Context(), id))(t); len(ended) != 0 {
		t.Errorf("ended %+v", ended)
	}
	if _, err := overview.End(t.Context(), id, local.login.ID); !errors.Is(err, ErrNoLogin) {
		t.Errorf("got %v", err)
	}
}

// A user ends their own logins and no others.
func TestOverviewEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alice, other, third, bob := r.signIn(t, "alice"), r.signIn(t, "alice"), r.signIn(t, "alice"), r.signIn(t, "bob")
	id, overview := r.identity(t, alice), r.overview()
	for _, sid := range []string{"", "x", bob.login.ID, bob.login.ID + "x", "\x00", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if _, err := overview.End(t.Context(), id, sid); !errors.Is(err, ErrNoLogin) {
			t.Errorf("%q: got %v", sid, err)
		}
	}
	if ended := must.Get(overview.End(t.Context(), id, other.login.ID))(t); ended.ID != other.login.ID {
		t.Errorf("ended %+v", ended)
	}
	r.wantOut(t, other)
	if _, err := overview.End(t.Context(), id, other.login.ID); !errors.Is(err, ErrNoLogin) {
		t.Errorf("ended twice: %v", err)
	}
	if ended := must.Get(overview.EndOthers(t.Context(), id))(t); len(ended) != 1 || ended[0].ID != third.login.ID {
		t.Errorf("ended %+v", ended)
	}
	r.wantOut(t, third)
	r.wantIn(t, alice)
	r.wantIn(t, bob)
	r.wantMembers(t, groupKey("account", "alice"), alice)
}

// A login that is beginning while all others end does not survive.
func TestEndOthersDuringALogin(t *testing.T) {
	t.Parallel()
	atEachCall(t, func(t *testing.T, r *rig, before func(func()) func() bool) {
		s := r.signIn(t, "alice")
		id := r.identity(t, s)
		happened := before(func() { must.Get(r.elsewhere(t).overview().EndOthers(t.Context(), id))(t) })
		r.clock.Advance(1)
		account, _ := r.accounts.Lookup("alice")
		other, err := r.begin(t, account)
		if !happened() {
			return
		}
		if err == nil {
			r.wantOut(t, other)
		} else if !errors.Is(err, auth.ErrRejected) {
			t.Errorf("got %v", err)
		}
		r.wantIn(t, s)
	})
}

// A store that fails is an error, and never an overview without some logins.
func TestOverviewWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	id := r.identity(t, s)
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "grafana", r.lending("grant:one", month)))(t)
	for _, calls := range []string{"get group:", "get login:", "get session:", "get refresh:", "get grant:"} {
		r.store.Fails(calls)
		if live, err := r.overview().List(t.Context(), id); err == nil ||
			errors.Is(err, auth.ErrRejected) || errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: got %+v, %v", calls, live, err)
		}
	}
	for _, calls := range []string{"get login:", "remove login:"} {
		r.store.Fails(calls)
		if _, err := r.overview().End(t.Context(), id, s.login.ID); err == nil || errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: got %v", calls, err)
		}
	}
	r.store.Fails("")
	r.wantIn(t, s)
}
