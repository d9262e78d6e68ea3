package gateway

import (
	"strings"
	"testing"
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
			if reached := r.upstream.Reached() > 0; reached != application || application != (w.Body.String() == "hello") {
				t.Errorf("%s%s: the application answers: %t: %s", host, path, reached, strings.TrimSpace(w.Body.String()))
			}
		}
	}
}
