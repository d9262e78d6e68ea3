package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// tokensConfig has an authorization server, and routes that tokens of its clients open or do not.
const tokensConfig = `public_url: https://gw.example
accounts:
  users:
    - {username: alice, roles: [user, admin], password_hash: "` + aliceHash + `"}
    - {username: bob, roles: [user], password_hash: "` + bobHash + `"}
upstreams: {app: {url: "http://app.invalid"}}
policies:
  admin: {roles: [admin]}
  tools: {roles: [user], scopes: [tools]}
routes:
  - {match: /any/, upstream: app, auth: [session, bearer]}
  - {match: /tools/, upstream: app, auth: [bearer], policy: tools}
  - {match: /admin/, upstream: app, auth: [bearer], policy: admin}
  - {match: /job/, upstream: app, auth: [bearer], policy: {users: ["client:job"]}}
  - {match: /fresh/, upstream: app, auth: [bearer], policy: {max_age: 15m}}
  - {match: /pages/, upstream: app, auth: [session]}
  - {match: mcp.example/mcp, upstream: app, auth: [bearer], policy: tools}
oauth:
  enabled: true
  scopes: {tools: [user], all: []}
  clients:
    - {id: job, secret: "` + ownrig.OAuthSecret + `", grants: [client_credentials], roles: [user, robot]}
    - {id: wiki, secret: "` + ownrig.OAuthSecret + `", consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
`

// A token of an OAuth client is explained as the gateway treats it: its resource, its scopes, the
// roles that they lend, and what its user has proved.
func TestExplainTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokensConfig)
	e := newExplainer(t, parseConfig(t, t.TempDir(), tokensConfig))
	in := r.login(aliceIn)
	r.clock.Advance(time.Second)
	for _, resource := range []string{"https://gw.example/tools", "https://gw.example/any", "https://gw.example/admin",
		"https://gw.example/job", "https://gw.example/fresh", "https://mcp.example/mcp"} {
		for _, scope := range []string{"tools", "all", "openid", "openid tools"} {
			for line, caller := range map[string]explain.Caller{
				"Authorization: Bearer " + r.client.Lend(in.cookie, scope, resource).Access: {
					User: "alice", Client: "wiki", Factors: 1, Age: time.Second,
				},
				r.client.CredentialsAt("gw.example", scope, resource): {User: "client:job"},
			} {
				caller.Scopes, caller.Resource = strings.Fields(scope), resource
				for _, place := range []string{"gw.example/tools/x", "gw.example/any/", "gw.example/admin/", "gw.example/job/",
					"gw.example/fresh/", "gw.example/pages/", "mcp.example/mcp"} {
					host, path, _ := strings.Cut(place, "/")
					x, err := e.Explain(&explain.Request{Method: "GET", URL: "https://" + place, Caller: &caller})
					if err != nil {
						t.Fatal(err)
					}
					q := overTLS(request("GET", "/"+path, "", line), host, "127.0.0.1")
					wantExplained(t, r, fmt.Sprintf("%s by %+v", place, caller), q, x)
				}
			}
		}
	}
}
