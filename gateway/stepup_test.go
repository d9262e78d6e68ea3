package gateway

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/login/mechanism"
	"authgate/internal/test/must"
	"authgate/policy"
)

// vaultConfig has routes that demand proof, for each kind of credential.
const vaultConfig = baseConfig + `
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

func newVaultRig(t *testing.T) *rig {
	t.Helper()
	yaml := edit(t, vaultConfig, "  admin: {roles: [admin]}",
		"  admin: {roles: [admin]}\n  two: {factors: 2}\n  fresh: {max_age: 15m}")
	return newRig(t, yaml+"listen: {trusted_proxies: [10.0.0.0/8]}\n")
}

// loginOf returns the sid of the login of a session.
func (r *rig) loginOf(cookie string) string {
	r.t.Helper()
	for _, login := range r.logins(cookie) {
		if login.Current {
			return login.ID
		}
	}
	r.t.Fatal("the session has no login")
	return ""
}

// addsFactor makes the login of a session one with two factors.
func (r *rig) addsFactor(cookie string) {
	r.t.Helper()
	local := r.state.Load().mechanisms
	account, _ := local.Accounts.Lookup("alice")
	id := &policy.Identity{Login: r.loginOf(cookie)}
	must.Get(mechanism.Overview(local, r.state.Load().federation).Keep(r.t.Context(), id, account, "otp"))(r.t)
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

// A request that is no page load is told what its login lacks. The role comes first.
func TestStepUpChallenge(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	for _, line := range []string{alice.cookie, alice.bearer} {
		r.want(200, "GET", "/fresh/", "", line)
		wantStepUp(t, "one factor", r.want(401, "GET", "/two/", "", line), stepUpTwo)
		w := r.want(401, "POST", "/vault/", "", line)
		wantStepUp(t, "all of the policy", w, stepUpBoth)
		if body := w.Body.String(); !strings.Contains(body, `"max_age":900`) ||
			!strings.Contains(body, "2 factors, at most 15m ago") {
			t.Errorf("the body is %s", body)
		}
	}
	for _, line := range []string{bob.cookie, bob.bearer} {
		if w := r.want(403, "GET", "/vault/", "", line); w.Header()["Www-Authenticate"] != nil {
			t.Errorf("without the role: %v", w.Header())
		}
		r.want(403, "GET", "/vault/", "", line, browser)
	}
	r.addsFactor(alice.cookie)
	for _, target := range []string{"/two/", "/fresh/", "/vault/", "/script/"} {
		r.want(200, "GET", target, "", alice.cookie)
		r.want(200, "GET", target, "", alice.bearer)
	}
	r.clock.Advance(14*time.Minute + 59*time.Second)
	again := r.login(bobIn)
	r.want(200, "GET", "/fresh/", "", bob.cookie)
	r.clock.Advance(2 * time.Second)
	wantStepUp(t, "an old session", r.want(401, "GET", "/fresh/", "", bob.cookie), stepUpFresh)
	wantStepUp(t, "an old session with two factors", r.want(401, "GET", "/vault/", "", alice.cookie), stepUpBoth)
	r.want(200, "GET", "/fresh/", "", again.cookie)
	r.want(200, "GET", "/either/", "", alice.cookie) // by the other alternative
	wantStepUp(t, "an alternative", r.want(401, "GET", "/either/", "", bob.cookie), stepUpFresh)
}

// Page loads lead to the sign-in page with what is needed, where the route leads users at
// all. The log tells why.
func TestStepUpOfPages(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.login(aliceIn)
	r.clock.Advance(16 * time.Minute)
	w := r.want(302, "GET", "/vault/x?y=%2F", "", alice.cookie, browser)
	place, err := url.Parse(w.Header().Get("Location"))
	if err != nil || place.Path != "/signin" || place.Query().Get("factors") != "2" ||
		place.Query().Get("max_age") != "15m0s" || place.Query().Get("return_to") != "/vault/x?y=%2F" {
		t.Errorf("leads to %v", place)
	}
	const reason = "route vault: policy two: factors: needs a sign-in with 2 factors"
	last := func(message string) map[string]any {
		records := r.log.Records(t, message)
		return records[len(records)-1]
	}
	if got := last("request"); got["decision"] != "challenge" || got["reason"] != reason ||
		got["subject"] != "local:alice" {
		t.Errorf("the access log has %v", got)
	}
	if got := last("audit"); got["event"] != "step_up" || got["reason"] != reason || got["subject"] != "local:alice" {
		t.Errorf("the audit log has %v", got)
	}
	for _, header := range [][]string{
		{alice.cookie, browser, "X-Requested-With: XMLHttpRequest"},
		{r.refresh(alice.refresh).bearer, browser},
	} {
		wantStepUp(t, "a script", r.want(401, "GET", "/fresh/", "", header...), stepUpFresh)
	}
	w = r.want(401, "GET", "/script/", "", alice.cookie, browser)
	wantStepUp(t, "a route without sign-in", w, stepUpFresh)
	if !strings.Contains(w.Body.String(), `href="/signin?max_age=15m0s&amp;return_to=%2Fscript%2F"`) {
		t.Errorf("the page leads nowhere: %s", w.Body)
	}
	wantStepUp(t, "a form", r.want(401, "POST", "/fresh/", "", alice.cookie, browser, "Origin: https://gw.example"),
		stepUpFresh)
}

// A proxy that asks gets the answers of a direct request.
func TestStepUpVerify(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.login(aliceIn)
	for _, as := range []func(method, host, target string) []string{asTraefik, asNginx} {
		described := as("GET", "gw.example", "/asked/x")
		r.asks(200, described, alice.cookie)
	}
	r.clock.Advance(16 * time.Minute)
	alice.bearer = r.refresh(alice.refresh).bearer
	const page = "https://gw.example/signin?return_to="
	for name, as := range map[string]func(method, host, target string) []string{"traefik": asTraefik, "nginx": asNginx} {
		described := as("GET", "gw.example", "/asked/x")
		wantStepUp(t, name, r.asks(401, described, alice.cookie), stepUpFresh)
		wantStepUp(t, name, r.asks(401, described, alice.bearer, browser), stepUpFresh)
		w := r.asks(map[string]int{"traefik": 302, "nginx": 401}[name], described, alice.cookie, browser)
		if to := w.Header().Get("Location"); !strings.HasPrefix(to, page) || !strings.Contains(to, "max_age=15m0s") {
			t.Errorf("%s: leads to %s", name, to)
		}
	}
}

// A stream that was let in goes on when its sign-in gets older, also with the next
// configuration: the time of the request counts.
func TestStepUpEndsNoStream(t *testing.T) {
	t.Parallel()
	const demanding = "policy: {max_age: 15m}, match: /session/, "
	yaml := edit(t, baseConfig, "match: /session/, ", demanding)
	streamsWith(t, yaml, func(s *streaming) {
		alice := s.login(aliceIn)
		defer s.open("HTTP/1.1", "/session/", alice.cookie).Close()
		s.clock.Advance(16 * time.Minute)
		s.want(401, "GET", "/session/", "", alice.cookie)
		s.mustReload(edit(s.t, yaml, "roles: [user, admin], ", "roles: [user, staff], "))
		time.Sleep(time.Minute)
		s.alive(1)
	})
}

// A page whose application has an Authorization of its own leads to the sign-in as any other: the
// session proves who the user is.
func TestStepUpBesideAuthorization(t *testing.T) {
	t.Parallel()
	r := newVaultRig(t)
	alice := r.login(aliceIn)
	r.clock.Advance(20 * time.Minute)
	page := []string{"Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	for _, header := range []string{"X-Other: 1", "Authorization: Token theirs", "Authorization: Bearer theirs"} {
		w := r.do("GET", "/mixed/", "", append(page, alice.cookie, header)...)
		if w.Code != 302 || !strings.Contains(w.Header().Get("Location"), "/signin?") {
			t.Errorf("%s: %d to %q", header, w.Code, w.Header().Get("Location"))
		}
	}
	if w := r.do("GET", "/mixed/", "", append(page, "Authorization: Bearer "+alice.access)...); w.Code != 401 {
		t.Errorf("a token, which comes before the session: %d", w.Code)
	}
}
