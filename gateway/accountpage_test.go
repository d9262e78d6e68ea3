package gateway

import (
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// post sends a form of the account page, as a browser does.
func (r *rig) post(status int, target, form, cookie string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.want(status, "POST", target, form, formType, browser, "Sec-Fetch-Site: same-origin",
		"Sec-Fetch-Mode: navigate", cookie)
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
	ownrig.WantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie),
		"Alice Example", "This device", "a phone", "192.0.2.7", endForm, "not "+passwordForm, "not "+tokenForm)
	for part, want := range map[string][]string{
		"password": {passwordForm, "not " + tokenForm}, "programs": {tokenForm, `value="admin"`, "not " + passwordForm},
		"factors": {`action="/account/totp"`, "not " + passwordForm},
	} {
		ownrig.WantPage(t, r.want(200, "GET", "/account?part="+part, "", browser, in.cookie), append(want, "not "+endForm)...)
	}
	ownrig.WantPage(t, r.want(200, "GET", "/account", "", browser, in.bearer), "a phone", "not "+endForm,
		"not "+passwordForm, "not "+tokenForm)
	ownrig.WantPage(t, r.want(200, "GET", "/account", "", browser, "Accept-Language: de", in.cookie),
		"Wo Sie angemeldet sind")
	for done, words := range map[string]string{
		"login": "The login has ended.", "logins": "All other logins have ended.", "password": "Your password is changed.",
		"token": "The token is revoked.", "x": "not role=\"status\"",
	} {
		ownrig.WantPage(t, r.want(200, "GET", "/account?done="+done, "", browser, in.cookie), words)
	}
	id := r.logins(phone.cookie)[0].ID
	w := r.post(303, "/account/sessions/end", "id="+id, in.cookie)
	if to := w.Header().Get("Location"); to != "/account?done=login" {
		t.Errorf("to %q", to)
	}
	r.wantSession(401, phone)
	ownrig.WantPage(t, r.want(200, "GET", "/account", "", browser, in.cookie), "not a phone", "not "+endForm)
	w = r.post(303, "/account/sessions/end", "id="+r.logins(in.cookie)[0].ID, in.cookie)
	if to := w.Header().Get("Location"); to != "/signin?reason=signed_out" {
		t.Errorf("to %q", to)
	}
	r.wantSession(401, in)
	if err := os.Remove(path); err != nil { // a file that can be read alone would still be writable for root
		t.Fatal(err)
	}
	r.clock.Advance(1)
	ownrig.WantPage(t, r.want(200, "GET", "/account?part=password", "", browser, r.login(aliceIn).cookie),
		"not "+passwordForm, `not href="/account?part=password"`)
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
		ownrig.WantPage(t, r.post(c.status, "/account/password", form, in.cookie), c.words, `role="alert"`, passwordForm,
			"not looking-glass", "not <b>", "not wonderland")
	}
	w := r.post(303, "/account/password", "current=wonderland&new=looking-glass&again=looking-glass", in.cookie)
	if to := w.Header().Get("Location"); to != "/account?done=password" {
		t.Errorf("to %q", to)
	}
	r.stub()
	ownrig.WantPage(t, r.want(200, "GET", "/account?done=password", "", browser, jarOf(w).Line("session_id")),
		"Your password is changed.")
}
