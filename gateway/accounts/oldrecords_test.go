package accounts

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
)

// oldInstance writes the two records of the release before.
type oldInstance struct {
	t *testing.T
	s store.Store
}

// times writes when accounts changed last, as the last release does.
func (o oldInstance) times(at time.Time, accounts ...Account) {
	o.t.Helper()
	all := times{}
	for _, account := range newAccounts(accounts...).All() {
		all[fingerprintOf(account.version)] = at.UnixNano()
	}
	must.Do(o.t, o.s.Put(o.t.Context(), oldTimesKey, all.append([]byte("E1\n")), time.Time{}))
}

// gone writes that an account was taken.
func (o oldInstance) gone(at time.Time, account Account) {
	o.t.Helper()
	record := fmt.Sprintf(`{%q:{"gone":%d}}`, keyOf(KindLocal, &account), at.UnixNano())
	must.Do(o.t, o.s.Put(o.t.Context(), oldTakenKey, []byte(record), time.Time{}))
}

// The first instance that does not know the old records takes them over.
func TestOldRecordsAreTakenOver(t *testing.T) {
	t.Parallel()
	alice := Account{Username: "alice", Hash: passwordtest.Argon2id("one"), Roles: []string{"a", "b"}}
	bob := Account{Username: "bob", Hash: passwordtest.Argon2id("two")}
	since, loaded := time.Unix(7, 8), time.Unix(1000, 0)
	version := func(a Account) string { return version(&a) }
	asJSON := must.Get(json.Marshal(map[string]any{"alice": map[string]any{"version": version(alice), "since": since},
		"bob": map[string]any{"version": version(bob), "since": since}}))(t)
	binary := times{fingerprintOf(version(alice)): since.UnixNano(), fingerprintOf(version(bob)): since.UnixNano()}
	for name, record := range map[string][]byte{"binary": binary.append([]byte("E1\n")), "JSON": asJSON} {
		s := store.NewMemory(time.Now)
		t.Cleanup(func() { s.Close() })
		must.Do(t, s.Put(t.Context(), oldTimesKey, record, time.Time{}))
		taken := fmt.Sprintf(`{"local:%s":{"roles":{"b":%[3]d}},"local:%[2]s":{"gone":%[3]d}}`, version(alice), version(bob),
			loaded.UnixNano())
		must.Do(t, s.Put(t.Context(), oldTakenKey, []byte(taken), time.Time{}))
		now := loaded.Add(time.Hour)
		users := newAccounts(alice, bob)
		must.Do(t, users.RecordChanges(t.Context(), s, Reload{Now: now, Loaded: now}))
		if a, _ := users.Lookup("alice"); !a.Changed().Equal(since) {
			t.Errorf("%s: alice changed at %s, want the time of the old record", name, a.Changed())
		}
		if b, _ := users.Lookup("bob"); !b.Changed().Equal(now) {
			t.Errorf("%s: bob was taken and is back: changed at %s, want %s", name, b.Changed(), now)
		}
		for _, key := range []string{oldTimesKey, oldTakenKey} { // the new record has it all
			must.Do(t, s.Delete(t.Context(), key))
		}
		c := must.Get(ReadChanges(t.Context(), s))(t)
		theirs := []Account{alice, bob}
		if got := fmt.Sprint(c.Apply(KindLocal, theirs, loaded)); got != `[local:alice ["b"] local:bob]` {
			t.Errorf("%s: %s is taken", name, got)
		}
		if users.Moved(c) {
			t.Errorf("%s: the new record has other times than the accounts", name)
		}
	}
}

// An instance of the release before can make less valid, and brings nothing back.
func TestOldInstanceBesideANewOne(t *testing.T) {
	t.Parallel()
	alice := Account{Username: "alice", Hash: passwordtest.Argon2id("one")}
	bob := Account{Username: "bob", Hash: passwordtest.Argon2id("two")}
	second := func(n int64) time.Time { return time.Unix(1000+n, 0) }
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	old := oldInstance{t, s}
	running := (*Set)(nil)
	load := func(at time.Time, users ...Account) *Set {
		t.Helper()
		a := newAccounts(slices.Clone(users)...)
		must.Do(t, a.RecordChanges(t.Context(), s, Reload{Now: at, Loaded: at, Running: running}))
		running = a
		return a
	}
	want := func(a *Set, username string, at time.Time) {
		t.Helper()
		if account, _ := a.Lookup(username); !account.Changed().Equal(at) {
			t.Errorf("%s changed at %s, want %s", username, account.Changed(), at)
		}
	}
	old.times(second(1), alice, bob)
	here := load(second(2), alice, bob)
	want(here, "bob", second(1))

	// Removed here: the old record, which still has bob, does not bring the logins back.
	load(second(3), alice)
	here = load(second(4), alice, bob)
	want(here, "bob", second(4))
	want(here, "alice", second(1))

	// Changed there: it has changed here.
	old.times(second(5), alice, bob)
	if c := must.Get(here.FollowChanges(t.Context(), s))(t); c == nil || !here.Moved(c) {
		t.Errorf("the change of the old instance is not seen: %+v", c)
	}
	here = load(second(6), alice, bob)
	want(here, "bob", second(5))

	// Taken there: it is out here, and has changed when it is back.
	old.times(second(5), alice)
	old.gone(second(7), bob)
	c := must.Get(here.FollowChanges(t.Context(), s))(t)
	if got := fmt.Sprint(c.Apply(KindLocal, []Account{alice, bob}, second(6))); got != "[local:bob]" {
		t.Errorf("%s is taken, want bob", got)
	}
	want(load(second(8), alice, bob), "bob", second(8))

	// The old instance forgets what it took: here, it stays so.
	must.Do(t, s.Put(t.Context(), oldTakenKey, []byte("{}"), time.Time{}))
	c = must.Get(ReadChanges(t.Context(), s))(t)
	if got := fmt.Sprint(c.Apply(KindLocal, []Account{alice, bob}, second(6))); got != "[local:bob]" {
		t.Errorf("%s is taken, want bob", got)
	}
	// A store that comes back with the old records alone gets the new one again.
	here.Agree(c)
	must.Do(t, s.Delete(t.Context(), changesKey))
	must.Get(here.FollowChanges(t.Context(), s))(t)
	c = must.Get(ReadChanges(t.Context(), s))(t)
	if got := fmt.Sprint(c.Apply(KindLocal, []Account{alice, bob}, second(6))); got != "[local:bob]" {
		t.Errorf("%s is taken, want bob", got)
	}

	for _, key := range []string{oldTimesKey, oldTakenKey} {
		must.Do(t, s.Put(t.Context(), key, []byte("{"), time.Time{}))
		if c, err := ReadChanges(t.Context(), s); err == nil {
			t.Errorf("a damaged record %s is read as %+v", key, c)
		}
		must.Do(t, s.Delete(t.Context(), key))
	}
}
