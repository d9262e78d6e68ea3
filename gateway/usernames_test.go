package gateway

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
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

// An unknown name costs the same after a restart with another secret of the tokens: the store keeps
// what it costs. TestShareDecoyKey of package accounts has the other cases. Not parallel: it measures memory.
func TestUnknownNamesKeepTheirCost(t *testing.T) {
	names := make([]string, 16)
	for i := range names {
		names[i] = "stranger-" + string(rune('a'+i))
	}
	secret := func(s string) string {
		return mixedConfig(t) + "limits: {login_failures: 1000}\ntoken: {secret: " + strings.Repeat(s, 32) + "}\n"
	}
	r := newRig(t, secret("s"))
	want := r.costly(names)
	if accounts := r.costly([]string{"a", "b"}); accounts[0] || !accounts[1] {
		t.Fatalf("the accounts cost %v", accounts)
	}
	if !slices.Contains(want, true) || !slices.Contains(want, false) {
		t.Fatalf("all unknown names cost the same")
	}
	other := must.Get(startRig(t, r.dir, secret("t"), r.store, r.clock.Now))(t)
	if got := other.costly(names); !slices.Equal(got, want) {
		t.Errorf("unknown names cost first\n%v, and then\n%v", want, got)
	}
}
