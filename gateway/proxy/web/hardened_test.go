package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"authgate/gateway/proxy/web"
	"authgate/internal/test/rig"
)

// hardened checks the header of an answer of the gateway's own. Package pages tests the
// policy of its pages.
func hardened(t *testing.T, r *rig.Rig, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	h, media := w.Header(), w.Header().Get("Content-Type")
	want := map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		"Cache-Control": "no-store", "X-Request-Id": h.Get("X-Request-Id")}
	if what == "GET /signin/complete" && w.Code == http.StatusBadRequest && h.Get("Referrer-Policy") != "same-origin" {
		want["Referrer-Policy"] = "no-referrer" // the URL has a ticket
	}
	if w.Code/100 == 3 || strings.HasPrefix(media, web.TypeHTML) {
		want["Cross-Origin-Opener-Policy"] = "same-origin"
	}
	switch {
	case w.Code/100 == 3: // without a body
		delete(want, "X-Content-Type-Options")
		delete(want, "Referrer-Policy")
	case strings.HasSuffix(what, "jwks.json") && w.Code == http.StatusOK:
		want["Cache-Control"] = "public, max-age=300"
	case strings.HasPrefix(media, web.TypeHTML):
		want["Content-Type"], want["Content-Security-Policy"] = "text/html; "+
			"charset=utf-8", r.Options.Site.Pages.In("", nil).ContentSecurityPolicy(w.Body.Bytes(),
			r.Options.Site.FormTargets("gw.example"))
		if strings.Contains(what, "/frontchannel-logout/") &&
			w.Code == http.StatusOK { // an empty page, for a frame of the provider's
			want["Content-Security-Policy"] = "default-src 'none'; frame-ancestors " + r.Config.Providers[0].Issuer
			if w.Body.Len() > 0 {
				t.Errorf("%s: the body is %q", what, w.Body)
			}
		}
	case w.Body.Len() > 0 && media != web.TypeJSON && media != web.TypeProblem:
		t.Errorf("%s: %d as %q", what, w.Code, media)
	}
	for name, value := range want {
		if got := h[name]; len(got) != 1 || got[0] != value || value == "" {
			t.Errorf("%s: %d with %s: %q, want %q", what, w.Code, name, got, value)
		}
	}
	_, scripts, _ := strings.Cut(h.Get("Content-Security-Policy"), "; script-src ")
	scripts, _, _ = strings.Cut(scripts, ";")
	if allowed := len(strings.Fields(scripts)); strings.Count(w.Body.String(), "<script") != allowed {
		t.Errorf("%s: the page has other scripts than the %d that it allows: %s", what, allowed, w.Body)
	}
}

// Each page and each error is hardened, for each client, media type and result.
// TestFail of package web has the errors that take more than one request.
func TestOwnAnswersAreHardened(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := rig.New(t, rig.WithToken+
		"  - {match: /delegated/, upstream: app, auth: [oidc]}\n  - {match: /small/, upstream: app, auth: "+
		"[none], max_body: 1}\n"+
		"providers:\n  - {name: small, issuer: \""+p.Issuer+"\", client_id: gateway}\n  - {name: other, issuer: "+
		"\""+p.Issuer+"/other\", client_id: gateway}\n")
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	token := "X-CSRF-Token: " + r.CSRFToken(bob.Cookie)
	asked := 0
	places := []string{
		"/session/", "/bearer/", "/admin/", "/basic/", "/delegated/", "/nowhere", "/session", "/a//b", "/small/",
		"/signin?return_to=/x", "/login?provider=small", "/login?provider=none",
		"/login?mechanism=x", "/callback?state=x&code=y", "/callback?error=access_denied&state=x",
		"/frontchannel-logout/small?sid=x", "/me?x=%zz", "/login?%zz",
	}
	for _, name := range r.Config.OwnEndpoints() {
		places = append(places, "/"+name)
	}
	for _, place := range places {
		for method, body := range map[string]string{"GET": "", "HEAD": "", "POST": "{}", "DELETE": ""} {
			for _, accept := range []string{rig.Browser, "Accept: application/json",
				"Accept: application/problem+json", ""} {
				for _, headers := range [][]string{
					{}, {alice.Cookie, "Sec-Fetch-Site: cross-site"}, {bob.Bearer},
					{"Cookie: session_id=x; session_id=y"},
					{rig.JSON}, {rig.Form, "Origin: https://evil.example"},
					{"Authorization: Bearer x"}, {rig.Basic("service", "x")}, {"Cookie: session_id=x", token},
				} {
					before := r.Reached()
					if w := r.Do(method, place, body, append(headers, accept)...); r.Reached() == before {
						hardened(t, r, method+" "+place, w)
						asked++
					}
				}
			}
		}
	}
	if asked < 2000 {
		t.Errorf("%d answers were checked", asked)
	}
}

// A browser asks for a password when it gets a Basic challenge. It must not do so
// for a script of a page; programs and page loads get the challenge.
func TestScriptsGetNoBasicChallenge(t *testing.T) {
	t.Parallel()
	const firefox = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	r := rig.New(t, rig.Base)
	for _, c := range []struct {
		header []string
		asks   bool
	}{
		{nil, true},
		{[]string{"User-Agent: curl/8.14.1", "Accept: */*"}, true},
		{[]string{"User-Agent: git/2.47.2", "Accept: application/json"}, true},
		{[]string{firefox, rig.Browser}, true},
		{[]string{firefox, rig.Browser, "Sec-Fetch-Mode: navigate"}, true},
		{[]string{firefox, "Accept: */*"}, false},
		{[]string{firefox, "Accept: application/json"}, false},
		{[]string{firefox}, false},
		{[]string{"Sec-Fetch-Mode: cors"}, false},
		{[]string{rig.Browser, "Sec-Fetch-Mode: same-origin"}, false},
		{[]string{"Sec-Fetch-Mode: no-cors"}, false},
		{[]string{"Sec-Fetch-Mode: websocket"}, false},
		{[]string{"X-Requested-With: XMLHttpRequest"}, false},
		{[]string{rig.Browser, "X-Requested-With: xmlhttprequest", "Sec-Fetch-Mode: navigate"}, false},
	} {
		for _, target := range []string{"/any/", "/basic/"} {
			for _, credential := range []string{"", rig.Basic("service", "guess")} {
				w := r.Want(401, "POST", target, "", append(c.header, credential)...)
				challenges := strings.Join(w.Header()["Www-Authenticate"], ",")
				if strings.Contains(challenges, "Basic") != c.asks ||
					strings.Contains(challenges, "Bearer") != (target == "/any/") {
					t.Errorf("%s with %q: challenges %q", target, c.header, challenges)
				}
			}
		}
		r.Clock.Advance(time.Hour) // the failures are forgotten
	}
	r.Want(401, "POST", "/login", "", rig.Basic("alice", "guess"), "Sec-Fetch-Mode: cors")
}

// With tls.hsts and listen.http3, each answer of the gateway's own has HSTS (RFC 6797) and leads to
// HTTP/3 (RFC 7838). TestHSTS and TestAltSvc of package forward have those of applications.
func TestOwnAnswersHaveHSTSAndAltSvc(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "store:",
		"tls: {hsts: 48h}\nlisten: {https: ':8443', http3: ':444'}\nstore:"))
	for target, status := range map[string]int{"/session/": 401, "/nothing": 404, "/signin": 200} {
		h := r.Want(status, "GET", target, "").Header()
		for name, want := range map[string]string{
			"Strict-Transport-Security": "max-age=172800", "Alt-Svc": `h3=":444"; ma=86400`,
		} {
			if got := h[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
}
