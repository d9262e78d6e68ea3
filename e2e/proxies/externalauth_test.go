package proxies

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// externalAuth lets proxies ask in the form of ExternalAuth.
const externalAuth = "{prefix: /.authgate/, external_auth: true}"

// httpAuth is externalAuth.http of a filter of an HTTPRoute.
type httpAuth struct {
	Path                   string
	AllowedHeaders         []string `yaml:"allowedHeaders"`
	AllowedResponseHeaders []string `yaml:"allowedResponseHeaders"`
}

// externalAuthAsked returns what the HTTPRoute of the application asks.
func externalAuthAsked(t *testing.T) httpAuth {
	t.Helper()
	app := spec[struct {
		Rules []struct {
			Filters []struct {
				ExternalAuth struct{ HTTP httpAuth } `yaml:"externalAuth"`
			}
		}
	}](t, ingressObjects(t, "gateway-api.yaml")["HTTPRoute app"])
	return app.Rules[0].Filters[0].ExternalAuth.HTTP
}

// TestExternalAuthByReading sends the questions of the Gateway API's ExternalAuth, as its types
// and Envoy's ext_authz describe them: the method and the host of the request, its path behind
// that of the filter, and the headers that the example lists. TestForwardAuthPackaged runs Envoy.
func TestExternalAuthByReading(t *testing.T) {
	t.Parallel()
	ask, g := externalAuthAsked(t), forwardGateway(t, externalAuth)
	pods := world.ReadFile(t, world.Path("docs/deploy/kubernetes-forward-auth/gateway.yaml"))
	if !strings.Contains(pods, "# With gateway-api.yaml: "+externalAuth) {
		t.Errorf("gateway.yaml does not say that gateway-api.yaml needs endpoints: %s", externalAuth)
	}
	g.Base = g.HTTP
	c := g.Stranger11()
	signedIn := g.Do(c, "POST", "/.authgate/login", `{"username":"alice","password":"wonderland"}`,
		"Content-Type", world.TypeJSON, "X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example.org")
	world.WantStatus(t, "the login", signedIn, http.StatusOK)
	session := world.CookieOf(signedIn)
	always := []string{"Authorization"} // beside Host, the method, the path and Content-Length
	question := func(method, target string, headers ...string) world.Answer {
		text := method + " " + ask.Path + target + " HTTP/1.1\nHost: app.example.org\nConnection: close\nContent-Length: 0\n"
		headers = append(headers, "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.9")
		for i := 0; i < len(headers); i += 2 {
			if named := func(name string) bool { return strings.EqualFold(name, headers[i]) }; slices.ContainsFunc(
				slices.Concat(always, ask.AllowedHeaders), named) {
				text += headers[i] + ": " + headers[i+1] + "\n"
			}
		}
		return g.Plain(t, "127.0.0.1", text+"\n")
	}
	for _, spoofed := range []string{"X-Forwarded-Host", "X-Forwarded-Uri", "X-Original-URL", "X-Auth-User"} {
		a := question("GET", "/admin/x?y", "Cookie", session, spoofed, "https://auth.example.org/public/")
		world.WantStatus(t, "with "+spoofed, a, http.StatusOK)
		for _, name := range ask.AllowedResponseHeaders {
			if got := a.Header[http.CanonicalHeaderKey(name)]; len(got) != 1 {
				t.Errorf("the answer has %s: %q", name, got)
			}
		}
		if got := a.Header; got.Get("X-Auth-User") != "alice" || fmt.Sprintf("%q", got["X-Auth-Email"]) != `[""]` {
			t.Errorf("%q", got)
		}
	}
	world.WantStatus(t, "another network", question("GET", "/office/", "Cookie", session), http.StatusForbidden)
	world.WantStatus(t, "another site", question("POST", "/page", "Cookie", session, "Origin", "https://evil.example"),
		http.StatusForbidden)
	world.WantStatus(t, "two readings", question("GET", "/public/..%2fadmin/", "Cookie", session), http.StatusBadRequest)
	world.WantStatus(t, "a program", question("GET", "/page", "Accept", world.TypeJSON), http.StatusUnauthorized)
	a := question("GET", "/page?a=b", "Accept", world.AcceptsPage)
	world.WantStatus(t, "a page", a, http.StatusFound)
	to := world.Must(url.Parse(a.Header.Get("Location")))(t)
	if to.Scheme != "https" || !strings.HasSuffix(to.Host, ".example.org") || !strings.HasPrefix(to.Path, "/.authgate/") {
		t.Errorf("a page leads to %s", to)
	}
}
