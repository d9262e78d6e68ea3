package oauth_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// wantError checks that an answer is an error of OAuth (RFC 6749, section 5.2), and that a script of
// another origin may read it, or not.
func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, code string, readable bool) {
	t.Helper()
	var body map[string]any
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &body))
	text, _ := body["error_description"].(string)
	h := w.Header()
	if w.Code != status || body["error"] != code || text == "" || len(body) != 2 ||
		h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s, want %d %s", w.Code, h, w.Body, status, code)
	}
	if got := h.Get("Access-Control-Allow-Origin"); (got == "*") != readable {
		t.Errorf("Access-Control-Allow-Origin is %q", got)
	}
	if (status == 429 || status == 503) && h.Get("Retry-After") == "" {
		t.Errorf("a %d without Retry-After", status)
	}
}

// Every error of an endpoint for programs is one of OAuth, whatever is wrong and whatever the client
// accepts.
func TestErrorsForPrograms(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n  registration_rate: {requests: 1, per: 1h}\n")
	const script = "Origin: https://spa.example.net"
	a := s.tokens(t)
	forms := map[string]string{
		"/oauth/token":      "grant_type=refresh_token&refresh_token=" + a.Refresh,
		"/oauth/revoke":     "token=" + a.Access,
		"/oauth/introspect": "token=" + a.Access,
		"/oauth/device":     "client_id=reg_" + strings.Repeat("A", 26), // which the store must be asked for
		"/oauth/userinfo":   "access_token=" + a.Access,
	}
	for path, form := range forms {
		client := asWiki
		if path == "/oauth/device" {
			client = "" // the form names it
		}
		do := func(status int, code, method, body string, header ...string) {
			t.Helper()
			w := s.Do(method, path, body, append(header, script, rig.Browser)...)
			wantError(t, w, status, code, path != "/oauth/introspect")
		}
		do(405, "invalid_request", "PUT", "")
		do(413, "invalid_request", "POST", strings.Repeat("x", 2<<20), rig.Form, client)
		s.Store.BreakIf(func(string, int64, string) bool { return true })
		do(503, "temporarily_unavailable", "POST", form, rig.Form, client)
		s.Store.Heal()
		if path != "/oauth/userinfo" {
			do(401, "invalid_client", "POST", "grant_type=x", rig.Form)
			do(400, "invalid_request", "POST", form, rig.JSON, client)
			do(400, "invalid_request", "POST", "%", rig.Form, client)
		}
	}
	const metadata = `{"redirect_uris":["https://spa.example.net/"]}`
	s.Want(201, "POST", "/oauth/register", metadata, rig.JSON, script)
	wantError(t, s.Do("POST", "/oauth/register", metadata, rig.JSON, script), 429, "temporarily_unavailable", true)
	for range 50 { // failed logins of the client
		s.Do("POST", "/oauth/token", "grant_type=x", rig.Form, rig.Basic("wiki", "wrong"))
	}
	wantError(t, s.Do("POST", "/oauth/token", "grant_type=x", rig.Form, rig.Basic("wiki", "wrong"), script), 429,
		"temporarily_unavailable", true)

	s = newServer(t, configuration+"  registration: open\n")
	for body, want := range map[string]struct {
		status int
		media  string
		code   string
	}{
		"{":                                     {400, rig.JSON, "invalid_client_metadata"},
		`{"redirect_uris":["ftp://x"]}`:         {400, rig.JSON, "invalid_redirect_uri"},
		metadata:                                {415, rig.Form, "invalid_request"},
		`"` + strings.Repeat("x", 17<<10) + `"`: {413, rig.JSON, "invalid_request"},
	} {
		wantError(t, s.Do("POST", "/oauth/register", body, want.media, script), want.status, want.code, true)
	}
	s = newServer(t, configuration)
	wantError(t, s.Do("POST", "/oauth/register", metadata, rig.JSON, script), 404, "invalid_request", true)
}

// userinfo says what is wrong with a token, and takes one token in one place (RFC 6750, sections 2
// and 3.1).
func TestTokenOfUserinfo(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t)
	other := s.tokens(t, "scope", "email")
	bearer, form := "Authorization: Bearer "+a.Access, url.Values{"access_token": {a.Access}}.Encode()
	s.Want(200, "GET", "/oauth/userinfo", "", bearer)
	s.Want(200, "POST", "/oauth/userinfo", form, rig.Form)
	s.Want(200, "POST", "/oauth/userinfo", "access_token=", rig.Form, bearer)
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
		code       string
	}{
		"no token":          {"", "", nil, 401, "invalid_token"},
		"no valid token":    {"", "access_token=x", nil, 401, "invalid_token"},
		"no scope openid":   {"", "access_token=" + other.Access, nil, 403, "insufficient_scope"},
		"header and body":   {"", form, []string{bearer}, 400, "invalid_request"},
		"another in body":   {"", "access_token=" + other.Access, []string{bearer}, 400, "invalid_request"},
		"twice in the body": {"", form + "&" + form, nil, 400, "invalid_request"},
		"header and query":  {"?" + form, "", []string{bearer}, 400, "invalid_request"},
		"body and query":    {"?" + form, form, nil, 400, "invalid_request"},
		"query":             {"?" + form, "", nil, 401, "invalid_token"},
		"no form":           {"", "%", nil, 400, "invalid_request"},
	} {
		w := s.Do("POST", "/oauth/userinfo"+c.path, c.body, append(c.header, rig.Form, "Origin: https://spa.example.net")...)
		t.Run(name, func(t *testing.T) { wantError(t, w, c.status, c.code, true) })
	}
}

// Servers ask about tokens, so no script of another origin reads what they are. The other endpoints
// for programs are for scripts too.
func TestScriptsMayNotIntrospect(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration+"  registration: open\n")
	for path, status := range map[string]int{
		"/oauth/token": 204, "/oauth/revoke": 204, "/oauth/register": 204, "/oauth/userinfo": 204, "/oauth/introspect": 405,
	} {
		w := s.Do("OPTIONS", path, "", "Origin: https://spa.example.net", "Access-Control-Request-Method: POST")
		if shared := w.Header().Get("Access-Control-Allow-Origin") == "*"; w.Code != status || shared != (status == 204) {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	a := s.tokens(t)
	w := s.Want(200, "POST", "/oauth/introspect", "token="+a.Access, rig.Form, asWiki,
		"Origin: https://spa.example.net", "Sec-Fetch-Site: cross-site")
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("any origin may read what a token is: %q", got)
	}
}
