package gateway

import (
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// post sends a form of the account page, as a browser does.
func (r *rig) post(status int, target, form, cookie string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.want(status, "POST", target, form, formType, browser, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", cookie)
}

const (
	endForm      = `action="/account/sessions/end"`
	passwordForm = `action="/account/password"`
	tokenForm    = `action="/account/tokens"`
)

// The page has the logins, the tokens and the forms for what its user may do.
func TestAccountPage(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	in, phone := r.login(aliceIn), r.another()
	wantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie),
		"Alice Example", "This device", "a phone", "192.0.2.7", endForm, passwordForm, tokenForm, `value="admin"`)
	wantPage(t, r.want(200, "GET", "/account", "", browser, in.bearer), "a phone", "not "+endForm, "not "+passwordForm, "not "+tokenForm)
	wantPage(t, r.want(200, "GET", "/account", "", browser, "Accept-Language: de", in.cookie), "Wo Sie angemeldet sind")
	for done, words := range map[string]string{
		"login": "The login has ended.", "logins": "All other logins have ended.", "password": "Your password is changed.", "token": "The token is revoked.", "x": "not role=\"status\"",
	} {
		wantPage(t, r.want(200, "GET", "/account?done="+done, "", browser, in.cookie), words)
	}
	id := r.logins(phone.cookie)[0].ID
	w := r.post(303, "/account/sessions/end", "id="+id, in.cookie)
	if to := w.Header().Get("Location"); to != "/account?done=login" {
		t.Errorf("to %q", to)
	}
	r.wantSession(401, phone)
	wantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie), "not a phone", "not "+endForm)
	w = r.post(303, "/account/sessions/end", "id="+r.logins(in.cookie)[0].ID, in.cookie)
	if to := w.Header().Get("Location"); to != "/signin?reason=signed_out" {
		t.Errorf("to %q", to)
	}
	r.wantSession(401, in)
	if err := os.Remove(path); err != nil { // a file that can be read alone would still be writable for root
		t.Fatal(err)
	}
	r.clock.Advance(1)
	wantPage(t, r.want(200, "GET", "/account", "", browser, r.login(aliceIn).cookie), "not "+passwordForm)
}

// Mistakes in the form of the password are told in the page, with their status.
func TestAccountPagePassword(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	in := r.login(aliceIn)
	for form, c := range map[string]struct {
		status int
		words  string
	}{
		"current=wrong&new=looking-glass&again=looking-glass":         {403, "The current password is wrong."},
		"current=wonderland&new=short&again=short":                    {400, "at least 8 characters."},
		"current=wonderland&new=looking-glass&again=x":                {400, "differ."},
		"current=wonderland&again=x&new=" + strings.Repeat("x", 1025): {400, "differ."},
		"current=wonderland&new=" + strings.Repeat("x", 1025):         {400, "too long."},
		"current=" + url.QueryEscape(`"><b>`) + "&new=looking-glass":  {403, "The current password is wrong."},
	} {
		wantPage(t, r.post(c.status, "/account/password", form, in.cookie), c.words, `role="alert"`, passwordForm, "not looking-glass", "not <b>", "not wonderland")
	}
	w := r.post(303, "/account/password", "current=wonderland&new=looking-glass&again=looking-glass", in.cookie)
	if to := w.Header().Get("Location"); to != "/account?done=password" {
		t.Errorf("to %q", to)
	}
	r.stub()
	wantPage(t, r.want(200, "GET", "/account?done=password", "", browser, jarOf(w).line("session_id")), "Your password is changed.")
}

// A token is made by a form too. The page shows it once.
func TestAccountPageTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	in := r.login(aliceIn)
	w := r.post(201, "/account/tokens", "name=%3Cb%3Eci&expires_in=604800&roles=user", in.cookie)
	wantPage(t, w, "Copy the token <strong>&lt;b&gt;ci</strong> now.", "agt_", "not <b>")
	_, rest, _ := strings.Cut(w.Body.String(), "agt_")
	token := "agt_" + rest[:59]
	r.want(200, "GET", "/bearer/", "", "Authorization: Bearer "+token)
	r.want(403, "GET", "/admin/", "", "Authorization: Bearer "+token)
	page := r.want(200, "GET", "/account", "", browser, in.cookie)
	wantPage(t, page, "&lt;b&gt;ci", "not agt_")
	_, rest, _ = strings.Cut(page.Body.String(), `action="/account/tokens/revoke"`)
	_, rest, _ = strings.Cut(rest, `name="id" value="`)
	id, _, _ := strings.Cut(rest, `"`)
	for form, status := range map[string]int{
		"name=&expires_in=1": 400, "name=a&expires_in=0": 400, "name=a&expires_in=x": 400, "name=a&expires_in=99999999": 400, "name=a&expires_in=1&roles=root": 400,
		"name=a": 400, "expires_in=1": 400, "name=a&name=b&expires_in=1": 400, "name=%ff&expires_in=1": 400,
	} {
		wantPage(t, r.post(status, "/account/tokens", form, in.cookie), `role="alert"`, "A token needs a name", tokenForm)
	}
	if w := r.post(303, "/account/tokens/revoke", "id="+id, in.cookie); w.Header().Get("Location") != "/account?done=token" {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
	r.want(401, "GET", "/bearer/", "", "Authorization: Bearer "+token)
	r.post(404, "/account/tokens/revoke", "id="+id, in.cookie)
	r.post(400, "/account/tokens/revoke", "", in.cookie)
	// Without roles, a token by a form has none. A program that sends a form gets JSON.
	made := readToken(t, r.want(201, "POST", "/account/tokens", "name=a&expires_in=60", formType, in.cookie))
	if len(made.Roles) != 0 || made.Token == "" {
		t.Errorf("made %+v", made)
	}
	for range 99 {
		r.newToken(in.cookie, "")
	}
	wantPage(t, r.post(409, "/account/tokens", "name=a&expires_in=60", in.cookie), `role="alert"`, "You have as many tokens")
}

// With session.csrf_token, each form of the page has the token.
func TestAccountPageCSRFToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	in := r.login(aliceIn)
	r.another()
	body := r.want(200, "GET", "/account", "", browser, in.cookie).Body.String()
	if forms, tokens := strings.Count(body, "<form"), strings.Count(body, `name="csrf_token" value="`+r.csrfToken(in.cookie)+`"`); forms != 4 || tokens != forms {
		t.Errorf("%d forms have %d tokens", forms, tokens)
	}
}

// Users of a provider have logins, and neither a password nor tokens.
func TestAccountPageOfProviders(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	back := r.leave("")
	cookie := jarOf(r.want(302, "GET", back.target, "", back.cookie, fromPhone)).line()
	wantPage(t, r.want(200, "GET", "/account", "", browser, cookie), "carol", "small", "a phone", "not "+passwordForm, "not "+tokenForm)
}

// A failure of the store is no page without logins.
func TestAccountPageWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	in := r.login(aliceIn)
	r.newToken(in.cookie, "")
	for _, kind := range []string{"group:", "apitokens:"} {
		r.store.breakIf(func(_ string, _ int64, key string) bool { return strings.HasPrefix(key, kind) })
		r.want(503, "GET", "/account", "", browser, in.cookie)
	}
	r.store.heal()
	r.clock.Advance(time.Minute)
	r.want(200, "GET", "/account", "", browser, in.cookie)
}
