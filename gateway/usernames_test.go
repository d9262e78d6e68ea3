package gateway

import (
	"encoding/json"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/store"
)

// Spellings of a name and a password.
const (
	composed, decomposed = "Jos\u00e9", "Jose\u0301"
	// spaces are what people paste around a name.
	spaces = " \t\n\u00a0\u2003\u3000"
)

// josesConfig has an account and a Basic user of one name, which the configuration writes
// decomposed. Their password is wonderland.
func josesConfig(t *testing.T) string {
	yaml := edit(t, baseConfig, "username: alice", `username: "`+decomposed+`"`)
	const service = `{username: service, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}`
	yaml = edit(t, yaml, service, `{username: "`+decomposed+`", password_hash: "`+aliceHash+`"}`)
	return edit(t, yaml, "admin: {roles: [admin]}", `admin: {users: ["`+composed+`", "basic:`+composed+`"]}`)
}

// A user name is found in any normalization and with space around it, at /login and in
// Basic. The application gets it as the configuration writes it.
func TestUserNamesAreFoundInAnySpelling(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(josesConfig(t), "auth: [session, bearer], policy", "auth: [session, basic], policy", 1))
	wantUser := func(name string) {
		t.Helper()
		if got := r.upstream.Last().Header.Get("X-Auth-User"); got != decomposed {
			t.Errorf("%q is %q for the application, want %q", name, got, decomposed)
		}
	}
	for _, name := range []string{composed, decomposed, spaces + composed, composed + spaces, "\u0085" + composed} {
		body, err := json.Marshal(map[string]string{"username": name, "password": "wonderland"})
		if err != nil {
			t.Fatal(err)
		}
		r.want(200, "GET", "/admin/", "", r.login(string(body)).cookie)
		wantUser(name)
		r.want(200, "POST", "/login", url.Values{"username": {name}, "password": {"wonderland"}}.Encode(), formType)
		status := 200
		if strings.ContainsAny(name, "\t\n\u0085") { // a control character stays wrong in Basic
			status = 401
		}
		r.want(status, "POST", "/login", "", basicHeader(name, "wonderland"))
		r.want(status, "GET", "/admin/", "", basicHeader(name, "wonderland"))
	}
	r.want(200, "GET", "/admin/", "", basicHeader("\u00a0"+decomposed+"\u2003", "wonderland"))
	wantUser("with the space that Basic takes")
	r.want(401, "POST", "/login", `{"username":"Jos e","password":"wonderland"}`, jsonType)
}

// Failures of one name in several spellings count together.
func TestSpellingsShareACountOfFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, josesConfig(t)+"limits: {login_failures: 4}\n")
	for _, name := range []string{
		" " + composed, decomposed, strings.ToUpper(composed), "\u00a0" + strings.ToLower(decomposed),
	} {
		r.want(401, "POST", "/login", url.Values{"username": {name}, "password": {"wrong"}}.Encode(), formType)
	}
	r.want(429, "POST", "/login", url.Values{"username": {composed}, "password": {"wonderland"}}.Encode(), formType)
}

// The right password with a space after the name is no failure.
func TestASpaceAfterTheNameIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"limits: {login_failures: 3}\n")
	for range 4 {
		w := r.want(303, "POST", "/login", "username=alice+&password=wonderland", formType, browser)
		if jarOf(w)["session_id"] == "" {
			t.Errorf("no session: %v", w.Header())
		}
	}
	page := r.want(401, "POST", "/login", "username=+alice%09&password=wrong", formType, browser)
	if !strings.Contains(page.Body.String(), `value="alice"`) {
		t.Errorf("the page does not keep the name:\n%s", page.Body)
	}
	if !strings.Contains(r.log.String(), `"result":"failure","subject":"local:alice"`) {
		t.Errorf("the log does not name the account:\n%s", r.log)
	}
}

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
