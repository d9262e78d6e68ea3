package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
)

// actorConfig has a client that acts for users. An application sees it under another name.
const actorConfig = `public_url: https://gw.example
accounts: {users: [{username: alice, roles: [user], password_hash: "` + aliceHash + `"}]}
upstreams:
  app: {url: "http://app.invalid"}
  renamed: {url: "http://app.invalid", identity_headers: {actor: X-Acting-Client}}
routes:
  - {match: /lent/, upstream: app, auth: [session, bearer]}
  - {match: /acted/, upstream: app, auth: [bearer], policy: {actors: ["client:wiki"]}, resource: acted}
  - {match: /renamed/, upstream: renamed, auth: [bearer], policy: {actors: ["client:wiki"]}, resource: acted}
  - {match: /closed/, upstream: app, auth: [bearer], policy: {none: [{actors: ["client:wiki"]}]}, resource: acted}
oauth:
  enabled: true
  clients:
    - id: wiki
      secret: "` + ownrig.OAuthSecret + `"
      consent: skip
      redirect_uris: ["https://wiki.example.net/cb"]
      grants: [authorization_code, token_exchange]
      exchange: {from: ["https://gw.example/lent"], to: [acted]}
`

// acting returns the header line of a token with which wiki acts for alice.
func (r *rig) acting(lent string) string {
	r.t.Helper()
	return "Authorization: Bearer " + r.client.AsWiki("/oauth/token", url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":      {lent},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"resource":           {"https://gw.example/acted"},
	}).Access
}

// The access log, audit events and a proxy that asks see which client acts for a user. Without one,
// they see none, whatever the request says.
func TestActorIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t, actorConfig)
	in := r.login(aliceIn)
	lent := r.client.Lend(in.cookie, "", "https://gw.example/lent").Access
	for header, want := range map[string]any{
		r.acting(lent): "client:wiki", "Authorization: Bearer " + lent: nil, in.cookie: nil,
	} {
		path := "/lent/"
		if want != nil {
			path = "/acted/"
		}
		r.want(200, "GET", path, "", header, "X-Auth-Actor: client:evil")
		if line := r.log.Last(t, "request"); line["actor"] != want || line["subject"] != "local:alice" {
			t.Errorf("the access log has %v, want the actor %v", line, want)
		}
	}
	r.want(403, "GET", "/closed/", "", r.acting(lent))
	if line := r.log.Last(t, "audit"); line["event"] != "denied" || line["actor"] != "client:wiki" {
		t.Errorf("the audit log has %v", line)
	}
}

// identity_headers.actor renames the header. Clients can send neither the name nor the usual one.
func TestActorRenamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, actorConfig)
	acting := r.acting(r.client.Lend(r.login(aliceIn).cookie, "", "https://gw.example/lent").Access)
	for path, want := range map[string]http.Header{
		"/acted/":   {"X-Auth-Actor": {"client:wiki"}},
		"/renamed/": {"X-Acting-Client": {"client:wiki"}},
	} {
		lines := []string{acting, "X-Auth-Actor: client:evil", "x_auth.actor: client:evil"}
		for name := range want {
			lines = append(lines, name+": client:evil", strings.ReplaceAll(name, "-", "_")+": client:evil")
		}
		r.want(200, "GET", path, "", lines...)
		got := maps.Clone(r.upstream.Last().Header)
		maps.DeleteFunc(got, func(name string, _ []string) bool {
			return !strings.Contains(strings.ToLower(name), "act")
		})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the application gets %q, want %q", path, got, want)
		}
	}
}

// A described token of a client that acts for a user is decided about like a real one.
func TestExplainActor(t *testing.T) {
	t.Parallel()
	r := newRig(t, actorConfig)
	e := newExplainer(t, parseConfig(t, t.TempDir(), actorConfig))
	lent := r.client.Lend(r.login(aliceIn).cookie, "", "https://gw.example/lent").Access
	for _, path := range []string{"/lent/", "/acted/", "/closed/"} {
		for line, caller := range map[string]explain.Caller{
			r.acting(lent):                  {User: "alice", Actor: "client:wiki", Resource: "acted"},
			"Authorization: Bearer " + lent: {User: "alice", Client: "wiki", Resource: "https://gw.example/lent"},
		} {
			x, err := e.Explain(&explain.Request{Method: "GET", URL: path, Caller: &caller})
			if err != nil {
				t.Fatal(err)
			}
			q := overTLS(request("GET", path, "", line), "gw.example", "127.0.0.1")
			wantExplained(t, r, path+" by "+caller.Actor, q, x)
		}
	}
}
