package gateway

import (
	"strings"
	"testing"
)

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
		r := newRig(t, strings.Replace(config, "HASH", aliceHash, 1)+more+"oauth: {enabled: true}\n")
		in := r.want(200, "POST", "/login?mechanism=session", aliceIn, jsonType)
		r.want(200, "GET", "/account", "", "Cookie: "+strings.Split(in.Header().Get("Set-Cookie"), ";")[0])
		if t.Failed() {
			t.Log(name)
		}
	}
}
