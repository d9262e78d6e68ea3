package chain_test

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// challenges returns the challenges of an answer.
func challenges(w *httptest.ResponseRecorder) []string { return w.Header()["Www-Authenticate"] }

// A 401 says first where to get a token for this resource, at this host, and with which scope
// (RFC 9728, section 5.1).
func TestChallengesOfResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.OAuthConfig)
	metadata := func(place string) string {
		host, path, _ := strings.Cut(place, "/")
		return `resource_metadata="https://` + host + ":8443/.well-known/oauth-protected-resource/" + path + `"`
	}
	const bearer, basic = `Bearer realm="authgate"`, `Basic realm="authgate", charset="UTF-8"`
	for _, c := range []struct {
		host, path string
		header     []string
		status     int
		want       []string
	}{
		{"gw.example", "/api/x", nil, 401, []string{bearer + ", " + metadata("gw.example/api")}},
		{"tools.example", "/api/x", nil, 401, []string{bearer + ", " + metadata("tools.example/api")}},
		{"tools.example", "/mcp/x", nil, 401, []string{bearer + ", " + metadata("tools.example/mcp")}},
		{"a.team.example", "/w/x", nil, 401, []string{bearer + ", " + metadata("a.team.example/w")}},
		{"gw.example", "/docker/x", nil, 401, []string{basic}},
		{"gw.example", "/reads/x", nil, 401,
			[]string{bearer + ", " + metadata("gw.example/reads") + `, scope="read"`, basic}},
		{"gw.example", "/api/x", []string{"Authorization: Bearer a.b.c"}, 401,
			[]string{bearer + `, error="invalid_token", ` + metadata("gw.example/api")}},
	} {
		w := r.WantAt(c.host+":8443", c.status, "GET", c.path, "", c.header...)
		if got := challenges(w); !slices.Equal(got, c.want) || r.Reached() != 0 {
			t.Errorf("%s%s:\n%q, want\n%q", c.host, c.path, got, c.want)
		}
	}
}

// A token opens its resource alone: that path at that host.
func TestTokensOfResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.OAuthConfig)
	places := []string{"gw.example:8443/api", "tools.example:8443/api", "tools.example:8443/mcp",
		"a.team.example:8443/w",
		"b.team.example:8443/w"}
	for _, resource := range places {
		token := r.Credentials("read", "https://"+resource)
		for _, place := range places {
			host, path, _ := strings.Cut(place, "/")
			status := map[bool]int{true: 200, false: 401}[place == resource]
			r.WantAt(host, status, "GET", "/"+path+"/x", "", token)
			if status == 200 && r.LastUser() != "client:job" {
				t.Errorf("%s: %s", place, r.LastUser())
			}
		}
		for _, own := range []string{"/me", "/account", "/account/clients", "/account/sessions"} {
			r.WantAt("gw.example:8443", 401, "GET", own, "", token)
		}
	}
}

// A token of a resource that routes share opens each of them, whichever of their addresses or which
// name it was asked for by, and no other route. The log says which resource the route has.
func TestSharedResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.OAuthConfig, "\noauth:", rig.SharingRoutes))
	groups := map[string][]string{ // places of routes
		"https://api.example:8443": {"api.example:8443/orders", "api.example:8443/items"},
		"files": {"gw.example:8443/files", "tools.example:8443/files",
			"a.team.example:8443/files"},
		"https://gw.example:8443/api": {"gw.example:8443/api"},
	}
	for resource, places := range groups {
		for _, asked := range append([]string{resource}, places...) {
			if strings.Contains(asked, "/") && !strings.Contains(asked, "://") {
				asked = "https://" + asked + "/"
			}
			token := r.Credentials("read", asked)
			for name, group := range groups {
				for _, place := range group {
					host, path, _ := strings.Cut(place, "/")
					status := map[bool]int{true: 200, false: 401}[name == resource]
					r.WantAt(host, status, "GET", "/"+path+"/x", "", token)
				}
			}
		}
	}
	r.WantAt("api.example:8443", 401, "GET", "/items/x", "", r.Credentials("read", "files"))
	if want := "for the resource files, and that of the route is https://api.example:8443"; !strings.Contains(
		r.Log.String(), want) {
		t.Errorf("the log does not say %q: %s", want, r.Log)
	}
	for _, wrong := range []string{"https://api.example:8443/orders/x", "https://api.example",
		"http://api.example:8443",
		"file", "Files", "https://gw.example:8443/orders"} {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {"read"}, "resource": {wrong}}
		r.WantAt("gw.example:8443", 400, "POST", "/oauth/token", form.Encode(), rig.Form,
			rig.Basic("job", rig.OAuthSecret))
	}
}
