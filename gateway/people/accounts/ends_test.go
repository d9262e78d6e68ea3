package accounts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
	"authgate/policy"
)

// at returns an end.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	return must.Get(ParseTime(text))(t)
}

// A time has an offset. A time that RFC 3339 does not have is an error, also if package time takes it.
func TestParseTime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"2026-12-04T18:00:00Z", "2026-12-04t18:00:00z", "2026-12-04T19:00:00+01:00", "2026-12-04T18:00:00.000-00:00",
		"2026-12-05T17:59:00+23:59",
	} {
		if end, err := ParseTime(text); err != nil || end.Unix() != 1796407200 {
			t.Errorf("%s: %v, %v", text, end, err)
		}
	}
	for _, text := range []string{
		"", "2026-12-04", "2026-12-04T18:00:00", "2026-12-04 18:00:00Z", "2026-12-04T18:00Z", "2026-12-04T8:00:00Z",
		"2026-12-04T24:00:00Z", "2026-02-30T18:00:00Z", "10000-01-01T00:00:00Z", "1796407200", "2026-12-04T18:00:00+1:00",
		"2026-12-04T18:00:00,5Z", "2026-12-04T18:00:00+24:00", "2026-12-04T18:00:00-24:00", "2026-12-04T18:00:00+01:60",
		"2016-12-31T23:59:60Z", "2026-12-04T18:00:00\u017f",
	} {
		if end, err := ParseTime(text); err == nil {
			t.Errorf("%q is %v", text, end)
		}
	}
}

// From its end on, an account is as if disabled, and a role is not there: at that time, and not before. The
// year 1 has ended, and nothing ends in the year 9999.
func TestEnds(t *testing.T) {
	t.Parallel()
	clock := clocktest.At(at(t, "2026-11-30T10:00:00Z"))
	set := New([]Account{
		{Username: "carol", Hash: passwordtest.Argon2id("x"), Until: at(t, "2026-11-30T10:00:20Z"),
			Roles: []string{"user", "admin"}, RoleEnds: map[string]time.Time{"admin": at(t, "2026-11-30T11:00:10+01:00")}},
		{Username: "gone", Hash: passwordtest.Argon2id("x"), Until: at(t, "0001-01-01T00:00:00Z")},
		{Username: "always", Hash: passwordtest.Argon2id("x"), Until: at(t, "9999-12-31T23:59:59-12:00"),
			Roles:    []string{"late", "early"},
			RoleEnds: map[string]time.Time{"late": at(t, "9999-01-01T00:00:00Z"), "early": at(t, "0001-01-01T00:00:00Z")}},
	}, testDecoys, clock.Now)
	state := func() (text string) {
		for _, name := range []string{"always", "carol", "gone"} {
			account, ok := set.Lookup(name)
			target, hash := set.Target(name)
			if ok != (target != nil) || hash.Encoded() == "" {
				t.Errorf("%s: Lookup tells %t, and Target %v", name, ok, target)
			}
			if ok {
				id := account.Identity(policy.Session, "", time.Time{})
				text += fmt.Sprintf("%s %v until %v; ", name, id.Roles, id.Until().Unix())
			}
		}
		return text
	}
	never := time.Time{}.Unix()
	for _, step := range []struct {
		passes time.Duration
		want   string
	}{
		{0, fmt.Sprintf("always [late] until %d; carol [user admin] until 1796032810; ", never)},
		{10*time.Second - 1, fmt.Sprintf("always [late] until %d; carol [user admin] until 1796032810; ", never)},
		{1, fmt.Sprintf("always [late] until %d; carol [user] until 1796032820; ", never)},
		{10*time.Second - 1, fmt.Sprintf("always [late] until %d; carol [user] until 1796032820; ", never)},
		{1, fmt.Sprintf("always [late] until %d; ", never)},
	} {
		clock.Advance(step.passes)
		if got := state(); got != step.want {
			t.Errorf("at %v:\n%s, want\n%s", clock.Now(), got, step.want)
		}
	}
	want := []End{{At: at(t, "2026-11-30T11:00:10+01:00"), Username: "carol", Role: "admin"},
		{At: at(t, "2026-11-30T10:00:20Z"), Username: "carol"}}
	for _, c := range []struct {
		after, until string
		want         []End
	}{
		{"2026-11-30T10:00:00Z", "2026-11-30T10:00:20Z", want}, {"2026-11-30T10:00:00Z", "2026-11-30T10:00:19Z", want[:1]},
		{"2026-11-30T10:00:10Z", "2026-11-30T10:00:20Z", want[1:]}, {"2026-11-30T10:00:20Z", "2026-12-30T10:00:20Z", nil},
		{"2026-11-30T10:00:20Z", "2026-11-30T10:00:00Z", nil}, {"2026-11-30T09:00:00Z", "2026-11-30T10:00:09Z", nil},
	} {
		if got := set.Ends(at(t, c.after), at(t, c.until)); !slices.Equal(got, c.want) {
			t.Errorf("from %s to %s: %v, want %v", c.after, c.until, got, c.want)
		}
	}
}

// A role that the account has keeps its end, whatever time is given. A new one, and one that has ended, get it.
func TestGiveRoles(t *testing.T) {
	t.Parallel()
	now, later := at(t, "2026-11-30T10:00:00Z"), at(t, "2026-12-30T10:00:00Z")
	coming := at(t, "2026-12-01T10:00:00Z")
	a := Account{Roles: []string{"a", "b", "c", "d"}, RoleEnds: map[string]time.Time{"b": coming, "c": now, "d": coming}}
	a.GiveRoles([]string{"e", "c", "b", "a"}, later, now)
	want := "[{name: e, until: \"2026-12-30T10:00:00Z\"}, {name: c, until: \"2026-12-30T10:00:00Z\"}, " +
		"{name: b, until: \"2026-12-01T10:00:00Z\"}, a]"
	if got := a.RolesText(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	a.GiveRoles([]string{"c", "f"}, time.Time{}, at(t, "2027-01-01T00:00:00Z"))
	if got := a.RolesText(); got != "[c, f]" {
		t.Errorf("%s, want roles without an end", got)
	}
}

// What an account had before it ended stays ended when it gets a later end, also if no gateway ran at the
// time. An end that is put off before it comes ends nothing.
func TestLaterEnd(t *testing.T) {
	t.Parallel()
	const start = "2026-11-30T10:00:00Z"
	hash := passwordtest.Argon2id("x")
	ending := func(seconds int) Account {
		a := Account{Username: "carol", Hash: hash, Roles: []string{"user"}}
		if seconds > 0 {
			a.Until = at(t, start).Add(time.Duration(seconds) * time.Second)
		}
		return a
	}
	type step struct{ at, ends int } // in seconds; the gateway starts or is reloaded with that end
	for name, c := range map[string]struct {
		off   bool // each step is a start
		steps []step
		same  bool // the logins of the first step count after the last one
	}{
		"nothing ends":              {false, []step{{0, 20}, {10, 20}}, true},
		"put off":                   {false, []step{{0, 20}, {10, 40}, {30, 40}}, true},
		"removed":                   {false, []step{{0, 20}, {10, 0}, {30, 0}}, true},
		"later":                     {false, []step{{0, 20}, {20, 40}}, false},
		"later, after a reload":     {false, []step{{0, 20}, {21, 20}, {22, 40}}, false},
		"removed later":             {false, []step{{0, 20}, {25, 0}}, false},
		"off, and nothing ends":     {true, []step{{0, 20}, {10, 20}}, true},
		"off, and later":            {true, []step{{0, 20}, {20, 40}}, false},
		"off, and removed later":    {true, []step{{0, 20}, {25, 0}}, false},
		"off, and ended at a start": {true, []step{{0, 20}, {21, 20}, {22, 40}}, false},
		"off, and later than later": {true, []step{{0, 20}, {25, 40}, {30, 0}}, false},
	} {
		clock := clocktest.At(at(t, start))
		s := store.NewMemory(clock.Now)
		defer s.Close()
		var running *Set
		var first time.Time
		for i, step := range c.steps {
			clock.Advance(at(t, start).Add(time.Duration(step.at) * time.Second).Sub(clock.Now()))
			set := New([]Account{ending(step.ends)}, testDecoys, clock.Now)
			if c.off {
				running = nil
			}
			must.Do(t, set.RecordChanges(t.Context(), s, Reload{Now: clock.Now(), Running: running, Loaded: clock.Now()}))
			running = set
			account, ok := set.Lookup("carol")
			switch {
			case i == 0:
				first = account.Changed()
			case i == len(c.steps)-1 && (!ok || account.Changed().Equal(first) != c.same):
				t.Errorf("%s: the account is there: %t, and changed at %v, first at %v", name, ok, account.Changed(), first)
			}
		}
	}
}

// An end that comes is no change for other instances. One that a reload moves into the past is.
func TestEndsWithdrawn(t *testing.T) {
	t.Parallel()
	hash := passwordtest.Argon2id("x")
	user := func(until, admin string) []Account {
		a := Account{Username: "u", Hash: hash, Roles: []string{"user", "admin"}}
		if until != "" {
			a.Until = at(t, until)
		}
		if admin != "" {
			a.RoleEnds = map[string]time.Time{"admin": at(t, admin)}
		}
		return []Account{a}
	}
	const past, now, coming = "2026-11-01T00:00:00Z", "2026-11-30T10:00:00Z", "2026-12-30T10:00:00Z"
	for name, c := range map[string]struct {
		before, after []Account
		want          string
	}{
		"ends":               {user(coming, coming), user(coming, coming), "[]"},
		"has ended":          {user(past, past), user(past, past), "[]"},
		"ended now":          {user("", ""), user(past, ""), "[local:u]"},
		"a role ended now":   {user("", coming), user("", past), `[local:u ["admin"]]`},
		"a role given again": {user("", past), user("", coming), "[]"},
	} {
		clock := clocktest.At(at(t, now))
		s := store.NewMemory(clock.Now)
		defer s.Close()
		must.Do(t, tell(t, s, clock.Now(), Change{KindLocal, c.before, c.after}))
		changes := must.Get(ReadChanges(t.Context(), s))(t)
		theirs := user("", "")
		if got := fmt.Sprint(changes.Apply(KindLocal, theirs, clock.Now().Add(-time.Hour))); got != c.want {
			t.Errorf("%s: %s is withdrawn, want %s", name, got, c.want)
		}
	}
}
