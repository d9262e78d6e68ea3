package account_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// The account is at the host of public_url alone: an application at another host could
// else make tokens and end logins with the session that the browser sends there.
func TestAccountIsAtHomeAlone(t *testing.T) {
	t.Parallel()
	shared := strings.NewReplacer("public_url: https://gw.example",
		"public_url: https://gw.example\nsession: {domain: gw.example}",
		"wiki.example.org", "wiki.gw.example").Replace(rig.Base + `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session, bearer]}
`)
	for name, c := range map[string]struct{ yaml, host string }{
		"a session for each host": {rig.FiveHostsConfig, "mail.example.net"},
		"session.domain":          {shared, "wiki.gw.example"},
		"another port":            {rig.Base, "GW.example.:8443"}, // the same host
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, c.yaml)
			in, phone := rig.ReadLogin(t, r.WantAt(c.host, 200, "POST", "/login", rig.Alice, rig.JSON)), r.Another()
			away := map[bool]int{true: 403}[name != "another port"]
			elsewhere := func(here int, method, target, body string, header ...string) *httptest.ResponseRecorder {
				t.Helper()
				return r.WantAt(c.host, max(here*(1-away/403), away), method, target, body, header...)
			}
			for _, line := range []string{in.Cookie, in.Bearer} {
				for _, target := range []string{"/account", "/account/sessions", "/account/tokens"} {
					elsewhere(200, "GET", target, "", line)
					elsewhere(200, "HEAD", target, "", line)
				}
				elsewhere(200, "GET", "/account/sessions", "", rig.Browser, "Sec-Fetch-Mode: navigate", line)
			}
			if away == 0 {
				return
			}
			end := `{"id":"` + r.Logins(phone.Cookie)[0].ID + `"}`
			for target, body := range map[string]string{
				"/account/tokens": `{"name":"ci","expires_in":60}`, "/account/sessions/end": end, "/account/tokens/revoke": end,
				"/account/password": rig.ChangeTo("wonderland", "looking-glass"), "/account": "", "/account/sessions": "",
			} {
				for _, line := range []string{in.Cookie, in.Bearer, "", rig.Basic("alice", "wonderland")} {
					elsewhere(0, "POST", target, body, rig.JSON, line, "Origin: https://"+c.host)
					elsewhere(0, "POST", target, "name=ci&expires_in=60&others=true", rig.Form, rig.Browser, line,
						"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate")
					elsewhere(0, "OPTIONS", target, "", line)
				}
			}
			elsewhere(0, "POST", "/account/sessions/end", `{"others":true}`, rig.JSON, in.Cookie)
			for _, method := range []string{"GET", "HEAD"} {
				for _, line := range []string{in.Cookie, ""} {
					w := r.WantAt(c.host, 302, method, "/account?done=login", "", rig.Browser, line)
					if to := w.Header().Get("Location"); to != "https://gw.example/account?done=login" ||
						w.Header()["Set-Cookie"] != nil {
						t.Errorf("%s leads to %q", method, to)
					}
				}
			}
			elsewhere(0, "GET", "/account", "", rig.Browser, in.Cookie, "Sec-Fetch-Mode: cors")
			r.WantSession(200, phone)
			if log := r.Log.String(); strings.Contains(log, "token_created") || strings.Contains(log, `"event":"logout"`) {
				t.Error("something was done")
			}
		})
	}
}

// An API token needs a sign-in of the last ten minutes. A refresh is none, and neither
// is a session at another host, or what the account page shows.
func TestAPITokensNeedAFreshSignIn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig)
	const order = `{"name":"ci","expires_in":3600}`
	in := r.Login(rig.Alice)
	made := r.NewToken(in.Cookie, "")
	r.Clock.Advance(10 * time.Minute)
	r.NewToken(in.Cookie, "")
	r.Clock.Advance(1)
	in.Refresh = rig.ReadLogin(t, r.Want(200, "POST", "/refresh", rig.RefreshBody(in.Refresh), rig.JSON)).Refresh
	for _, body := range []string{order, "{}", ""} {
		w := r.Want(403, "POST", "/account/tokens", body, rig.JSON, in.Cookie)
		if age := rig.SignInAge(t, w); age != 600.0 || !strings.Contains(rig.DetailOf(t, w), "Sign in again") {
			t.Errorf("max_age %v: %s", age, w.Body)
		}
	}
	w := r.Want(403, "POST", "/account/tokens", "name=ci&expires_in=60", rig.Form, in.Cookie) // a program
	if age := rig.SignInAge(t, w); age != 600.0 {
		t.Errorf("max_age %v: %s", age, w.Body)
	}
	r.Want(403, "POST", "/account/tokens", "name=ci&expires_in=60", rig.Form, rig.Browser,
		"X-Requested-With: XMLHttpRequest", in.Cookie)
	for line, want := range map[string]int{"": 401, in.Bearer: 403, "Authorization: Bearer " + made.Token: 403} {
		if w := r.Want(want, "POST", "/account/tokens", order, rig.JSON, line); rig.SignInAge(t, w) != nil {
			t.Errorf("with %q: %s", line, w.Body) // a sign-in would not help
		}
	}
	r.Want(200, "GET", "/account/tokens", "", in.Cookie)
	r.Want(200, "POST", "/account/tokens/revoke", `{"id":"`+made.ID+`"}`, rig.JSON, in.Cookie)
	r.NewToken(r.Login(rig.Alice).Cookie, "")
	r.Clock.Advance(-time.Hour) // set back: the age is not known
	r.Want(403, "POST", "/account/tokens", order, rig.JSON, in.Cookie)
}

// The page leads a user whose sign-in is old through the form of the sign-in page,
// although there is a session, and back.
func TestAccountPageLeadsThroughASignIn(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"/", "/auth/"} {
		r := rig.New(t, rig.Edit(t, rig.FiveHostsConfig, "store:", "endpoints: {prefix: "+prefix+"}\nstore:"))
		p, account := r.Person(), "https://gw.example"+prefix+"account"
		p.Visit("POST", "https://gw.example"+prefix+"login", "username=alice&password=wonderland", rig.Form)
		tokens := `action="` + prefix + `account/tokens"`
		programs := account + "?part=programs"
		_, page := p.Visit("GET", programs, "")
		rig.WantPage(t, page, tokens, "not Sign in again")
		r.Clock.Advance(10*time.Minute + 1)
		_, page = p.Visit("GET", programs, "")
		rig.WantPage(t, page, "not "+tokens, `href="`+prefix+`signin?reason=fresh&amp;return_to=`, "Sign in again")
		// The form of a page that was open for long.
		at, page := p.Visit("POST", account+"/tokens", "name=ci&expires_in=60", rig.Form, "Origin: https://gw.example")
		want := "https://gw.example" + prefix + "signin?reason=fresh&return_to=" + url.QueryEscape(prefix+"account?part=programs")
		if at != want {
			t.Fatalf("the form leads to %s, want %s", at, want)
		}
		rig.WantPage(t, page, `name="password"`, `value="alice"`, "Sign in again")
		if _, page = p.Post(page, "nobody"); page.Code != 401 {
			t.Errorf("a wrong password: %d", page.Code)
		}
		if at, page = p.Post(page, "alice"); at != programs {
			t.Errorf("the sign-in leads to %s", at)
		}
		rig.WantPage(t, page, tokens)
		if _, page = p.Visit("POST", account+"/tokens", "name=ci&expires_in=60", rig.Form,
			"Origin: https://gw.example"); page.Code != 201 {
			t.Errorf("after the sign-in: %d %s", page.Code, page.Body)
		}
	}
}

// A browser that is not signed in gets the usual page. A session of a provider's user does
// not pass either, and the provider asks for credentials again.
func TestFreshSignInOfOthers(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	rig.WantPage(t, r.Want(200, "GET", "/signin?reason=fresh&return_to=%2Faccount", "", rig.Browser), `name="password"`,
		"not Sign in again")

	r, _ = rig.Delegated(t, "")
	back := r.Leave("")
	cookie := rig.JarOf(r.Want(302, "GET", back.Target, "", back.Cookie)).Line()
	rig.WantPage(t, r.Want(200, "GET", "/signin?reason=fresh&return_to=%2Faccount", "", rig.Browser, cookie),
		"Sign in again",
		"/login?provider=small&amp;switch=1&amp;return_to=%2Faccount")
	r.Clock.Advance(11 * time.Minute)
	w := r.Want(403, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, rig.JSON, cookie)
	if rig.SignInAge(t, w) != nil {
		t.Errorf("a sign-in would not help: %s", w.Body)
	}
}

// An API token without roles says who it is, and tells nothing of the account.
func TestAPITokenWithoutRoles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice := r.Login(rig.Alice)
	none := "Authorization: Bearer " + r.NewToken(alice.Cookie, `,"roles":[]`).Token
	some := "Authorization: Bearer " + r.NewToken(alice.Cookie, `,"roles":["user"]`).Token
	for _, target := range []string{"/account", "/account/sessions", "/account/tokens"} {
		for _, media := range []string{"", rig.Browser, "Accept: application/problem+json"} {
			r.Want(403, "GET", target, "", none, media)
			r.Want(403, "HEAD", target, "", none, media)
			r.Want(200, "GET", target, "", some, media)
		}
		r.Want(403, "GET", target, "", none, alice.Cookie) // the header counts
	}
	if w := r.Want(200, "GET", "/me", "", none); !strings.Contains(w.Body.String(), `"username":"alice"`) ||
		!strings.Contains(w.Body.String(), `"roles":[]`) {
		t.Errorf("/me is %s", w.Body)
	}
	r.Want(200, "GET", "/bearer/", "", none)
	// An access token of a user without roles is no API token.
	r.Reload(rig.Edit(t, rig.Base, "roles: [user, admin],", ""))
	r.Want(403, "GET", "/account/sessions", "", some)
	r.Want(200, "GET", "/account/sessions", "", alice.Bearer)
}

// "others" ends the other logins, and with "tokens" the API tokens too.
func TestEndTokensWithLogins(t *testing.T) {
	t.Parallel()
	const end = "/account/sessions/end"
	for media, bodies := range map[string][]string{
		rig.JSON: {`{"others":true,"tokens":false}`, `{"others":true,"tokens":true}`},
		rig.Form: {"others=true&tokens=false", "others=true&tokens=true"},
	} {
		r := rig.New(t, rig.Base)
		here, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
		var tokens []string
		for range 3 {
			tokens = append(tokens, "Authorization: Bearer "+r.NewToken(here.Cookie, "").Token)
		}
		bobs := "Authorization: Bearer " + r.NewToken(bob.Cookie, "").Token
		done := map[string]int{rig.JSON: 200, rig.Form: 303}[media]
		for _, body := range []string{
			`{"tokens":true}`, `{"id":"x","tokens":true}`, `{"others":true,"tokens":1}`, `{"others":true,"tokens":null}`,
			`{"others":false,"tokens":true}`,
			"tokens=true", "id=x&tokens=true", "others=true&tokens=1", "others=true&tokens=true&tokens=true",
		} {
			if strings.HasPrefix(body, "{") == (media == rig.JSON) {
				r.Want(400, "POST", end, body, media, here.Cookie)
			}
		}
		r.Want(done, "POST", end, bodies[0], media, here.Cookie)
		r.WantSession(401, phone)
		for _, line := range tokens {
			r.Want(200, "GET", "/bearer/", "", line)
		}
		r.Want(403, "POST", end, bodies[1], media, tokens[0])
		r.Store.BreakIf(func(operation string, _ int64, key string) bool {
			return operation == "take" && strings.HasPrefix(key, "apitoken:")
		})
		r.Want(503, "POST", end, bodies[1], media, here.Cookie)
		r.Store.Heal()
		w := r.Want(done, "POST", end, bodies[1], media, here.Cookie)
		if media == rig.Form {
			page := r.Want(200, "GET", w.Header().Get("Location"), "", rig.Browser, here.Cookie)
			rig.WantPage(t, page, "All other logins and your API tokens have ended.")
		} else if got := strings.TrimSpace(w.Body.String()); got != `{"message":"Ended.","ended":0,"tokens":3}` {
			t.Errorf("the answer is %s", got)
		}
		for _, line := range tokens {
			r.Want(401, "GET", "/bearer/", "", line)
		}
		r.Want(200, "GET", "/bearer/", "", bobs)
		r.WantSession(200, here, bob)
		if got := strings.TrimSpace(r.Want(200, "GET", "/account/tokens", "",
			here.Cookie).Body.String()); got != `{"tokens":[]}` {
			t.Errorf("the list is %s", got)
		}
		if n := strings.Count(r.Log.String(), `"event":"token_revoked"`); n != 3 {
			t.Errorf("%d tokens are in the audit log", n)
		}
	}
}

// "Sign out everywhere" of the page ends the tokens too, and is there if there are
// tokens alone.
func TestPageSignsOutEverywhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	in := r.Login(rig.Alice)
	const button = "Sign out everywhere else"
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, in.Cookie), "not "+button)
	token := "Authorization: Bearer " + r.NewToken(in.Cookie, "").Token
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, in.Cookie), button, `name="others" value="true"`,
		`name="tokens" value="true"`)
	r.Post(303, "/account/sessions/end", "others=true&tokens=true", in.Cookie)
	r.Want(401, "GET", "/bearer/", "", token)
	r.WantSession(200, in)
}

// A token that is being made while its owner signs out everywhere does not survive.
func TestTokenMadeWhileItsLoginEnds(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	here, thief := r.Login(rig.Alice), r.Another()
	ending := false
	r.Store.BreakIf(func(operation string, _ int64, key string) bool {
		if operation == "swap" && strings.HasPrefix(key, "apitokens:") && !ending {
			ending = true // the thief's token is recorded, and not yet in the list
			r.Want(200, "POST", "/account/sessions/end", `{"others":true,"tokens":true}`, rig.JSON, here.Cookie)
		}
		return false
	})
	w := r.Want(401, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, rig.JSON, thief.Cookie)
	r.Store.Heal()
	if !ending || strings.Contains(w.Body.String(), "agt_") {
		t.Errorf("%t: the thief got %s", ending, w.Body)
	}
	if got := strings.TrimSpace(r.Want(200, "GET", "/account/tokens", "",
		here.Cookie).Body.String()); got != `{"tokens":[]}` {
		t.Errorf("the list is %s", got)
	}
}

// At a host that is not the gateway's, a page load is led home too, and nothing else is
// served.
func TestAccountAtForeignHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"listen: {any_host: true}\n")
	in := r.Login(rig.Alice)
	if w := r.WantAt("other.example", 302, "GET", "/account", "", rig.Browser,
		in.Cookie); w.Header().Get("Location") != "https://gw.example/account" {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
	for _, line := range []string{in.Cookie, in.Bearer} {
		r.WantAt("other.example", 421, "GET", "/account", "", line)
		r.WantAt("other.example", 421, "GET", "/account/sessions", "", rig.Browser, line)
		r.WantAt("other.example", 421, "POST", "/account/tokens", `{"name":"ci","expires_in":60}`, rig.JSON, line)
		r.WantAt("other.example", 421, "POST", "/account/sessions/end", `{"others":true}`, rig.JSON, line)
	}
}
