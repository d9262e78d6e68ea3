package gateway

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// hardened checks the header of an answer of the gateway's own. Package pages tests the
// policy of its pages.
func (r *rig) hardened(t *testing.T, what string, w *httptest.ResponseRecorder) {
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
			"charset=utf-8", r.state.Load().site.Pages.In("", nil).ContentSecurityPolicy(w.Body.Bytes(),
			r.state.Load().site.FormTargets("gw.example"))
		if strings.Contains(what, "/frontchannel-logout/") &&
			w.Code == http.StatusOK { // an empty page, for a frame of the provider's
			want["Content-Security-Policy"] = "default-src 'none'; frame-ancestors " + r.Config().Providers[0].Issuer
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
	p := ownrig.NewProvider(t)
	r := newRig(t, ownrig.WithToken+
		"  - {match: /delegated/, upstream: app, auth: [oidc]}\n  - {match: /small/, upstream: app, auth: "+
		"[none], max_body: 1}\n"+
		"providers:\n  - {name: small, issuer: \""+p.Issuer+"\", client_id: gateway}\n  - {name: other, issuer: "+
		"\""+p.Issuer+"/other\", client_id: gateway}\n")
	alice, bob := r.login(aliceIn), r.login(bobIn)
	token := "X-CSRF-Token: " + r.client.CSRFToken(bob.cookie)
	asked := 0
	for _, place := range slices.AppendSeq([]string{
		"/session/", "/bearer/", "/admin/", "/basic/", "/delegated/", "/nowhere", "/session", "/a//b", "/small/",
		"/signin?return_to=/x", "/login?provider=small", "/login?provider=none",
		"/login?mechanism=x", "/callback?state=x&code=y", "/callback?error=access_denied&state=x",
		"/frontchannel-logout/small?sid=x", "/me?x=%zz", "/login?%zz",
	}, maps.Keys(r.state.Load().own.ByPath)) {
		for method, body := range map[string]string{"GET": "", "HEAD": "", "POST": "{}", "DELETE": ""} {
			for _, accept := range []string{browser, "Accept: application/json", "Accept: application/problem+json", ""} {
				for _, headers := range [][]string{
					{}, {alice.cookie, "Sec-Fetch-Site: cross-site"}, {bob.bearer}, {"Cookie: session_id=x; session_id=y"},
					{jsonType}, {formType, "Origin: https://evil.example"},
					{"Authorization: Bearer x"}, {basicHeader("service", "x")}, {"Cookie: session_id=x", token},
				} {
					before := r.upstream.Reached()
					if w := r.do(method, place, body, append(headers, accept)...); r.upstream.Reached() == before {
						r.hardened(t, method+" "+place, w)
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
