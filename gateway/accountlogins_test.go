package gateway

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// ownLogin is what /account/sessions says of one login.
type ownLogin struct {
	ID, Mechanism, Provider, Client string
	Current                         bool
	CreatedAt                       string `json:"created_at"`
	LastUsed                        string `json:"last_used_at"`
	ExpiresAt                       string `json:"expires_at"`
	UserAgent                       string `json:"user_agent"`
}

const fromPhone = "User-Agent: a phone/1"

// logins returns the logins of the user.
func (r *rig) logins(header ...string) []ownLogin {
	r.t.Helper()
	var body struct{ Sessions []ownLogin }
	w := r.want(200, "GET", "/account/sessions", "", header...)
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Sessions == nil {
		r.t.Fatalf("%v: %s", err, w.Body)
	}
	return body.Sessions
}

// another signs alice in from a phone.
func (r *rig) another() signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/login", aliceIn, jsonType, fromPhone))
}

// wantSession checks what sessions and access tokens open, without a refresh.
func (r *rig) wantSession(want int, ins ...signedIn) {
	r.t.Helper()
	for _, in := range ins {
		r.want(want, "GET", "/session/", "", in.cookie)
		r.want(want, "GET", "/bearer/", "", in.bearer)
	}
}

// Users see their own live logins, by session or token, and no others.
func TestAccountLogins(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.login(bobIn)
	phone := r.another()
	r.clock.Advance(time.Minute)
	here := r.login(aliceIn)
	for line, current := range map[string]int{here.cookie: 0, here.bearer: 0, phone.cookie: 0, phone.bearer: 0} {
		all := r.logins(line)
		if len(all) != 2 || !all[current].Current || all[1-current].Current {
			t.Fatalf("with %.20s: %+v", line, all)
		}
		for _, one := range all {
			created, err := time.Parse(time.RFC3339, one.CreatedAt)
			used, errUsed := time.Parse(time.RFC3339, one.LastUsed)
			expires, errExpires := time.Parse(time.RFC3339, one.ExpiresAt)
			if err != nil || errUsed != nil || errExpires != nil || used.Before(created) || expires.Sub(created) != 7*24*time.Hour || !strings.HasSuffix(one.CreatedAt, "Z") {
				t.Errorf("times %q %q %q", one.CreatedAt, one.LastUsed, one.ExpiresAt)
			}
			agent := ""
			if one.Current == (line == phone.cookie || line == phone.bearer) {
				agent = "a phone/1"
			}
			if one.Mechanism != "session" || one.Provider != "local" || one.Client != "192.0.2.7" || one.UserAgent != agent || len(one.ID) != 26 {
				t.Errorf("got %+v", one)
			}
		}
	}
	var body map[string]any
	w := r.want(200, "GET", "/account", "", here.cookie)
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body["username"] != "alice" || body["mechanism"] != "session" || len(body["roles"].([]any)) != 2 || len(body["sessions"].([]any)) != 2 {
		t.Errorf("%v: %s", err, w.Body)
	}
	for _, target := range []string{"/account", "/account/sessions"} {
		for line, want := range map[string]int{"": 401, basicHeader("alice", "wonderland"): 401, basicHeader("service", "s3rvice"): 401, "Cookie: session_id=x": 401, "Authorization: Bearer x": 401, here.bearer: 200} {
			r.want(want, "GET", target, "", line)
		}
		r.want(405, "POST", target, "", here.cookie)
	}
	r.clock.Advance(7 * 24 * time.Hour)
	if all := r.logins(r.login(aliceIn).cookie); len(all) != 1 {
		t.Errorf("expired logins are listed: %+v", all)
	}
}

// A page load of the account without a login goes to the sign-in page, and returns.
func TestAccountPageNeedsSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "endpoints: {prefix: /auth/}\nstore:"))
	for _, cookie := range []string{"", "Cookie: session_id=" + strings.Repeat("A", 43), basicHeader("service", "s3rvice")} {
		w := r.want(302, "GET", "/auth/account", "", browser, cookie)
		if to := strings.TrimSuffix(w.Header().Get("Location"), "&reason=ended"); to != "/auth/signin?return_to=%2Fauth%2Faccount" {
			t.Errorf("with %q: to %q", cookie, to)
		}
		if cleared := strings.Contains(w.Header().Get("Set-Cookie"), "session_id=;"); cleared != strings.HasPrefix(cookie, "Cookie") {
			t.Errorf("with %q: Set-Cookie %q", cookie, w.Header()["Set-Cookie"])
		}
	}
	r.want(401, "GET", "/auth/account", "", browser, "Authorization: Bearer x")
	in := jarOf(r.want(200, "POST", "/auth/login", aliceIn, jsonType)).line("session_id")
	if w := r.want(200, "GET", "/auth/account", "", browser, in); !strings.Contains(w.Body.String(), "alice") {
		t.Errorf("the page is %s", w.Body)
	}
}

// A user ends one of their logins, or all others; each of them by all that opened it.
func TestEndLogins(t *testing.T) {
	t.Parallel()
	for _, media := range []string{jsonType, formType} {
		body := func(name, value string) string {
			if media == formType {
				return url.Values{name: {value}}.Encode()
			}
			if name == "others" {
				return `{"others":true}`
			}
			return `{"` + name + `":"` + value + `"}`
		}
		wantDone := func(w *httptest.ResponseRecorder) {
			t.Helper()
			if form := media == formType; (w.Code == 303) != form || form && !strings.HasPrefix(w.Header().Get("Location"), "/account?done=login") || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%d, %v", w.Code, w.Header())
			}
		}
		done := map[string]int{jsonType: 200, formType: 303}[media]
		r := newRig(t, baseConfig)
		here, phone, tablet, laptop, bob := r.login(aliceIn), r.another(), r.login(aliceIn), r.login(aliceIn), r.login(bobIn)
		idOf := func(in signedIn) string { return r.logins(in.cookie)[0].ID }
		wantDone(r.want(done, "POST", "/account/sessions/end", body("id", idOf(phone)), media, here.cookie))
		r.good(phone, false)
		r.wantSession(200, here, tablet, laptop, bob)
		for _, id := range []string{idOf(bob), "x", strings.Repeat("A", 26)} {
			r.want(404, "POST", "/account/sessions/end", body("id", id), media, here.cookie)
		}
		wantDone(r.want(done, "POST", "/account/sessions/end", body("others", "true"), media, here.cookie))
		r.good(tablet, false)
		r.good(laptop, false)
		r.good(bob, true)
		r.wantSession(200, here)
		if ended := r.log.Records(t, "audit"); strings.Count(r.log.String(), `"event":"logout"`) != 3 {
			t.Errorf("the audit log has %v", ended)
		}
		// One's own is a logout.
		w := r.want(done, "POST", "/account/sessions/end", body("id", idOf(here)), media, here.cookie)
		if !strings.Contains(strings.Join(w.Header()["Set-Cookie"], "\n"), "session_id=;") {
			t.Errorf("the cookie stays: %v", w.Header())
		}
		r.good(here, false)
	}
}

// Who may not end logins, and with what.
func TestEndLoginsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	here, phone := r.login(aliceIn), r.another()
	token := "X-CSRF-Token: " + r.csrfToken(here.cookie)
	made := readToken(t, r.want(201, "POST", "/account/tokens", `{"name":"ci","expires_in":3600}`, jsonType, here.cookie, token))
	one := `{"id":"` + r.logins(phone.cookie)[0].ID + `"}`
	const end, others = "/account/sessions/end", `{"others":true}`
	for _, order := range []string{one, others} {
		for line, want := range map[string]int{
			"": 401, here.bearer: 403, phone.bearer: 403, "Authorization: Bearer " + made.Token: 403, "Authorization: Bearer x": 401,
			basicHeader("alice", "wonderland"): 401, basicHeader("alice", made.Token): 401, "Cookie: session_id=x": 401,
		} {
			r.want(want, "POST", end, order, jsonType, line, token)
		}
		r.want(403, "POST", end, order, jsonType, here.cookie, token, here.bearer)
		r.want(403, "POST", end, order, jsonType, here.cookie) // no anti-CSRF token
		r.want(403, "POST", end, order, jsonType, here.cookie, token, "Sec-Fetch-Site: cross-site")
		r.want(415, "POST", end, order, "Content-Type: text/plain", here.cookie, token)
		r.want(405, "GET", end, "", here.cookie)
	}
	for _, body := range []string{
		`{}`, `[]`, ``, `{"others":false}`, `{"others":null}`, `{"others":"true"}`, `{"others":1}`, `{"id":1}`, `{"id":null}`, `{"id":""}`,
		`{"id":"x","others":true}`, `{"others":true,"others":true}`, `{"all":true}`,
	} {
		r.want(400, "POST", end, body, jsonType, here.cookie, token)
	}
	for _, body := range []string{"", "id=", "others=false", "others=", "others=true&others=true", "id=a&id=b", "id=a&others=true", "a=%zz", "id=a;b"} {
		r.want(400, "POST", end, body, formType, here.cookie, token)
	}
	r.wantSession(200, here, phone)
	form := "others=true&csrf_token=" + strings.TrimPrefix(token, "X-CSRF-Token: ")
	r.want(303, "POST", end, form, formType, here.cookie)
	r.wantSession(401, phone)
}

// After a failure of the store, nothing is said to have ended.
func TestEndLoginsWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	here, phone := r.login(aliceIn), r.another()
	one := `{"id":"` + r.logins(phone.cookie)[0].ID + `"}`
	for _, order := range []string{one, `{"others":true}`} {
		r.store.breakIf(func(operation string, _ int64, _ string) bool { return operation == "take" })
		r.want(503, "POST", "/account/sessions/end", order, jsonType, here.cookie)
		r.store.heal()
		r.wantSession(200, phone)
	}
	r.store.breakIf(func(_ string, _ int64, key string) bool { return strings.HasPrefix(key, "group:") })
	r.want(503, "GET", "/account/sessions", "", here.cookie)
}

// An API token sees the logins of its owner, and none of them is its own.
func TestAccountLoginsByAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	in := r.login(aliceIn)
	made := r.newToken(in.cookie, "")
	if all := r.logins("Authorization: Bearer " + made.Token); len(all) != 1 || all[0].Current {
		t.Errorf("got %+v", all)
	}
}

// A user of a provider ends their logins too, and those sign out at the provider.
func TestEndDelegatedLogins(t *testing.T) {
	t.Parallel()
	r, op := delegatedRig(t, "")
	op.revoked = make(chan string, 2)
	in := func() string {
		back := r.leave("")
		return jarOf(r.want(302, "GET", back.target, "", back.cookie, fromPhone)).line()
	}
	here, other, local := in(), in(), r.another()
	all := r.logins(here)
	if len(all) != 2 || all[0].Mechanism != "oidc" || all[0].Provider != "small" || all[1].UserAgent != "a phone/1" || all[1].Client != "192.0.2.7" {
		t.Fatalf("got %+v", all)
	}
	r.want(404, "POST", "/account/sessions/end", `{"id":"`+r.logins(local.cookie)[0].ID+`"}`, jsonType, here)
	r.want(200, "POST", "/account/sessions/end", `{"others":true}`, jsonType, here)
	if n := len(op.revoked); n != 1 {
		t.Errorf("%d logins were ended at the provider, want 1", n)
	}
	r.want(401, "GET", "/delegated/", "", other)
	r.want(200, "GET", "/delegated/", "", here)
	r.wantSession(200, local)
	r.want(303, "POST", "/account/sessions/end", "id="+all[0].ID, formType, here)
	if n := len(op.revoked); n != 2 {
		t.Errorf("%d logins were ended at the provider, want 2", n)
	}
	r.want(401, "GET", "/delegated/", "", here)
}

// Ending a login ends its open streams.
func TestStreamsEndWithAnEndedLogin(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			streamsOf(t, func(s *streaming) {
				here, phone := s.login(aliceIn), s.another()
				body := s.open(protocol, "/session/", phone.cookie)
				time.Sleep(time.Minute)
				s.alive(1)
				s.want(200, "POST", "/account/sessions/end", `{"others":true}`, jsonType, here.cookie)
				s.ends(body, time.Now())
				s.wantEnded("ended session")
			})
		})
	}
}
