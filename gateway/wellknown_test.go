package gateway

import (
	"slices"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

const wellKnownConfig = `public_url: https://gw.example
accounts:
  users:
    - username: alice
      password_hash: "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$iWh06vD8Fy27wf9npn6FXWiCX4K6pW6Ue1Bnzz07Z8A"
upstreams: {app: {url: "http://app.invalid"}}
oauth: {enabled: true}
routes:
  - {match: gw.example/, upstream: app, auth: [none]}
  - {match: gw.example/mcp/, upstream: app, auth: [bearer]}
  - {match: gw.example/a%20b/, upstream: app, auth: [bearer]}
  - {match: gitea.example/, upstream: app, auth: [none]}
`

// Documents at well-known paths are the gateway's where they are about the gateway, and an
// application's at other hosts: it may be a provider of its own. Where there are resources,
// what is none is 404, whatever other routes there are.
func TestWellKnownOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, wellKnownConfig)
	const configuration, resource = "/.well-known/openid-configuration", "/.well-known/oauth-protected-resource"
	for path, want := range map[string]struct{ home, other int }{
		configuration: {200, 0}, "/.well-known/oauth-authorization-server": {200, 0},
		"/.well-known/webfinger?resource=acct:x@gw.example": {200, 0},
		resource + "/mcp": {200, 0}, resource + "/mcp/": {404, 0}, resource + "/other": {404, 0}, resource: {404, 0},
		resource + "/a%20b": {200, 0}, resource + "s": {0, 0}, "/.well-known/security.txt": {0, 0},
	} {
		for host, status := range map[string]int{"gw.example": want.home, "gitea.example": want.other} {
			r.upstream.Forget()
			application := status == 0 // which answers with 200
			if application {
				status = 200
			}
			w := r.client.WantAt(host, status, "GET", path, "")
			if reached := r.upstream.Reached() > 0; reached != application ||
				application != (w.Body.String() == "hello") {
				t.Errorf("%s%s: the application answers: %t: %s", host, path, reached, strings.TrimSpace(w.Body.String()))
			}
		}
	}
}

// Endpoints for programs and documents about the gateway read no cookie: one that is wrong, there
// twice or planted by a neighbour is no reason to refuse a program, and is left alone.
func TestProgramsReadNoCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.OAuthConfig+"  registration: open\n")
	form := []string{ownrig.Form, ownrig.Basic("job", ownrig.OAuthSecret)}
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
		for _, cookies := range []string{"session_id=one; session_id=two", "session_id=unknown",
			"session=x; session=y"} {
			header := []string{"Cookie: " + cookies, "Origin: https://a.example", "Sec-Fetch-Site: cross-site"}
			header = append(header, c.header...)
			w := r.client.WantAt("gw.example:8443", c.status, c.method, c.target, c.body, header...)
			if set := w.Header()["Set-Cookie"]; set != nil && c.target != "/oauth/authorize" {
				t.Errorf("%s with %s: %q", c.target, cookies, set)
			}
		}
	}
}

// An answer about the lack of a scope, or of a fresh sign-in, says where to get another token, as a 401
// without a token does (RFC 9728, section 5.1).
func TestChallengesOfScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.OAuthConfig)
	for path, c := range map[string]struct {
		scope  string
		status int
		want   string
	}{
		"reads": {"write", 403, `error="insufficient_scope", scope="read"`},
		"fresh": {"read", 401, `error="insufficient_user_authentication", max_age="900"`},
	} {
		token := r.client.Credentials(c.scope, "https://gw.example:8443/"+path)
		w := r.client.WantAt("gw.example:8443", c.status, "GET", "/"+path+"/x", "", token)
		want := "Bearer " + c.want + `, realm="authgate", ` +
			`resource_metadata="https://gw.example:8443/.well-known/oauth-protected-resource/` + path + `"`
		if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s:\n%q, want\n%q", path, got, want)
		}
	}
}
