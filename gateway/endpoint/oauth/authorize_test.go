package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// An error about the client or about where it wants the answer is a page: nothing is sent to
// an address that is not registered (RFC 6749, section 4.1.2.1).
func TestAuthorizeErrorsOnPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	for name, values := range map[string]url.Values{
		"no client":              ask("client_id", ""),
		"unknown client":         ask("client_id", "stranger"),
		"no redirect URI":        ask("redirect_uri", ""),
		"another site":           ask("redirect_uri", "https://evil.example/cb"),
		"another path":           ask("redirect_uri", "https://wiki.example.net/cb/../evil"),
		"a longer path":          ask("redirect_uri", "https://wiki.example.net/cb/x"),
		"a parameter more":       ask("redirect_uri", "https://wiki.example.net/cb?x=1&y=2"),
		"a user in it":           ask("redirect_uri", "https://wiki.example.net@evil.example/cb"),
		"a backslash":            ask("redirect_uri", `https://wiki.example.net\@evil.example/cb`),
		"another scheme":         ask("redirect_uri", "http://wiki.example.net/cb"),
		"a fragment":             ask("redirect_uri", "https://wiki.example.net/cb#x"),
		"another host's spell":   ask("redirect_uri", "https://WIKI.example.net/cb"),
		"that of another client": ask("redirect_uri", "https://spa.example.net/"),
		"twice the client":       {"client_id": {"wiki", "wiki"}, "redirect_uri": {"https://wiki.example.net/cb"}},
		"twice the redirect URI": {
			"client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.net/cb", "https://evil.example/"},
		},
	} {
		if w := s.authorize(values); w.Code != 400 || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d %q", name, w.Code, w.Header().Get("Location"))
		}
	}
}

// All other errors go to the client, with its state and the issuer.
func TestAuthorizeErrorsToTheClient(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	s.Login(rig.Bob)
	for _, c := range []struct {
		name, code string
		values     url.Values
	}{
		{"no response type", "invalid_request", ask("response_type", "")},
		{"the implicit grant", "unsupported_response_type", ask("response_type", "token")},
		{"the hybrid flow", "unsupported_response_type", ask("response_type", "code id_token")},
		{"a fragment", "invalid_request", ask("response_mode", "fragment")},
		{"two modes", "invalid_request", ask("response_mode", "query form_post")},
		{"no PKCE", "invalid_request", ask("code_challenge", "")},
		{"no method", "invalid_request", ask("code_challenge_method", "")},
		{"a downgrade", "invalid_request", ask("code_challenge_method", "plain", "code_challenge", verifier)},
		{"a short challenge", "invalid_request", ask("code_challenge", "abc")},
		{"no known scope", "invalid_scope", ask("scope", "everything")},
		{"an unknown resource", "invalid_target", ask("resource", "https://gw.example/nowhere")},
		{"a resource elsewhere", "invalid_target", ask("resource", "https://evil.example/mcp")},
		{"a resource over http", "invalid_target", ask("resource", "http://gw.example/bearer")},
		{"a request object", "request_not_supported", ask("request", "x.y.z")},
		{"a request object elsewhere", "request_not_supported", ask("request_uri", "https://evil.example/r")},
		{"an unknown prompt", "invalid_request", ask("prompt", "create")},
		{"silent and not", "invalid_request", ask("prompt", "none login")},
		{"a bad age", "invalid_request", ask("max_age", "-1")},
		{"a foreign hint", "invalid_request", ask("id_token_hint", "x.y.z")},
		{"silent, without consent", "consent_required", ask("prompt", "none")},
	} {
		place, answer := answerOf(t, s.authorize(c.values))
		if place != "https://wiki.example.net/cb" || answer.Get("error") != c.code || answer.Get("state") != "s t&a=t" ||
			answer.Get("iss") != issuer || answer.Has("code") {
			t.Errorf("%s: %s %v", c.name, place, answer)
		}
	}
	values := ask()
	values["scope"] = []string{"openid", "openid"}
	if _, answer := answerOf(t, s.authorize(values)); answer.Get("error") != "invalid_request" {
		t.Errorf("a parameter twice: %v", answer)
	}
	values = ask()
	values["resource"] = []string{"https://gw.example/any", "https://gw.example/bearer"}
	if _, answer := answerOf(t, s.authorize(values)); answer.Get("error") != "invalid_target" {
		t.Errorf("two resources: %v", answer)
	}
}

// A user who is not signed in, or not as the client needs it, signs in first, and comes back.
func TestAuthorizeLeadsToSignIn(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	w := s.Do("GET", "/oauth/authorize?"+ask("login_hint", "bob").Encode(), "", rig.Browser)
	place, values := answerOf(t, w)
	if place != "/signin" || values.Get("login_hint") != "bob" ||
		!strings.HasPrefix(values.Get("return_to"), "/oauth/authorize?") {
		t.Fatalf("%s %v", place, values)
	}
	page := s.Want(200, "GET", w.Header().Get("Location"), "", rig.Browser)
	// The client may be anywhere, and browsers apply form-action to what follows the form.
	if policy := page.Header().Get("Content-Security-Policy"); strings.Contains(policy, "form-action") ||
		!strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the sign-in page has %q", policy)
	}
	if !strings.Contains(page.Body.String(), `value="bob"`) {
		t.Error("the sign-in page does not know the login hint")
	}
	in := s.Want(303, "POST", "/login", "username=bob&password=builder&return_to="+
		url.QueryEscape(values.Get("return_to")), rig.Form, rig.Browser, "Origin: "+issuer)
	if place, _ := answerOf(t, in); place != "/oauth/authorize" {
		t.Errorf("the sign-in leads to %s", place)
	}
	silent := s.Do("GET", "/oauth/authorize?"+ask("prompt", "none").Encode(), "", rig.Browser)
	if _, answer := answerOf(t, silent); answer.Get("error") != "login_required" {
		t.Errorf("silent, and not signed in: %v", answer)
	}
}

// prompt=login and max_age want a sign-in that is newer, once: the way back must not ask again.
func TestAuthorizeAnew(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]string{
		"prompt=login": {"prompt", "login"}, "max_age=0": {"max_age", "0"}, "max_age": {"max_age", "60"},
		"select_account": {"prompt", "select_account"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, configuration)
			s.code(t, ask())
			s.Clock.Advance(2 * time.Minute)
			place, values := answerOf(t, s.authorize(ask(change...)))
			if place != "/signin" {
				t.Fatalf("%s %v", place, values)
			}
			back := values.Get("return_to")
			// The session from before is not enough, also not on the way back.
			if place, _ := answerOf(t, s.Do("GET", back, "", rig.Browser, s.cookie)); place != "/signin" {
				t.Errorf("the old session leads to %s", place)
			}
			s.Clock.Advance(time.Second)
			s.cookie = s.Login(rig.Alice).Cookie
			place, answer := answerOf(t, s.Do("GET", back, "", rig.Browser, s.cookie))
			if place != "https://wiki.example.net/cb" || answer.Get("code") == "" {
				t.Errorf("the new session leads to %s %v", place, answer)
			}
			if _, answer := answerOf(t, s.authorize(ask(append(change, "prompt", "none")...))); change[0] == "max_age" &&
				change[1] != "0" && answer.Get("code") == "" {
				t.Errorf("silent, with a new sign-in: %v", answer)
			}
		})
	}
}

// A provider that answers from its own session, when the user was to prove once more who they are, gives
// the client nothing. One that does not say when the user signed in is believed.
func TestAuthorizeAnewAtAProvider(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	routes, clients, _ := strings.Cut(configuration, "oauth:")
	r := p.Rig(routes, "oauth:"+clients)
	said := func(ago time.Duration) map[string]any {
		return map[string]any{"auth_time": r.Clock.Now().Add(-ago).Unix()}
	}
	for name, c := range map[string]struct {
		parameter, value string
		says             map[string]any
		refused          bool
	}{
		"long ago":               {"prompt", "login", said(11 * time.Minute), true},
		"max_age=0, long ago":    {"max_age", "0", said(11 * time.Minute), true},
		"just now":               {"prompt", "login", said(0), false},
		"by a clock behind":      {"prompt", "login", said(30 * time.Second), false},
		"it does not say":        {"prompt", "login", nil, false},
		"another account chosen": {"prompt", "select_account", said(11 * time.Minute), false},
	} {
		p.Claims = said(11 * time.Minute)
		s := &server{r, r.Carol()}
		_, values := answerOf(t, s.authorize(ask(c.parameter, c.value)))
		p.Claims = c.says
		s.cookie = r.Carol()
		w := s.Do("GET", values.Get("return_to"), "", rig.Browser, s.cookie)
		if c.refused != (w.Code != 200) {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Location"))
		}
		if !c.refused {
			continue
		}
		if place, answer := answerOf(t, w); place != "https://wiki.example.net/cb" || answer.Get("error") != "login_required" {
			t.Errorf("%s: %s %v", name, place, answer)
		}
	}
}

// A user who has signed in for a request takes their time on the way and on the page of consent, and is
// not asked again, however new the sign-in had to be. The way back serves no longer than an hour.
func TestAuthorizeTakesTime(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]string{
		"max_age": {"max_age", "2"}, "prompt=login": {"prompt", "login"}, "select_account": {"prompt", "select_account"},
		"both": {"max_age", "2", "prompt", "login"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, configuration+"session: {lifetime: 8h}\n")
			s.Clock.Advance(3 * time.Second)
			place, values := answerOf(t, s.authorize(ask(change...)))
			if place != "/signin" {
				t.Fatalf("an old sign-in leads to %s", place)
			}
			back := values.Get("return_to")
			s.cookie = s.Login(rig.Alice, s.cookie).Cookie
			s.Clock.Advance(3 * time.Second)
			form := formOf(t, s.Do("GET", back, "", rig.Browser, s.cookie))
			s.Clock.Advance(3 * time.Second)
			if place, answer := answerOf(t, s.decide(form, "allow")); answer.Get("code") == "" {
				t.Errorf("allowed: %s %v", place, answer)
			}
			if place, _ := answerOf(t, s.authorize(ask(change...))); place != "/signin" {
				t.Errorf("another request with the same sign-in leads to %s", place)
			}
			s.Clock.Advance(50 * time.Minute)
			if place, _ := answerOf(t, s.Do("GET", back, "", rig.Browser, s.cookie)); place != "https://wiki.example.net/cb" {
				t.Errorf("the way back leads to %s", place)
			}
			s.Clock.Advance(20 * time.Minute)
			if place, _ := answerOf(t, s.Do("GET", back, "", rig.Browser, s.cookie)); place != "/signin" {
				t.Errorf("an hour later, the way back leads to %s", place)
			}
		})
	}
}

// A user who chooses another language on the page of consent comes back to it, with the whole request.
func TestConsentInAnotherLanguage(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	place := "/oauth/authorize?" + ask("scope", "openid email", "state", "a b").Encode()
	page := s.Want(200, "GET", place, "", rig.Browser, s.cookie)
	if body := html.UnescapeString(page.Body.String()); !strings.Contains(body, `name="back" value="`+place+`"`) {
		t.Errorf("the page does not lead back to %s: %s", place, body)
	}
	back := s.Want(303, "POST", "/signin/language", url.Values{"language": {"de"}, "back": {place}}.Encode(), rig.Form,
		rig.Browser, "Origin: "+issuer, s.cookie)
	if got := back.Header().Get("Location"); got != place {
		t.Errorf("the choice leads to %s, want %s", got, place)
	}
}

// The page of consent names what the user decides on. Its form is worth nothing in another
// session or for another request, and another site cannot send it.
func TestConsent(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	values := ask("scope", "openid email", "resource", "https://gw.example/any")
	w := s.authorize(values)
	for _, text := range []string{"Wiki", "wiki.example.net", "https://gw.example/any", "email", "Alice Example"} {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("the page does not name %q: %s", text, w.Body)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	if strings.Contains(policy, "form-action") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the page has %q", policy)
	}
	if w := s.authorize(ask("scope", "openid")); !strings.Contains(w.Body.String(), "learns who you are.") ||
		strings.Contains(w.Body.String(), "userinfo") {
		t.Errorf("the page of a sign-in says more than who the user is: %s", w.Body)
	}
	form := formOf(t, w)
	mine := s.cookie
	s.cookie = s.Login(rig.Bob).Cookie
	if w := s.decide(form, "allow"); w.Code != 403 {
		t.Errorf("the form in another session: %d", w.Code)
	}
	s.cookie = s.Login(rig.Alice).Cookie
	if w := s.decide(form, "allow"); w.Code != 403 {
		t.Errorf("the form in another session of the user: %d", w.Code)
	}
	s.cookie = mine
	other := consentForm{strings.Replace(form.action, "email", "groups", 1), form.fields}
	if w := s.decide(other, "allow"); w.Code != 403 {
		t.Errorf("the form for another request: %d", w.Code)
	}
	if w := s.decide(form, "allow", fromOtherSite...); w.Code != 403 {
		t.Errorf("the form from another site: %d", w.Code)
	}
	if w := s.decide(form, "perhaps"); w.Code != 400 {
		t.Errorf("no decision: %d", w.Code)
	}
	if _, answer := answerOf(t, s.decide(form, "deny")); answer.Get("error") != "access_denied" {
		t.Errorf("denied: %v", answer)
	}
	if w := s.authorize(values); w.Code != 200 {
		t.Errorf("after a refusal: %d", w.Code)
	}
	if _, answer := answerOf(t, s.decide(form, "allow")); answer.Get("code") == "" {
		t.Errorf("allowed: %v", answer)
	}
	// It is remembered for this resource and these scopes alone.
	for _, c := range []struct {
		values url.Values
		status int
	}{
		{values, 302}, {ask("scope", "email", "resource", "https://gw.example/any"), 302},
		{ask("scope", "openid email groups", "resource", "https://gw.example/any"), 200},
		{ask("scope", "openid email"), 200}, {ask("scope", "openid email", "resource", "https://gw.example/bearer"), 200},
		{ask("scope", "openid email", "resource", "https://gw.example/any", "prompt", "consent"), 200},
	} {
		if w := s.authorize(c.values); w.Code != c.status {
			t.Errorf("%v: %d, want %d", c.values, w.Code, c.status)
		}
	}
	if _, answer := answerOf(t, s.authorize(ask("client_id", "quiet", "redirect_uri", "https://quiet.example.net/cb",
		"prompt", "none"))); answer.Get("code") == "" {
		t.Errorf("a client without a page: %v", answer)
	}
}

// A client's policy says who may sign in to it. Others get a page, and the client no answer, unless
// it has asked for one without a page.
func TestClientPolicy(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	values := ask("client_id", "admins", "redirect_uri", "https://admins.example.net/cb")
	if w := s.authorize(values); w.Code != 200 {
		t.Errorf("alice, who is an admin: %d", w.Code)
	}
	form := formOf(t, s.authorize(values))
	s.cookie = s.Login(rig.Bob).Cookie
	if w := s.authorize(values); w.Code != 403 || w.Header().Get("Location") != "" {
		t.Errorf("bob: %d %q", w.Code, w.Header().Get("Location"))
	}
	if w := s.decide(form, "allow"); w.Code != 403 {
		t.Errorf("bob with the form: %d", w.Code)
	}
	values.Set("prompt", "none") // the application has promised that he sees no page
	if _, answer := answerOf(t, s.authorize(values)); answer.Get("error") != "access_denied" {
		t.Errorf("bob, silently: %v", answer)
	}
}

// A client may send its request as a form. Browsers send no cookies with it, so the browser
// asks again by itself.
func TestAuthorizeByPost(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	w := s.Do("POST", "/oauth/authorize", ask().Encode(), rig.Browser, rig.Form, "Origin: https://wiki.example.net",
		"Sec-Fetch-Site: cross-site")
	place, values := answerOf(t, w)
	if place != "/oauth/authorize" || values.Encode() != ask().Encode() {
		t.Errorf("%s %v", place, values)
	}
}

// An application that asks for it gets each answer as a form, which sends itself to the registered
// address, or does so when the user presses the button (OAuth 2.0 Form Post Response Mode).
func TestFormPost(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	values := ask("response_mode", "form_post", "state", `s "><script>`, "redirect_uri", "https://wiki.example.net/cb?x=1")
	sent := func(w *httptest.ResponseRecorder) url.Values {
		t.Helper()
		rig.WantPage(t, w, `<button type="submit"`)
		form := formOf(t, w)
		if form.action != "https://wiki.example.net/cb?x=1" || form.fields.Get("iss") != issuer ||
			form.fields.Get("state") != values.Get("state") {
			t.Errorf("the form goes to %s with %v", form.action, form.fields)
		}
		h := w.Header()
		script := sha256.Sum256([]byte(scriptTag.FindStringSubmatch(w.Body.String())[1]))
		allowed := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(script[:]) + "'"
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, allowed) ||
			strings.Contains(policy, "form-action") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("the page has %q", policy)
		}
		if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "strict-origin" {
			t.Errorf("the page has %v", h)
		}
		return form.fields
	}
	asked := formOf(t, s.authorize(values))
	if refused := sent(s.decide(asked, "deny")); refused.Get("error") != "access_denied" || refused.Has("code") {
		t.Errorf("refused: %v", refused)
	}
	code := sent(s.decide(asked, "allow")).Get("code")
	a := s.post(t, 200, "/oauth/token", redemption(code, "redirect_uri", values.Get("redirect_uri")), asWiki)
	if a.ID == "" {
		t.Errorf("%+v", a)
	}
	if held := sent(s.authorize(values)); held.Get("code") == "" {
		t.Errorf("with a consent from before: %v", held)
	}
	values.Set("scope", "unknown")
	if wrong := sent(s.authorize(values)); wrong.Get("error") != "invalid_scope" || wrong.Get("error_description") == "" {
		t.Errorf("wrong: %v", wrong)
	}
}

var scriptTag = regexp.MustCompile(`(?s)<script>(.*)</script>`)
