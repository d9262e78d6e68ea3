package gateway

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The account is at the host of public_url alone: an application at another host could
// else make tokens and end logins with the session that the browser sends there.
func TestAccountIsAtHomeAlone(t *testing.T) {
	t.Parallel()
	shared := strings.NewReplacer("public_url: https://gw.example", "public_url: https://gw.example\nsession: {domain: gw.example}",
		"wiki.example.org", "wiki.gw.example").Replace(baseConfig + `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session, bearer]}
`)
	for name, c := range map[string]struct{ yaml, host string }{
		"a session for each host": {fiveHostsConfig, "mail.example.net"},
		"session.domain":          {shared, "wiki.gw.example"},
		"another port":            {baseConfig, "GW.example.:8443"}, // the same host
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.yaml)
			in, phone := readLogin(t, r.wantAt(c.host, 200, "POST", "/login", aliceIn, jsonType)), r.another()
			away := map[bool]int{true: 403}[name != "another port"]
			elsewhere := func(here int, method, target, body string, header ...string) *httptest.ResponseRecorder {
				t.Helper()
				return r.wantAt(c.host, max(here*(1-away/403), away), method, target, body, header...)
			}
			for _, line := range []string{in.cookie, in.bearer} {
				for _, target := range []string{"/account", "/account/sessions", "/account/tokens"} {
					elsewhere(200, "GET", target, "", line)
					elsewhere(200, "HEAD", target, "", line)
				}
				elsewhere(200, "GET", "/account/sessions", "", browser, "Sec-Fetch-Mode: navigate", line)
			}
			if away == 0 {
				return
			}
			end := `{"id":"` + r.logins(phone.cookie)[0].ID + `"}`
			for target, body := range map[string]string{
				"/account/tokens": `{"name":"ci","expires_in":60}`, "/account/sessions/end": end, "/account/tokens/revoke": end,
				"/account/password": changeTo("wonderland", "looking-glass"), "/account": "", "/account/sessions": "",
			} {
				for _, line := range []string{in.cookie, in.bearer, "", basicHeader("alice", "wonderland")} {
					elsewhere(0, "POST", target, body, jsonType, line, "Origin: https://"+c.host)
					elsewhere(0, "POST", target, "name=ci&expires_in=60&others=true", formType, browser, line, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate")
					elsewhere(0, "OPTIONS", target, "", line)
				}
			}
			elsewhere(0, "POST", "/account/sessions/end", `{"others":true}`, jsonType, in.cookie)
			for _, method := range []string{"GET", "HEAD"} {
				for _, line := range []string{in.cookie, ""} {
					w := r.wantAt(c.host, 302, method, "/account?done=login", "", browser, line)
					if to := w.Header().Get("Location"); to != "https://gw.example/account?done=login" || w.Header()["Set-Cookie"] != nil {
						t.Errorf("%s leads to %q", method, to)
					}
				}
			}
			elsewhere(0, "GET", "/account", "", browser, in.cookie, "Sec-Fetch-Mode: cors")
			r.wantSession(200, phone)
			if log := r.log.String(); strings.Contains(log, "token_created") || strings.Contains(log, `"event":"logout"`) {
				t.Error("something was done")
			}
		})
	}
}

// maxAgeOf returns what an error says about the age of the sign-in.
func maxAgeOf(t testing.TB, w *httptest.ResponseRecorder) any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return body["max_age"]
}

// An API token needs a sign-in of the last ten minutes. A refresh is none, and neither
// is a session at another host, or what the account page shows.
func TestAPITokensNeedAFreshSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig)
	const order = `{"name":"ci","expires_in":3600}`
	in := r.login(aliceIn)
	made := r.newToken(in.cookie, "")
	r.clock.Advance(10 * time.Minute)
	r.newToken(in.cookie, "")
	r.clock.Advance(1)
	in.refresh = readLogin(t, r.want(200, "POST", "/refresh", refreshBody(in.refresh), jsonType)).refresh
	for _, body := range []string{order, "{}", ""} {
		w := r.want(403, "POST", "/account/tokens", body, jsonType, in.cookie)
		if age := maxAgeOf(t, w); age != 600.0 || !strings.Contains(detailOf(t, w), "Sign in again") {
			t.Errorf("max_age %v: %s", age, w.Body)
		}
	}
	w := r.want(403, "POST", "/account/tokens", "name=ci&expires_in=60", formType, in.cookie) // a program
	if age := maxAgeOf(t, w); age != 600.0 {
		t.Errorf("max_age %v: %s", age, w.Body)
	}
	r.want(403, "POST", "/account/tokens", "name=ci&expires_in=60", formType, browser, "X-Requested-With: XMLHttpRequest", in.cookie)
	for line, want := range map[string]int{"": 401, in.bearer: 403, "Authorization: Bearer " + made.Token: 403} {
		if w := r.want(want, "POST", "/account/tokens", order, jsonType, line); maxAgeOf(t, w) != nil {
			t.Errorf("with %q: %s", line, w.Body) // a sign-in would not help
		}
	}
	r.want(200, "GET", "/account/tokens", "", in.cookie)
	r.want(200, "POST", "/account/tokens/revoke", `{"id":"`+made.ID+`"}`, jsonType, in.cookie)
	r.newToken(r.login(aliceIn).cookie, "")
	r.clock.Advance(-time.Hour) // set back: the age is not known
	r.want(403, "POST", "/account/tokens", order, jsonType, in.cookie)
}

// The page leads a user whose sign-in is old through the form of the sign-in page,
// although there is a session, and back.
func TestAccountPageLeadsThroughASignIn(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"/", "/auth/"} {
		r := newRig(t, edit(t, fiveHostsConfig, "store:", "endpoints: {prefix: "+prefix+"}\nstore:"))
		p, account := r.person(), "https://gw.example"+prefix+"account"
		p.visit("POST", "https://gw.example"+prefix+"login", "username=alice&password=wonderland", formType)
		tokens := `action="` + prefix + `account/tokens"`
		_, page := p.visit("GET", account, "")
		wantPage(t, page, tokens, "not Sign in again")
		r.clock.Advance(10*time.Minute + 1)
		_, page = p.visit("GET", account, "")
		wantPage(t, page, "not "+tokens, `href="`+prefix+`signin?reason=fresh&amp;return_to=`, "Sign in again")
		// The form of a page that was open for long.
		at, page := p.visit("POST", account+"/tokens", "name=ci&expires_in=60", formType, "Origin: https://gw.example")
		if want := "https://gw.example" + prefix + "signin?reason=fresh&return_to=" + url.QueryEscape(prefix+"account"); at != want {
			t.Fatalf("the form leads to %s, want %s", at, want)
		}
		wantPage(t, page, `name="password"`, `value="alice"`, "Sign in again")
		if _, page = p.post(page, "nobody"); page.Code != 401 {
			t.Errorf("a wrong password: %d", page.Code)
		}
		if at, page = p.post(page, "alice"); at != account {
			t.Errorf("the sign-in leads to %s", at)
		}
		wantPage(t, page, tokens)
		if _, page = p.visit("POST", account+"/tokens", "name=ci&expires_in=60", formType, "Origin: https://gw.example"); page.Code != 201 {
			t.Errorf("after the sign-in: %d %s", page.Code, page.Body)
		}
	}
}

// Whoever is not signed in gets the usual page. A session of a provider's user does
// not pass either, and the provider asks for credentials again.
func TestFreshSignInOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	wantPage(t, r.want(200, "GET", "/signin?reason=fresh&return_to=%2Faccount", "", browser), `name="password"`, "not Sign in again")

	r, _ = delegatedRig(t, "")
	back := r.leave("")
	cookie := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line()
	wantPage(t, r.want(200, "GET", "/signin?reason=fresh&return_to=%2Faccount", "", browser, cookie), "Sign in again",
		"/login?provider=small&amp;switch=1&amp;return_to=%2Faccount")
	r.clock.Advance(11 * time.Minute)
	w := r.want(403, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, jsonType, cookie)
	if maxAgeOf(t, w) != nil {
		t.Errorf("a sign-in would not help: %s", w.Body)
	}
}

// An API token without roles says who it is, and tells nothing of the account.
func TestAPITokenWithoutRoles(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice := r.login(aliceIn)
	none := "Authorization: Bearer " + r.newToken(alice.cookie, `,"roles":[]`).Token
	some := "Authorization: Bearer " + r.newToken(alice.cookie, `,"roles":["user"]`).Token
	for _, target := range []string{"/account", "/account/sessions", "/account/tokens"} {
		for _, media := range []string{"", browser, "Accept: application/problem+json"} {
			r.want(403, "GET", target, "", none, media)
			r.want(403, "HEAD", target, "", none, media)
			r.want(200, "GET", target, "", some, media)
		}
		r.want(403, "GET", target, "", none, alice.cookie) // the header counts
	}
	if w := r.want(200, "GET", "/me", "", none); !strings.Contains(w.Body.String(), `"username":"alice"`) || !strings.Contains(w.Body.String(), `"roles":[]`) {
		t.Errorf("/me is %s", w.Body)
	}
	r.want(200, "GET", "/bearer/", "", none)
	// An access token of a user without roles is no API token.
	r.mustReload(edit(t, apiTokenConfig, "roles: [user, admin],", ""))
	r.want(403, "GET", "/account/sessions", "", some)
	r.want(200, "GET", "/account/sessions", "", alice.bearer)
}

// "others" ends the other logins, and with "tokens" the API tokens too.
func TestEndTokensWithLogins(t *testing.T) {
	t.Parallel()
	const end = "/account/sessions/end"
	for media, bodies := range map[string][]string{
		jsonType: {`{"others":true,"tokens":false}`, `{"others":true,"tokens":true}`},
		formType: {"others=true&tokens=false", "others=true&tokens=true"},
	} {
		r := newRig(t, apiTokenConfig)
		here, phone, bob := r.login(aliceIn), r.another(), r.login(bobIn)
		var tokens []string
		for range 3 {
			tokens = append(tokens, "Authorization: Bearer "+r.newToken(here.cookie, "").Token)
		}
		bobs := "Authorization: Bearer " + r.newToken(bob.cookie, "").Token
		done := map[string]int{jsonType: 200, formType: 303}[media]
		for _, body := range []string{
			`{"tokens":true}`, `{"id":"x","tokens":true}`, `{"others":true,"tokens":1}`, `{"others":true,"tokens":null}`, `{"others":false,"tokens":true}`,
			"tokens=true", "id=x&tokens=true", "others=true&tokens=1", "others=true&tokens=true&tokens=true",
		} {
			if strings.HasPrefix(body, "{") == (media == jsonType) {
				r.want(400, "POST", end, body, media, here.cookie)
			}
		}
		r.want(done, "POST", end, bodies[0], media, here.cookie)
		r.wantSession(401, phone)
		for _, line := range tokens {
			r.want(200, "GET", "/bearer/", "", line)
		}
		r.want(403, "POST", end, bodies[1], media, tokens[0])
		r.store.breakIf(func(operation string, _ int64, key string) bool {
			return operation == "take" && strings.HasPrefix(key, "apitoken:")
		})
		r.want(503, "POST", end, bodies[1], media, here.cookie)
		r.store.heal()
		w := r.want(done, "POST", end, bodies[1], media, here.cookie)
		if media == formType {
			page := r.want(200, "GET", w.Header().Get("Location"), "", browser, here.cookie)
			wantPage(t, page, "All other logins and your API tokens have ended.")
		} else if got := strings.TrimSpace(w.Body.String()); got != `{"message":"Ended.","ended":0,"tokens":3}` {
			t.Errorf("the answer is %s", got)
		}
		for _, line := range tokens {
			r.want(401, "GET", "/bearer/", "", line)
		}
		r.want(200, "GET", "/bearer/", "", bobs)
		r.wantSession(200, here, bob)
		if got := strings.TrimSpace(r.want(200, "GET", "/account/tokens", "", here.cookie).Body.String()); got != `{"tokens":[]}` {
			t.Errorf("the list is %s", got)
		}
		if n := strings.Count(r.log.String(), `"event":"token_revoked"`); n != 3 {
			t.Errorf("%d tokens are in the audit log", n)
		}
	}
}

// "Sign out everywhere" of the page ends the tokens too, and is there if there are
// tokens alone.
func TestPageSignsOutEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	in := r.login(aliceIn)
	const button = "Sign out everywhere else"
	wantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie), "not "+button)
	token := "Authorization: Bearer " + r.newToken(in.cookie, "").Token
	wantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie), button, `name="others" value="true"`, `name="tokens" value="true"`)
	r.post(303, "/account/sessions/end", "others=true&tokens=true", in.cookie)
	r.want(401, "GET", "/bearer/", "", token)
	r.wantSession(200, in)
}

// A token that is being made while its owner signs out everywhere does not survive.
func TestTokenMadeWhileItsLoginEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	here, thief := r.login(aliceIn), r.another()
	ending := false
	r.store.breakIf(func(operation string, _ int64, key string) bool {
		if operation == "swap" && strings.HasPrefix(key, "apitokens:") && !ending {
			ending = true // the thief's token is recorded, and not yet in the list
			r.want(200, "POST", "/account/sessions/end", `{"others":true,"tokens":true}`, jsonType, here.cookie)
		}
		return false
	})
	w := r.want(401, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, jsonType, thief.cookie)
	r.store.heal()
	if !ending || strings.Contains(w.Body.String(), "agt_") {
		t.Errorf("%t: the thief got %s", ending, w.Body)
	}
	if got := strings.TrimSpace(r.want(200, "GET", "/account/tokens", "", here.cookie).Body.String()); got != `{"tokens":[]}` {
		t.Errorf("the list is %s", got)
	}
}

// At a host that is not the gateway's, a page load is led home too, and nothing else is
// served.
func TestAccountAtForeignHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"listen: {any_host: true}\n")
	in := r.login(aliceIn)
	if w := r.wantAt("other.example", 302, "GET", "/account", "", browser, in.cookie); w.Header().Get("Location") != "https://gw.example/account" {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
	for _, line := range []string{in.cookie, in.bearer} {
		r.wantAt("other.example", 421, "GET", "/account", "", line)
		r.wantAt("other.example", 421, "GET", "/account/sessions", "", browser, line)
		r.wantAt("other.example", 421, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, jsonType, line)
		r.wantAt("other.example", 421, "POST", "/account/sessions/end", `{"others":true}`, jsonType, line)
	}
}
