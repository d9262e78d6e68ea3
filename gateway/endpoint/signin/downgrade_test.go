package signin_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/login/mechanism"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
	"authgate/policy"
)

// vaultConfig has routes that demand proof, for each kind of credential.
const vaultConfig = rig.Base + `
  - {match: /two/, upstream: app, auth: [basic, session, bearer], policy: two}
  - {match: /fresh/, upstream: app, auth: [basic, session, bearer], policy: fresh}
  - {match: /vault/, name: vault, upstream: app, auth: [basic, session, bearer], ` +
	`policy: {all: [two, fresh], roles: [admin]}}
  - {match: /either/, upstream: app, auth: [session], policy: {any: [{roles: [admin]}, fresh]}}
  - {match: /script/, upstream: app, auth: [session, bearer], policy: fresh, unauthenticated: challenge}
  - {match: /asked/, auth: [session, bearer], policy: fresh}
  - {match: /mixed/, upstream: app, auth: [session, bearer], policy: fresh, authorization: application}
  - {match: /docker/, upstream: app, auth: [bearer], policy: two, basic_challenge: true}
`

func newVaultRig(t *testing.T) *rig.Rig {
	t.Helper()
	yaml := rig.Edit(t, vaultConfig, "  admin: {roles: [admin]}",
		"  admin: {roles: [admin]}\n  two: {factors: 2}\n  fresh: {max_age: 15m}")
	return rig.New(t, yaml+"listen: {trusted_proxies: [10.0.0.0/8]}\n")
}

// loginOf returns the sid of the login of a session.
func loginOf(r *rig.Rig, cookie string) string {
	r.T.Helper()
	for _, login := range r.Logins(cookie) {
		if login.Current {
			return login.ID
		}
	}
	r.T.Fatal("the session has no login")
	return ""
}

// addsFactor makes the login of a session one with two factors.
func addsFactor(r *rig.Rig, cookie string) {
	r.T.Helper()
	account, _ := r.Options.Local.Accounts.Lookup("alice")
	id := &policy.Identity{Login: loginOf(r, cookie)}
	must.Get(mechanism.Overview(r.Options.Local, r.Options.Federation).Keep(r.T.Context(), id, account, "otp"))(r.T)
}

const (
	stepUpTwo   = `Bearer error="insufficient_user_authentication", acr_values="factors:2", realm="authgate"`
	stepUpFresh = `Bearer error="insufficient_user_authentication", max_age="900", realm="authgate"`
	stepUpBoth  = `Bearer error="insufficient_user_authentication", max_age="900", ` +
		`acr_values="factors:2", realm="authgate"`
)

// wantStepUp fails the test unless an answer has exactly this challenge.
func wantStepUp(t *testing.T, what string, w *httptest.ResponseRecorder, challenge string) {
	t.Helper()
	if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, []string{challenge}) {
		t.Errorf("%s: the challenges are %q, want %q", what, got, challenge)
	}
}

// Basic credentials and API tokens are one factor without a time, also beside a cookie that
// would be enough: the credential in Authorization comes first.
func TestStepUpDowngradeByPassword(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.Login(rig.Alice)
	addsFactor(r, alice.Cookie)
	made := r.NewToken(alice.Cookie, "")
	for name, line := range map[string]string{
		"Basic":                 rig.Basic("service", "s3rvice"),
		"an API token":          "Authorization: Bearer " + made.Token,
		"an API token as Basic": rig.Basic("alice", made.Token),
	} {
		for _, accept := range []string{"", rig.Browser} {
			for target, want := range map[string]string{"/two/": stepUpTwo, "/fresh/": stepUpFresh} {
				w := r.Want(401, "GET", target, "", line, accept)
				wantStepUp(t, name, w, want)
				wantStepUp(t, name+" beside a session", r.Want(401, "GET", target, "", line, alice.Cookie, accept),
					want)
				if accept == "" && !strings.Contains(w.Body.String(), "it will never do") {
					t.Errorf("%s: %s", name, w.Body)
				}
			}
		}
	}
	wantStepUp(t, "with basic_challenge", r.Want(401, "GET", "/docker/", "", rig.Basic("alice", made.Token)), stepUpTwo)
	r.Want(401, "GET", "/two/", "", rig.Basic("alice", "wonderland")) // no Basic user
	r.Want(200, "GET", "/two/", "", alice.Cookie)
}

// A refresh makes no sign-in younger, however often, and neither does a new session or
// token of the same login. The older of two logins does not gain by the newer one.
func TestStepUpDowngradeByRefresh(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.Login(rig.Alice)
	for range 4 {
		r.Clock.Advance(4 * time.Minute)
		next := r.Refresh(alice.Refresh)
		alice.Bearer, alice.Refresh = next.Bearer, next.Refresh
	}
	wantStepUp(t, "after refreshes", r.Want(401, "GET", "/fresh/", "", alice.Bearer), stepUpFresh)
	newer := r.Login(rig.Alice)
	r.Want(200, "GET", "/fresh/", "", newer.Bearer)
	wantStepUp(t, "the older login", r.Want(401, "GET", "/fresh/", "", alice.Bearer), stepUpFresh)
	wantStepUp(t, "its session", r.Want(401, "GET", "/fresh/", "", alice.Cookie), stepUpFresh)
	next := r.Refresh(alice.Refresh)
	wantStepUp(t, "refreshed once more", r.Want(401, "GET", "/fresh/", "", next.Bearer), stepUpFresh)

	addsFactor(r, newer.Cookie)
	r.Want(200, "GET", "/two/", "", newer.Bearer)
	r.Want(200, "GET", "/two/", "", r.Refresh(newer.Refresh).Bearer)
	wantStepUp(t, "the older login", r.Want(401, "GET", "/two/", "", next.Bearer), stepUpTwo)
}

// A session that an older version of the gateway has recorded goes on, and proves nothing.
func TestStepUpDowngradeByOlderSession(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.Login(rig.Alice)
	key := "login:" + loginOf(r, alice.Cookie)
	record := must.Get(r.Store.Get(t.Context(), key))(t)
	var old map[string]any
	must.Do(t, json.Unmarshal(record, &old))
	if old["proof"] == nil {
		t.Fatalf("the record is %s", record)
	}
	delete(old, "proof")
	must.Do(t, r.Store.Put(t.Context(), key, must.Get(json.Marshal(old))(t), r.Clock.Now().Add(time.Hour)))
	for _, line := range []string{alice.Cookie, alice.Bearer, r.Refresh(alice.Refresh).Bearer} {
		r.Want(200, "GET", "/any/", "", line)
		wantStepUp(t, "fresh", r.Want(401, "GET", "/fresh/", "", line), stepUpFresh)
		wantStepUp(t, "two", r.Want(401, "GET", "/two/", "", line), stepUpTwo)
	}
}

// A user of a file that can be written is led to the account, to add the second factor
// there. One who cannot have one is told so, and gets no session.
func TestStepUpLeadsToTheAccount(t *testing.T) {
	t.Parallel()
	const route = "  - {match: /two/, upstream: app, auth: [session], policy: {factors: 2}}\n"
	const form = "username=alice&password=wonderland&return_to=/two/&factors=2"
	file := rig.WithUsers(t, rig.FileConfig("users.yaml")+route, rig.FileAccounts)
	for status, r := range map[int]*rig.Rig{303: file, 403: rig.New(t, rig.Base+route)} {
		w := r.Want(status, "POST", "/login", form, rig.Form, rig.Browser, "Origin: https://gw.example")
		led := w.Header().Get("Location") == "/account?return_to=%2Ftwo%2F&factors=2" &&
			rig.JarOf(w)["session_id"] != ""
		if led != (status == 303) || !led && w.Header()["Set-Cookie"] != nil {
			t.Errorf("%d: %v", status, w.Header())
		}
		if led {
			r.Want(302, "GET", "/two/", "", rig.JarOf(w).Line("session_id"), rig.Browser)
		}
	}
}
