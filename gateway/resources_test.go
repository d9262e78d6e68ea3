package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

const oauthSecret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"

// oauthConfig has resources of each kind: at all hosts, at one, and at those below a wildcard.
const oauthConfig = `public_url: https://gw.example:8443
listen: {trusted_proxies: [10.0.0.0/8]}
accounts: {users: [{username: alice, roles: [user], password_hash: "` + aliceHash + `"}]}
basic: {users: [{username: bob, password_hash: "` + aliceHash + `"}]}
upstreams: {app: {url: "http://app.invalid"}}
policies:
  user: {roles: [user]}
  reads: {roles: [user], scopes: [read]}
routes:
  - {match: /open/, upstream: app, auth: [none]}
  - {match: /api/, upstream: app, auth: [bearer], policy: user}
  - {match: /reads/, upstream: app, auth: [basic, bearer], policy: reads}
  - {match: /fresh/, upstream: app, auth: [bearer], policy: {max_age: 15m}}
  - {match: /docker/, upstream: app, auth: [bearer], basic_challenge: true}
  - {match: tools.example/mcp/, upstream: app, auth: [bearer]}
  - {match: "*.team.example/w/", upstream: app, auth: [bearer]}
oauth:
  enabled: true
  scopes: {read: [user], write: [user], nothing: []}
  clients:
    - {id: job, secret: "` + oauthSecret + `", grants: [client_credentials], roles: [user]}
`

// credentials returns an access token of the client job.
func (r *rig) credentials(scope, resource string) string {
	r.t.Helper()
	return r.credentialsAt("gw.example:8443", scope, resource)
}

// credentialsAt is credentials for a gateway at a host.
func (r *rig) credentialsAt(host, scope, resource string) string {
	r.t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}, "resource": {resource}}
	w := r.client.WantAt(host, 200, "POST", "/oauth/token", form.Encode(), ownrig.Form,
		ownrig.Basic("job", oauthSecret))
	var answer struct {
		Access string `json:"access_token"`
	}
	must.Do(r.t, json.Unmarshal(w.Body.Bytes(), &answer))
	return "Authorization: Bearer " + answer.Access
}

// challenges returns the challenges of an answer.
func challenges(w *httptest.ResponseRecorder) []string { return w.Header()["Www-Authenticate"] }

// A 401 says first where to get a token for this resource, at this host, and with which scope
// (RFC 9728, section 5.1). A 403 for the lack of a scope says the same.
func TestChallengesOfResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, oauthConfig)
	metadata := func(place string) string {
		host, path, _ := strings.Cut(place, "/")
		return `resource_metadata="https://` + host + ":8443/.well-known/oauth-protected-resource/" + path + `"`
	}
	const bearer, basic = `Bearer realm="authgate"`, `Basic realm="authgate", charset="UTF-8"`
	less := r.credentials("write", "https://gw.example:8443/reads")
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
		{"gw.example", "/reads/x", []string{less}, 403,
			[]string{`Bearer error="insufficient_scope", scope="read", realm="authgate", ` + metadata("gw.example/reads")}},
		{"gw.example", "/fresh/x", []string{r.credentials("read", "https://gw.example:8443/fresh")}, 401,
			[]string{`Bearer error="insufficient_user_authentication", max_age="900", realm="authgate", ` +
				metadata("gw.example/fresh")}},
	} {
		w := r.client.WantAt(c.host+":8443", c.status, "GET", c.path, "", c.header...)
		if got := challenges(w); !slices.Equal(got, c.want) || r.upstream.Reached() != 0 {
			t.Errorf("%s%s:\n%q, want\n%q", c.host, c.path, got, c.want)
		}
	}
}

// A token opens its resource alone: that path at that host. What a proxy asks about is the
// resource, not the host where it asks.
func TestTokensOfResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, oauthConfig)
	places := []string{"gw.example:8443/api", "tools.example:8443/api", "tools.example:8443/mcp", "a.team.example:8443/w",
		"b.team.example:8443/w"}
	for _, resource := range places {
		token := r.credentials("read", "https://"+resource)
		for _, place := range places {
			host, path, _ := strings.Cut(place, "/")
			r.upstream.Forget()
			w := r.client.Serve(requestAt(host, "/"+path+"/x", token))
			opened := w.Code == 200 && r.upstream.Reached() == 1
			if opened != (place == resource) || !opened && (w.Code != 401 || r.upstream.Reached() != 0) {
				t.Errorf("a token of %s at %s: %d", resource, place, w.Code)
			}
			r.upstream.Forget()
			status := map[bool]int{true: 200, false: 401}[place == resource]
			w = r.asks(status, asTraefik("GET", host, "/"+path+"/x"), token)
			if status == 200 && w.Header().Get("X-Auth-User") != "client:job" {
				t.Errorf("%s: %v", place, w.Header())
			}
		}
		for _, own := range []string{"/me", "/account", "/account/clients", "/account/sessions"} {
			r.client.WantAt("gw.example:8443", 401, "GET", own, "", token)
		}
	}
}

// sharingRoutes has routes that share a resource: one with an address, and one with a name alone.
const sharingRoutes = `
  - {match: api.example/orders/, upstream: app, auth: [bearer], policy: reads, resource: "https://API.example:8443/"}
  - {match: api.example/items/, upstream: app, auth: [bearer], resource: "https://api.example:8443"}
  - {match: /files/, upstream: app, auth: [bearer], resource: files}
  - {match: "*.team.example/files/", upstream: app, auth: [bearer], resource: files}
oauth:`

// A token of a resource that routes share opens each of them, whichever of their addresses or which
// name it was asked for by, and no other route. The log says which resource the route has.
func TestSharedResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, oauthConfig, "\noauth:", sharingRoutes))
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
			token := r.credentials("read", asked)
			for name, group := range groups {
				for _, place := range group {
					host, path, _ := strings.Cut(place, "/")
					r.upstream.Forget()
					w := r.client.Serve(requestAt(host, "/"+path+"/x", token))
					if opened := w.Code == 200 && r.upstream.Reached() == 1; opened != (name == resource) ||
						!opened && w.Code != 401 {
						t.Errorf("a token that was asked for by %s, at %s: %d", asked, place, w.Code)
					}
				}
			}
		}
	}
	r.client.WantAt("api.example:8443", 401, "GET", "/items/x", "", r.credentials("read", "files"))
	if want := "for the resource files, and that of the route is https://api.example:8443"; !strings.Contains(
		r.log.String(), want) {
		t.Errorf("the log does not say %q: %s", want, r.log)
	}
	for _, wrong := range []string{"https://api.example:8443/orders/x", "https://api.example", "http://api.example:8443",
		"file", "Files", "https://gw.example:8443/orders"} {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {"read"}, "resource": {wrong}}
		r.client.WantAt("gw.example:8443", 400, "POST", "/oauth/token", form.Encode(), ownrig.Form,
			ownrig.Basic("job", oauthSecret))
	}
}

// A client of the configuration that asks only who the user is gets a token for that alone: "sign in
// with" does not mean "can do everything as you". A client that asks for more, or that names a
// resource, or that the operator trusts with everything, gets what it got before.
func TestDefaultResource(t *testing.T) {
	t.Parallel()
	const scopes = "oauth: {enabled: true, scopes: {use: [user]}, "
	all := edit(t, oauthClient, "consent: skip", "consent: skip, default_resource: all")
	for _, c := range []struct {
		name, oauth, scope, resource string
		opens                        bool
		userinfo                     int
	}{
		{"who the user is", oauthClient, "openid profile email groups offline_access", "", false, 200},
		{"OpenID's scopes without openid", oauthClient, "profile", "", false, 403},
		{"no scope", oauthClient, "", "", true, 403},
		{"a scope of the operator", edit(t, oauthClient, "oauth: {enabled: true, ", scopes), "openid use", "", true, 200},
		{"a resource", oauthClient, "openid", "https://gw.example/bearer", true, 200},
		{"default_resource: all", all, "openid", "", true, 200},
	} {
		r := newRig(t, baseConfig+c.oauth)
		in := r.login(aliceIn)
		token := "Authorization: Bearer " + r.lendFor(in, c.scope, c.resource).Access
		w := r.do("GET", "/bearer/", "", token)
		if opened := w.Code == 200 && r.upstream.Reached() == 1; opened != c.opens {
			t.Errorf("%s: a route answers %d, and %d requests reached the upstream", c.name, w.Code, r.upstream.Reached())
		}
		if w := r.do("GET", "/oauth/userinfo", "", token); w.Code != c.userinfo {
			t.Errorf("%s: userinfo answers %d, want %d", c.name, w.Code, c.userinfo)
		}
	}
	// A client that acts for itself is no user.
	r := newRig(t, oauthConfig)
	r.client.WantAt("gw.example:8443", 200, "GET", "/api/x", "", r.credentials("openid read", ""))
	r = newRig(t, edit(t, oauthConfig, "  scopes: {read: [user], write: [user], nothing: []}\n", ""))
	r.client.WantAt("gw.example:8443", 200, "GET", "/api/x", "", r.credentials("openid", ""))
}

// Each address of a resource that routes share has a document, which names that address (RFC 9728,
// section 3.3). All have the scopes of all these routes.
func TestDocumentsOfSharedResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, oauthConfig, "\noauth:", sharingRoutes))
	for place, want := range map[string]string{
		"api.example/": "https://api.example:8443", "api.example/orders": "https://api.example:8443/orders",
		"api.example/items": "https://api.example:8443/items", "a.team.example/files": "https://a.team.example:8443/files",
	} {
		host, path, _ := strings.Cut(place, "/")
		path = strings.TrimSuffix("/.well-known/oauth-protected-resource/"+path, "/")
		w := r.client.WantAt(host+":8443", 200, "GET", path, "")
		var document struct {
			Resource string   `json:"resource"`
			Scopes   []string `json:"scopes_supported"`
		}
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &document))
		scopes := []string{"read"}
		if strings.HasSuffix(place, "files") {
			scopes = []string{"nothing", "read", "write"}
		}
		if document.Resource != want || !slices.Equal(document.Scopes, scopes) {
			t.Errorf("%s: %+v, want %s with %q", place, document, want, scopes)
		}
	}
	for _, place := range []string{"gw.example/", "tools.example/", "api.example/other"} {
		host, path, _ := strings.Cut(place, "/")
		path = strings.TrimSuffix("/.well-known/oauth-protected-resource/"+path, "/")
		r.client.WantAt(host+":8443", 404, "GET", path, "")
	}
}

func requestAt(host, target string, header ...string) *http.Request {
	q := request("GET", target, "", header...)
	q.Host = host
	return q
}

// Endpoints for programs and documents about the gateway read no cookie: one that is wrong, there
// twice or planted by a neighbour is no reason to refuse a program, and is left alone.
func TestProgramsReadNoCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, oauthConfig+"  registration: open\n")
	form := []string{ownrig.Form, ownrig.Basic("job", oauthSecret)}
	for _, c := range []struct {
		status               int
		method, target, body string
		header               []string
	}{
		{200, "GET", "/.well-known/openid-configuration", "", nil},
		{200, "GET", "/.well-known/oauth-protected-resource/api", "", nil},
		{200, "POST", "/oauth/token", "grant_type=client_credentials&scope=read", form},
		{200, "POST", "/oauth/revoke", "token=x", form},
		{200, "POST", "/oauth/introspect", "token=x", form},
		{201, "POST", "/oauth/register", `{"redirect_uris":["https://a.example/"]}`, []string{jsonType}},
		{401, "GET", "/oauth/userinfo", "", nil},
		{400, "GET", "/oauth/authorize", "", nil}, // reads them
	} {
		for _, cookies := range []string{"session_id=one; session_id=two", "session_id=unknown", "session=x; session=y"} {
			header := []string{"Cookie: " + cookies, "Origin: https://a.example", "Sec-Fetch-Site: cross-site"}
			header = append(header, c.header...)
			w := r.client.WantAt("gw.example:8443", c.status, c.method, c.target, c.body, header...)
			if set := w.Header()["Set-Cookie"]; set != nil && c.target != "/oauth/authorize" {
				t.Errorf("%s with %s: %q", c.target, cookies, set)
			}
		}
	}
}
