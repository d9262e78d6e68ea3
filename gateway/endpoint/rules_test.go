package endpoint_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"authgate/gateway/endpoint"
	"authgate/gateway/proxy/web"
	"authgate/internal/test/rig"
	"authgate/policy"
)

// rules are endpoints that do nothing, each with one rule.
func rules() []endpoint.Row {
	never := &web.Error{Status: http.StatusConflict, Detail: "Never."}
	rows := []endpoint.Row{
		{Name: "plain", Method: "GET"},
		{Name: "plain", Method: "POST"},
		{Name: "anyorigin", Method: "POST", AnyOrigin: true},
		{Name: "home", Method: "GET"}, // one row that is Home is enough
		{Name: "home", Method: "POST", Home: true},
		{Name: "page", Method: "GET", Home: true, Page: true},
		{Name: "leads", Method: "GET", LeadsHome: true},
		{Name: "enabled", Method: "POST", Enabled: func() error { return nil }},
		{Name: "disabled", Method: "POST", Enabled: func() error { return never }, Sessions: true},
		{Name: "sessions", Method: "POST", Sessions: true},
		{Name: "fresh", Method: "POST", Sessions: true, Fresh: time.Minute},
		{Name: "never", Method: "POST", Sessions: true, Fresh: time.Minute, May: func(id *policy.Identity) error {
			if id.Username == "bob" {
				return never
			}
			return nil
		}},
	}
	for i := range rows {
		rows[i].Do = func(ex *web.Exchange) error {
			_, err := io.WriteString(ex, "done")
			return err
		}
	}
	return rows
}

// Each column of a row is a rule, and Serve keeps it before the row does anything.
func TestRules(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.FiveHostsConfig, "store:", "listen: {any_host: true}\nstore:"))
	r.Mount(rules())
	const other, foreign, evil = "wiki.example.org", "evil.example", "Sec-Fetch-Site: cross-site"
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	r.Clock.Advance(59 * time.Second)
	for _, c := range []struct {
		host, method, path string
		status             int
		header             []string
	}{
		{"", "GET", "/plain", 200, nil},
		{"", "HEAD", "/plain", 200, nil},
		{"", "PUT", "/plain", 405, nil},
		{"", "GET", "/anyorigin", 405, nil},
		{"", "GET", "/plain", 200, []string{evil}},
		{"", "GET", "/plain", 403, []string{"Service-Worker: script"}},
		{"", "POST", "/plain", 403, []string{evil}},
		{"", "POST", "/anyorigin", 200, []string{evil}},
		{other, "GET", "/plain", 200, nil},
		{foreign, "GET", "/plain", 421, nil},
		{other, "GET", "/home", 403, nil},
		{other, "POST", "/home", 403, nil},
		{other, "PUT", "/home", 403, nil},
		{foreign, "POST", "/home", 421, nil},
		{other, "GET", "/page", 302, []string{rig.Browser}},
		{other, "GET", "/page", 403, nil},
		{foreign, "GET", "/page", 302, []string{rig.Browser}},
		{other, "GET", "/leads", 200, nil},
		{foreign, "GET", "/leads", 200, nil},
		{foreign, "POST", "/leads", 421, nil},
		{"", "POST", "/enabled", 200, nil},
		{"", "POST", "/disabled", 409, nil},
		{"", "POST", "/sessions", 401, nil},
		{"", "POST", "/sessions", 401, []string{rig.Basic("alice", "wonderland")}},
		{"", "POST", "/sessions", 403, []string{alice.Bearer}},
		{"", "POST", "/sessions", 403, []string{alice.Bearer, alice.Cookie}},
		{"", "POST", "/sessions", 200, []string{alice.Cookie}},
		{"", "POST", "/fresh", 200, []string{alice.Cookie}},
		{"", "POST", "/never", 200, []string{alice.Cookie}},
		{"", "POST", "/never", 409, []string{bob.Cookie}},
	} {
		host := c.host
		if host == "" {
			host = "gw.example"
		}
		w := r.WantAt(host, c.status, c.method, c.path, "", c.header...)
		if done := w.Body.String() == "done"; done != (c.status == 200) {
			t.Errorf("%s %s%s with %q: the row has answered: %t", c.method, host, c.path, c.header, done)
		}
	}
	r.Clock.Advance(2 * time.Second)
	r.Want(403, "POST", "/fresh", "", alice.Cookie)
	r.Want(409, "POST", "/never", "", bob.Cookie)
	w := r.Want(303, "POST", "/fresh", "", rig.Form, rig.Browser, alice.Cookie)
	if got := w.Header().Get("Location"); got != "/signin?reason=fresh&return_to=%2Faccount" {
		t.Errorf("a form after that: to %s", got)
	}
	r.Want(403, "POST", "/fresh", "", rig.Form, rig.Browser, "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin",
		alice.Cookie)
	r.Store.BreakIf(func(string, int64, string) bool { return true })
	r.Want(503, "POST", "/sessions", "", bob.Cookie)
}

// Where clients that do not tell their site must carry a token, a row for sessions wants
// that of the login.
func TestRulesWantTheToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	r.Mount(rules())
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	r.Want(403, "POST", "/sessions", "", alice.Cookie)
	r.Want(403, "POST", "/sessions", "", alice.Cookie, "X-CSRF-Token: "+r.CSRFToken(bob.Cookie))
	r.Want(200, "POST", "/sessions", "", alice.Cookie, "X-CSRF-Token: "+r.CSRFToken(alice.Cookie))
	r.Want(200, "POST", "/sessions", "", alice.Cookie, "Origin: https://gw.example")
}
