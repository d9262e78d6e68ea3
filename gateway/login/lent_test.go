package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/policy"
)

// lending returns a handle under key that lives so long.
func (r *rig) lending(key string, lifetime time.Duration) Handle {
	return func(login *Login) (string, []byte, time.Time, error) {
		expires := r.now().Add(lifetime)
		value, err := json.Marshal(map[string]any{"expires": expires, "sid": login.ID})
		return key, value, expires, err
	}
}

func (r *rig) holders() *Holders {
	return &Holders{Logins: r.logins, Accounts: r.accounts, Users: r.users}
}

const month = 30 * 24 * time.Hour

// A login goes on as long as a handle that it has lent. Its session and its own tokens end at
// their time.
func TestLend(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.refreshOptions.Lifetime = 2 * time.Hour })
	for name, s := range map[string]*signedIn{"local": r.signIn(t, "alice"), "remote": r.signInAt(t, r.grant("user"))} {
		key := "grant:" + name
		login := must.Get(r.logins.Lend(t.Context(), s.login.ID, "grafana", r.lending(key, month)))(t)
		if !login.Names(key) || login.Names("grant:other") || !slices.Equal(login.Clients, []string{"grafana"}) {
			t.Errorf("%s: got %+v", name, login)
		}
		r.wantIn(t, s)
		must.Get(r.store.Get(t.Context(), key))(t)
	}
	s := r.signIn(t, "alice")
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month)))(t)
	r.clock.Advance(2*time.Hour - time.Second)
	account, _ := r.accounts.Lookup("alice")
	login, _, err := r.logins.load(t.Context(), s.login.ID)
	must.Do(t, err)
	_, left, err := r.bearer.Issue(login, account)
	if err != nil || left != time.Second {
		t.Errorf("an access token lives for %v, %v: longer than the login's own tokens", left, err)
	}
	s.access = ""
	r.clock.Advance(time.Second)
	r.wantExpired(t, s)
	r.clock.Advance(28 * 24 * time.Hour)
	if id, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now()); err != nil || id.Username != "alice" {
		t.Errorf("got %+v, %v", id, err)
	}
	r.clock.Advance(3 * 24 * time.Hour)
	if _, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now()); !errors.Is(err, auth.ErrRejected) {
		t.Errorf("after the last handle: %v", err)
	}
}

// Whatever ends logins reaches a login that lives by a handle alone, and deletes the handle.
func TestEndOfALoginThatLends(t *testing.T) {
	t.Parallel()
	ways := map[string]func(r *rig, s *signedIn, id *policy.Identity) error{
		"End": func(r *rig, s *signedIn, _ *policy.Identity) error {
			_, err := r.logins.End(context.Background(), s.login.ID)
			return err
		},
		"the user ends it": func(r *rig, s *signedIn, id *policy.Identity) error {
			_, err := r.overview().End(context.Background(), id, s.login.ID)
			return err
		},
		"the user ends all others": func(r *rig, _ *signedIn, id *policy.Identity) error {
			_, err := r.overview().EndOthers(context.Background(), id)
			return err
		},
		"an operator ends all": func(r *rig, _ *signedIn, id *policy.Identity) error {
			if id.Provider != policy.LocalProvider {
				_, err := r.overview().EndOthers(context.Background(), id)
				return err
			}
			_, err := r.overview().EndAll(context.Background(), "alice")
			return err
		},
	}
	for name, end := range ways {
		for _, kind := range []string{"local", "remote"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(r *rig) { r.refreshOptions.Lifetime = time.Hour })
				signIn := func() *signedIn { return r.signIn(t, "alice") }
				if kind == "remote" {
					signIn = func() *signedIn { return r.signInAt(t, r.grant("user")) }
				}
				var ended []string
				r.logins.OnEnd(func(login *Login) { ended = append(ended, login.ID) })
				s := signIn()
				must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month)))(t)
				for range 20 { // other logins come, and forget those that have expired
					r.clock.Advance(24 * time.Hour)
					other := signIn()
					r.end(t, other)
				}
				ended = nil
				r.op.Answers(func(context.Context, string) (*provider.Grant, error) { return r.grant("user"), nil })
				id := r.identity(t, signIn())
				must.Do(t, end(r, s, id))
				if _, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now()); !errors.Is(err, auth.ErrRejected) {
					t.Errorf("the login goes on: %v", err)
				}
				r.wantRecords(t, "grant:", 0)
				if n := slices.Index(ended, s.login.ID); n < 0 || slices.Index(ended[n+1:], s.login.ID) >= 0 {
					t.Errorf("told of the end of %q, want once %q", ended, s.login.ID)
				}
			})
		}
	}
}

// The logins of accounts that are disabled, removed or have another password end, and no
// others.
func TestEndOutdated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	changed := bob
	changed.Hash = testHash("other")
	disabled := alice
	disabled.Disabled = true
	for name, c := range map[string]struct {
		next *rig
		want []string
	}{
		"disabled": {r.withAccounts(t, disabled, bob), []string{"alice"}},
		"removed":  {r.withAccounts(t, bob), []string{"alice"}},
		"changed":  {r.withAccounts(t, alice, changed), []string{"bob"}},
		"same":     {r.withAccounts(t, alice, bob), nil},
	} {
		logins := map[string]*signedIn{"alice": r.signIn(t, "alice"), "bob": r.signIn(t, "bob")}
		var ended []string
		c.next.logins.OnEnd(func(login *Login) { ended = append(ended, login.ID) })
		must.Do(t, EndOutdated(t.Context(), c.next.overview, []string{"alice", "bob", "nobody"}))
		for user, s := range logins {
			_, err := r.bySession(t, s)
			if want := slices.Contains(c.want, user); errors.Is(err, auth.ErrRejected) != want ||
				slices.Contains(ended, s.login.ID) != want {
				t.Errorf("%s: %s has ended: %v, %q; want %v", name, user, err, ended, want)
			}
			r.end(t, s)
		}
		if c.want == nil {
			continue
		}
		s := r.signIn(t, c.want[0])
		for _, calls := range []string{"get group:", "get login:", "remove login:"} {
			r.store.Fails(calls)
			if err := EndOutdated(t.Context(), c.next.overview, c.want); err == nil {
				t.Errorf("%s: no error though the store fails to %s", name, calls)
			}
			r.store.Fails("")
		}
		r.end(t, s)
	}
}

// An account that has changed again when the turn of its login comes is taken as it is then.
func TestEndOutdatedLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	changed := alice
	changed.Hash = testHash("other")
	now := r.withAccounts(t, changed)
	logins := []*signedIn{r.signIn(t, "alice"), r.signIn(t, "alice")}
	var ended []string
	now.logins.OnEnd(func(login *Login) {
		ended = append(ended, login.ID)
		now = r // the password is the old one again
	})
	must.Do(t, EndOutdated(t.Context(), func() *Overview { return now.overview() }, []string{"alice"}))
	if len(ended) != 1 {
		t.Fatalf("the logins %q have ended, want one", ended)
	}
	for _, s := range logins {
		if s.login.ID != ended[0] {
			r.wantIn(t, s)
		}
	}
}

// OnEnd is told once of a login that several end at once, and of the one that makes room.
func TestOnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	told := make(chan string, 10)
	r.logins.OnEnd(func(login *Login) { told <- login.ID + login.Username })
	s := r.signIn(t, "alice")
	done := make(chan error)
	for range 8 {
		go func() {
			_, err := r.logins.End(context.Background(), s.login.ID)
			done <- err
		}()
	}
	for range 8 {
		must.Do(t, <-done)
	}
	if len(told) != 1 || <-told != s.login.ID+"alice" {
		t.Errorf("told %d times too often", len(told))
	}
}

// A login keeps 256 handles and forgets those that have expired.
func TestLendMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:short", time.Minute)))(t)
	r.clock.Advance(time.Minute)
	var login *Login
	for i := range maxLent + 1 {
		r.clock.Advance(time.Second)
		client := fmt.Sprintf("client %d", i%3)
		login = must.Get(r.logins.Lend(t.Context(), s.login.ID, client, r.lending(fmt.Sprintf("grant:%02d", i),
			time.Hour)))(t)
		if i == maxLent-1 {
			r.wantRecords(t, "grant:", maxLent)
		}
	}
	if login.Names("grant:short") || login.Names("grant:00") || !login.Names("grant:01") || len(login.Clients) != 3 {
		t.Errorf("got %+v", login)
	}
	r.wantRecords(t, "grant:", maxLent)
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:07", 2*time.Hour)))(t)
	r.wantRecords(t, "grant:", maxLent) // a handle again is not one more
	r.wantIn(t, s)
}

// A login keeps the names of the last 256 clients: those hear of its end.
func TestLendToManyClients(t *testing.T) {
	t.Parallel()
	login, now := &Login{}, time.Unix(1_700_000_000, 0)
	for i := range maxLent + 1 {
		login.lend(lent{Key: "grant:one", Expires: now.Add(time.Hour)}, fmt.Sprintf("client %d", i), now)
	}
	if len(login.Clients) != maxLent || slices.Contains(login.Clients, "client 0") {
		t.Errorf("the login has %d clients, the first is %s", len(login.Clients), login.Clients[0])
	}
}

// Nothing is lent by a login that has ended, also at the same moment, and a handle may
// refuse.
func TestLendRefused(t *testing.T) {
	t.Parallel()
	atEachCall(t, func(t *testing.T, r *rig, before func(func()) func() bool) {
		s := r.signIn(t, "alice")
		happened := before(func() { r.elsewhere(t).end(t, s) })
		_, err := r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month))
		if !happened() {
			return
		}
		if err != nil && !errors.Is(err, ErrNoLogin) {
			t.Errorf("got %v", err)
		}
		r.wantRecords(t, "grant:", 0)
		r.wantRecords(t, loginPrefix, 0)
	})
	r := newRig(t)
	s := r.signIn(t, "alice")
	refusal := errors.New("no")
	_, err := r.logins.Lend(t.Context(), s.login.ID, "", func(*Login) (string, []byte, time.Time, error) {
		return "", nil, time.Time{}, refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	for _, calls := range []string{"get login:", "swap group:", "put grant:", "swap login:"} {
		r.store.Fails(calls)
		_, err := r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month))
		if err == nil || errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: got %v", calls, err)
		}
	}
}

// After a new password, a login has lent nothing any more.
func TestRenewEndsWhatIsLent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month)))(t)
	changed := alice
	changed.Hash = testHash("looking-glass")
	after := r.withAccounts(t, changed, bob)
	account, _ := after.accounts.Lookup("alice")
	next := must.Get(r.renew(t, s, account))(t)
	if next.login.Names("grant:x") || next.login.Generation() != 1 || s.login.Generation() != 0 {
		t.Errorf("got %+v", next.login)
	}
	r.wantRecords(t, "grant:", 0)
}

// A login whose session has ended is in the overview while a handle lives.
func TestOverviewOfLentHandles(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.refreshOptions.Lifetime = time.Hour })
	s := r.signIn(t, "alice")
	login := must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month)))(t)
	r.clock.Advance(2 * time.Hour)
	used := r.now()
	restore(t, r.store, "grant:x", func(m *map[string]any) { (*m)["used"] = used })
	other := r.signIn(t, "alice")
	live := must.Get(r.overview().List(t.Context(), r.identity(t, other)))(t)
	at := slices.IndexFunc(live, func(l LiveLogin) bool { return l.ID == login.ID })
	if at < 0 {
		t.Fatalf("got %+v", live)
	}
	if l := live[at]; l.Mechanism != policy.Bearer || !l.LastUsed.Equal(used) ||
		!l.Expires.Equal(login.Created.Add(month)) {
		t.Errorf("got %+v", l)
	}
	must.Do(t, r.store.Delete(t.Context(), "grant:x"))
	r.wantLive(t, other, other)
}

// Holders find the user of a login as sessions do.
func TestHolders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ends := r.now().Add(time.Hour)
	local, remote := r.signIn(t, "alice"), r.signInAt(t, r.grant("user"))
	id, login, basis, err := r.holders().Find(t.Context(), local.login.ID, ends)
	if err != nil || id.Subject != "local:alice" || id.Mechanism != policy.Bearer || id.Login != local.login.ID ||
		!id.Expires.Equal(ends) || id.AuthTime.IsZero() || !id.SignedIn.Equal(local.login.Created) || login.ID != id.Login {
		t.Errorf("got %+v, %+v, %v", id, login, err)
	}
	if holds := must.Get(basis.Holds(t.Context(), r.store))(t); !holds || len(basis) != 1 {
		t.Errorf("got %+v", basis)
	}
	id, _, basis, err = r.holders().Find(t.Context(), remote.login.ID, ends)
	if err != nil || id.Subject != "keycloak:"+testPerson || id.Mechanism != policy.Bearer ||
		id.Provider != "keycloak" ||
		len(basis) != 2 {
		t.Errorf("got %+v, %+v, %v", id, basis, err)
	}
	without := &Holders{Logins: r.logins, Accounts: r.accounts}
	for name, find := range map[string]func() error{
		"never":        func() error { _, _, _, err := r.holders().Find(t.Context(), "NEVER", ends); return err },
		"no providers": func() error { _, _, _, err := without.Find(t.Context(), remote.login.ID, ends); return err },
		"disabled": func() error {
			_, _, _, err := r.withAccounts(t, bob).holders().Find(t.Context(), local.login.ID, ends)
			return err
		},
	} {
		if err := find(); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for sid, calls := range map[string]string{local.login.ID: "get login:", remote.login.ID: "get user:"} {
		r.store.Fails(calls)
		if _, _, _, err := r.holders().Find(t.Context(), sid, ends); err == nil || errors.Is(err, auth.ErrRejected) {
			t.Errorf("%s: got %v", calls, err)
		}
	}
}

// What a provider says about a user is kept and renewed as long as a handle of a login lives,
// and its end there ends the login.
func TestHoldersRenew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signInAt(t, r.grant("user"))
	must.Get(r.logins.Lend(t.Context(), s.login.ID, "", r.lending("grant:x", month)))(t)
	r.clock.Advance(10 * time.Hour)
	r.op.Answers(func(context.Context, string) (*provider.Grant, error) { return r.grant("auditor"), nil })
	id, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now().Add(time.Minute))
	if err != nil || !slices.Equal(id.Roles, []string{"auditor"}) {
		t.Errorf("got %+v, %v", id, err)
	}
	r.signInAt(t, r.grant("auditor")) // another login does not shorten what is known
	r.clock.Advance(9 * 24 * time.Hour)
	r.op.Answers(func(context.Context, string) (*provider.Grant, error) {
		return nil,
			providertest.Fails(provider.ErrTimeout)
	})
	if id, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now()); err != nil || id.Username != "alice" {
		t.Errorf("while the provider does not answer: %+v, %v", id, err)
	}
	r.clock.Advance(time.Hour)
	r.op.Answers(func(context.Context, string) (*provider.Grant, error) {
		return nil, providertest.Fails(provider.ErrEnded)
	})
	if _, _, _, err := r.holders().Find(t.Context(), s.login.ID, r.now()); !errors.Is(err, auth.ErrRejected) {
		t.Errorf("after the end at the provider: %v", err)
	}
}

// Tokens of OAuth clients are none of the login's own, even if somebody has signed them with
// the same key and type.
func TestAccessTokensOfClientsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	for _, changes := range []map[string]any{{"client_id": "grafana"}, {"client_id": nil, "header typ": "at+jwt"},
		{"client_id": ""}, {"client_id": 7}} {
		token := r.forge(t, s).with(changes).token()
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byToken(t, token))
		if sid, err := r.bearer.LoginOf(t.Context(), token); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%v: its login is %q, %v", changes, sid, err)
		}
		if _, err := r.bearer.Revoke(t.Context(), token); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("%v: it signs out, %v", changes, err)
		}
	}
	r.wantIn(t, s)
}
