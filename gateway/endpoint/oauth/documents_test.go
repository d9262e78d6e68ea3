package oauth_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// A client of the configuration that asks only who the user is gets a token for that alone: "sign in
// with" does not mean "can do everything as you". A client that asks for more, or that names a
// resource, or that the operator trusts with everything, gets what it got before.
func TestDefaultResource(t *testing.T) {
	t.Parallel()
	const scopes = "oauth: {enabled: true, scopes: {use: [user]}, "
	all := rig.Edit(t, rig.OAuthClient, "consent: skip", "consent: skip, default_resource: all")
	for _, c := range []struct {
		name, oauth, scope, resource string
		opens                        bool
		userinfo                     int
	}{
		{"who the user is", rig.OAuthClient, "openid profile email groups offline_access", "", false, 200},
		{"OpenID's scopes without openid", rig.OAuthClient, "profile", "", false, 403},
		{"no scope", rig.OAuthClient, "", "", true, 403},
		{"a scope of the operator", rig.Edit(t, rig.OAuthClient, "oauth: {enabled: true, ", scopes), "openid use", "",
			true, 200},
		{"a resource", rig.OAuthClient, "openid", "https://gw.example/bearer", true, 200},
		{"default_resource: all", all, "openid", "", true, 200},
	} {
		r := rig.New(t, rig.Base+c.oauth)
		in := r.Login(rig.Alice)
		token := "Authorization: Bearer " + r.Lend(in.Cookie, c.scope, c.resource).Access
		w := r.Do("GET", "/bearer/", "", token)
		if opened := w.Code == 200 && r.Reached() == 1; opened != c.opens {
			t.Errorf("%s: a route answers %d, and %d requests reached the upstream", c.name, w.Code, r.Reached())
		}
		if w := r.Do("GET", "/oauth/userinfo", "", token); w.Code != c.userinfo {
			t.Errorf("%s: userinfo answers %d, want %d", c.name, w.Code, c.userinfo)
		}
	}
	// A client that acts for itself is no user.
	r := rig.New(t, rig.OAuthConfig)
	r.WantAt("gw.example:8443", 200, "GET", "/api/x", "", r.Credentials("openid read", ""))
	r = rig.New(t, rig.Edit(t, rig.OAuthConfig, "  scopes: {read: [user], write: [user], nothing: []}\n", ""))
	r.WantAt("gw.example:8443", 200, "GET", "/api/x", "", r.Credentials("openid", ""))
}

// Each address of a resource that routes share has a document, which names that address (RFC 9728,
// section 3.3). All have the scopes of all these routes.
func TestDocumentsOfSharedResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.OAuthConfig, "\noauth:", rig.SharingRoutes))
	for place, want := range map[string]string{
		"api.example/": "https://api.example:8443", "api.example/orders": "https://api.example:8443/orders",
		"api.example/items":    "https://api.example:8443/items",
		"a.team.example/files": "https://a.team.example:8443/files",
	} {
		host, path, _ := strings.Cut(place, "/")
		path = strings.TrimSuffix("/.well-known/oauth-protected-resource/"+path, "/")
		w := r.WantAt(host+":8443", 200, "GET", path, "")
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
		r.WantAt(host+":8443", 404, "GET", path, "")
	}
}

// An authorization server needs sessions, also if no route accepts them: those of its users are
// what it gives tokens for.
func TestSessionsOfAnAuthorizationServer(t *testing.T) {
	t.Parallel()
	const config = `
public_url: https://gw.example
accounts: {users: [{username: alice, password_hash: "HASH", roles: [user]}]}
upstreams: {app: {url: "http://app.invalid"}}
`
	for name, more := range map[string]string{
		"no route": "", "routes for tokens": "routes: [{match: /, upstream: app, auth: [bearer]}]\n",
	} {
		r := rig.New(t, strings.Replace(config, "HASH", rig.AliceHash, 1)+more+"oauth: {enabled: true}\n")
		in := r.Want(200, "POST", "/login?mechanism=session", rig.Alice, rig.JSON)
		r.Want(200, "GET", "/account", "", "Cookie: "+strings.Split(in.Header().Get("Set-Cookie"), ";")[0])
		if t.Failed() {
			t.Log(name)
		}
	}
}
