package gateway

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/store"
)

// mixedConfig has accounts whose hashes need 8 KiB and 19 MiB of memory. The hashes match
// no password.
func mixedConfig(t *testing.T) string {
	salt, key := strings.Repeat("A", 22), strings.Repeat("A", 43)
	cheap, costly := "$argon2id$v=19$m=8,t=1,p=1$"+salt+"$"+key, "$argon2id$v=19$m=19456,t=1,p=1$"+salt+"$"+key
	users := "users:\n"
	for i, name := range []string{"a", "b", "c", "d"} {
		users += "    - {username: " + name + `, password_hash: "` + []string{cheap, costly}[i%2] + "\"}\n"
	}
	head, rest, _ := strings.Cut(baseConfig, "accounts:\n  users:")
	_, rest, _ = strings.Cut(rest, "upstreams:")
	if rest == "" {
		t.Fatal("the configuration has no accounts before its upstreams")
	}
	return head + "accounts:\n  " + users + "upstreams:" + rest
}

// costly tells for each name whether a failed login with it needs the memory of a costly
// hash. No other test may run meanwhile.
func (r *rig) costly(names []string) []bool {
	r.t.Helper()
	all := make([]bool, len(names))
	for i, name := range names {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.want(401, "POST", "/login", `{"username":"`+name+`","password":"wrong"}`, jsonType)
		runtime.ReadMemStats(&after)
		all[i] = after.TotalAlloc-before.TotalAlloc > 8<<20
	}
	return all
}

// An unknown name costs the same after a restart, on another instance, and after a reload
// with another key of the tokens. What it costs is kept in the store, and follows from the
// secret of the tokens at first. Not parallel: it measures memory.
func TestUnknownNamesKeepTheirCost(t *testing.T) {
	names := make([]string, 24)
	for i := range names {
		names[i] = "stranger-" + string(rune('a'+i))
	}
	limits := "limits: {login_failures: 1000}\n"
	yaml := mixedConfig(t) + limits
	secret := func(s string) string { return yaml + "token: {secret: " + strings.Repeat(s, 32) + "}\n" }
	for name, test := range map[string]struct {
		first, second string // configurations
		folder, store bool   // that they share
	}{
		"a restart":                         {yaml, yaml, true, false},
		"instances with one secret":         {secret("s"), secret("s"), false, false},
		"instances with one store":          {yaml, yaml, false, true},
		"a restart with another secret":     {secret("s"), secret("t"), true, true},
		"a restart that removes the secret": {secret("s"), yaml, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.first)
			want := r.costly(names)
			if accounts := r.costly([]string{"a", "b"}); accounts[0] || !accounts[1] {
				t.Fatalf("the accounts cost %v", accounts)
			}
			if !slices.Contains(want, true) || !slices.Contains(want, false) {
				t.Fatalf("all unknown names cost the same")
			}
			dir, kept := t.TempDir(), store.Store(r.store)
			if test.folder {
				dir = r.dir
			}
			if !test.store {
				memory := store.NewMemory(r.clock.Now)
				t.Cleanup(func() { memory.Close() })
				kept = memory
			}
			other, err := startRig(t, dir, test.second, kept, r.clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			if got := other.costly(names); !slices.Equal(got, want) {
				t.Errorf("unknown names cost first\n%v, and then\n%v", want, got)
			}
		})
	}
}
