package chain_test

import (
	"net/http"
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
	places := []string{"gw.example:8443/api", "tools.example:8443/api", "tools.example:8443/mcp", "a.team.example:8443/w",
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
		"https://api.example:8443":    {"api.example:8443/orders", "api.example:8443/items"},
		"files":                       {"gw.example:8443/files", "tools.example:8443/files", "a.team.example:8443/files"},
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
	for _, wrong := range []string{"https://api.example:8443/orders/x", "https://api.example", "http://api.example:8443",
		"file", "Files", "https://gw.example:8443/orders"} {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {"read"}, "resource": {wrong}}
		r.WantAt("gw.example:8443", 400, "POST", "/oauth/token", form.Encode(), rig.Form,
			rig.Basic("job", rig.OAuthSecret))
	}
}

// asIssuer returns the provider as an entry of token.trusted_issuers.
func asIssuer(p *rig.Provider, name string) string {
	return "{name: " + name + ", issuer: \"" + p.Issuer + "\", audience: [gateway]}"
}

// trusting returns baseConfig with entries of token.trusted_issuers.
func trusting(t testing.TB, issuers ...string) string {
	t.Helper()
	return rig.Edit(t, rig.Base, "basic:\n", "token: {trusted_issuers: ["+strings.Join(issuers, ", ")+"]}\nbasic:\n")
}

// A token of one issuer opens no route for tokens of another issuer, even if it is in
// the cache. Neither does a token that only claims to be of that issuer.
func TestTokenOfAnotherRoutesIssuer(t *testing.T) {
	t.Parallel()
	one, two := rig.NewProvider(t), rig.NewProvider(t)
	r := rig.New(t, trusting(t, asIssuer(one, "one"), asIssuer(two, "two"))+
		"  - {match: /one/, upstream: app, auth: [bearer], policy: {providers: [one]}}\n"+
		"  - {match: /two/, upstream: app, auth: [bearer], policy: {providers: [two]}}\n"+
		"  - {match: /own/, upstream: app, auth: [bearer], policy: {providers: [local]}}\n")
	one.Now, two.Now = r.Clock.Now, r.Clock.Now
	ofOne, ofTwo := one.Bearer(nil), two.Bearer(nil)
	inTheNameOf := func(issuer string) map[string]any { return map[string]any{"iss": issuer} }
	mixed := ofOne[:strings.LastIndexByte(ofOne, '.')] + ofTwo[strings.LastIndexByte(ofTwo, '.'):]
	for range 2 { // cold, then warm
		for header, opens := range map[string]string{ // the only route, if any
			ofOne: "/one/", ofTwo: "/two/", r.Login(rig.Alice).Bearer: "/own/",
			one.Bearer(inTheNameOf(two.Issuer)): "", two.Bearer(inTheNameOf(one.Issuer)): "",
			one.Bearer(inTheNameOf("https://gw.example")): "",
			mixed: "",
		} {
			for _, route := range []string{"/one/", "/two/", "/own/"} {
				before := r.Reached()
				if w := r.Do("GET", route, "", header); (r.Reached() > before) != (route == opens) {
					t.Errorf("a token for %q at %s: %d", opens, route, w.Code)
				}
			}
		}
	}
}

// A token of another issuer with one changed byte never verifies, whether or not the
// cache has the token itself.
func FuzzTrustedTokenChangedByte(f *testing.F) {
	p := rig.NewProvider(f)
	r := rig.New(f, trusting(f, asIssuer(p, "small")))
	p.Now = r.Clock.Now
	good := p.Bearer(nil)
	scheme := len("Authorization: Bearer ")
	length := len(good) - scheme
	for _, at := range []int{0, 5, 20, 40, 60, 90, 200, length - 86, length - 40, length - 1} {
		for _, with := range []byte("AQ.=- ") {
			f.Add(uint16(at), with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(good)
		changed[scheme+int(at)%length] = with
		before, want := r.Reached(), http.StatusUnauthorized
		if string(changed) == good {
			want = http.StatusOK
		}
		w := r.Do("GET", "/bearer/", "", string(changed))
		if w.Code != want || (r.Reached() > before) != (want == http.StatusOK) {
			t.Errorf("byte %d as %q: %d, want %d", at, with, w.Code, want)
		}
	})
}
