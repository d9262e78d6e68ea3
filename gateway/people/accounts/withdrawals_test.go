package accounts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/passwordtest"
)

// A reload of one instance withdraws from another the accounts and roles that it withdraws from its
// own users, unless the other was loaded later.
func TestWithdrawals(t *testing.T) {
	t.Parallel()
	old, changed := passwordtest.Argon2id("old"), passwordtest.Argon2id("new")
	user := func(roles ...string) []Account { return []Account{{Username: "u", Roles: roles, Hash: old}} }
	disabled := []Account{{Username: "u", Roles: []string{"a"}, Hash: old, Disabled: true}}
	none := []Account{}
	for name, c := range map[string]struct {
		steps  [][]Account // of the instance that is reloaded
		theirs []Account
		want   string
	}{
		"removed":               {[][]Account{user("a"), none}, user("a"), "[local:u]"},
		"disabled":              {[][]Account{user("a"), disabled}, user("a"), "[local:u]"},
		"disabled at the start": {[][]Account{nil, disabled}, user("a"), "[local:u]"},
		"missing at the start":  {[][]Account{nil, none}, user("a"), "[]"},
		"another password":      {[][]Account{user("a"), {{Username: "u", Hash: changed}}}, user("a"), "[local:u]"},
		"of the same user again": {[][]Account{user("a"), {{Username: "u", Hash: changed}}},
			[]Account{{Username: "u", Hash: changed}}, "[]"},
		"a namesake":           {[][]Account{user("a"), {{Username: "u", Hash: old, ID: "2"}}}, user("a"), "[local:u]"},
		"a role":               {[][]Account{user("a", "b", "c"), user("a")}, user("a", "b"), `[local:u ["b"]]`},
		"a role, and the rest": {[][]Account{user("a", "b"), user("a"), none}, user("a", "b"), "[local:u]"},
		"nothing":              {[][]Account{user("a"), user("a")}, user("a"), "[]"},
		"a new role":           {[][]Account{user("a"), user("a", "b")}, user("a"), "[]"},
		"given back":           {[][]Account{user("a"), none, user("a")}, user("a"), "[]"},
		"enabled again":        {[][]Account{user("a"), disabled, user("a")}, user("a"), "[]"},
		"a role given back": {[][]Account{user("a", "b", "c"), user("a"), user("a", "b")}, user("a", "b", "c"),
			`[local:u ["c"]]`},
		"a start gives nothing":  {[][]Account{user("a"), none, nil, user("a")}, user("a"), "[local:u]"},
		"disabled there already": {[][]Account{user("a"), none}, disabled, "[]"},
	} {
		clock := clocktest.At(time.Unix(1000, 0))
		s := store.NewMemory(clock.Now)
		defer s.Close()
		loaded := clock.Now()
		for i := 1; i < len(c.steps); i++ {
			clock.Advance(time.Second)
			if c.steps[i] == nil {
				continue // the instance stops
			}
			if err := tell(t, s, clock.Now(), Change{KindLocal, c.steps[i-1], c.steps[i]}); err != nil {
				t.Fatal(err)
			}
		}
		w, err := ReadChanges(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		theirs := slices.Clone(c.theirs)
		if got := fmt.Sprint(w.Apply(KindLocal, theirs, loaded)); got != c.want {
			t.Errorf("%s: %s is taken, want %s", name, got, c.want)
		}
		if taken := c.want == "[local:u]"; theirs[0].Disabled != (taken || c.theirs[0].Disabled) {
			t.Errorf("%s: the account is %+v", name, theirs[0])
		}
		if c.want == `[local:u ["b"]]` && !slices.Equal(theirs[0].Roles, []string{"a"}) {
			t.Errorf("%s: the roles are %q", name, theirs[0].Roles)
		}
		if got := w.Apply(KindBasic, slices.Clone(c.theirs), loaded); got != nil {
			t.Errorf("%s: %q is withdrawn from users of another kind", name, got)
		}
		if got := w.Apply(KindLocal, slices.Clone(c.theirs), clock.Now().Add(1)); got != nil {
			t.Errorf("%s: %q is taken from an instance that was loaded later", name, got)
		}
	}
}

// Each role has its own time.
func TestWithdrawnRoles(t *testing.T) {
	t.Parallel()
	clock := clocktest.At(time.Unix(1000, 0))
	s := store.NewMemory(clock.Now)
	defer s.Close()
	with := func(roles ...string) []Account {
		return []Account{{Username: "u", Roles: roles, Hash: passwordtest.Argon2id("x")}}
	}
	all := with("a", "b", "c")
	update := func(before, after []Account) time.Time {
		t.Helper()
		clock.Advance(time.Second)
		if err := tell(t, s, clock.Now(), Change{KindLocal, before, after}); err != nil {
			t.Fatal(err)
		}
		return clock.Now()
	}
	b, c := slices.Clone(all), slices.Clone(all)
	b[0].Roles, c[0].Roles = []string{"a", "c"}, []string{"a"}
	between := update(all, b).Add(1)
	update(b, c)
	w, err := ReadChanges(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	theirs := slices.Clone(all)
	if got := fmt.Sprint(w.Apply(KindLocal, theirs, between)); got != `[local:u ["c"]]` {
		t.Errorf("%s is taken", got)
	}
	clock.Advance(withdrawalLife + time.Minute)
	update(theirs, theirs)
	if w, err = ReadChanges(t.Context(), s); err != nil || len(w.withdrawals) != 0 {
		t.Errorf("after a year, the record has %v, %v", w.withdrawals, err)
	}
}

// tell records a change at a time, by an instance without accounts.
func tell(t *testing.T, s store.Store, at time.Time, change Change) error {
	t.Helper()
	return newAccounts().RecordChanges(t.Context(), s, Reload{Now: at, Loaded: at, Changes: []Change{change}})
}
