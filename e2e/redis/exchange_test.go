package redis

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

const agentSecret = "4dae4b72f33a40dcb9d0d7c1d2f3a98e"

// exchanging is instances at which an agent acts for the subjects of tokens for /chat, at /acted. It is one
// gateway on SQLite if both are the same.
type exchanging struct {
	*pair
	issuer *world.Platform // of a company and of its jobs
	config string
}

// startExchanging starts instances on Redis, or one without it.
func startExchanging(t *testing.T, onRedis bool) *exchanging {
	t.Helper()
	x := &exchanging{issuer: world.StartPlatform(t)}
	store := ""
	if onRedis {
		x.pair = preparePair(t, world.StartRedis(t))
		store = world.OnRedis(x.redis.Address)
	} else {
		one := world.Prepare(t)
		x.pair = &pair{a: one, b: one, up: world.Record(t), clients: map[*world.Instance]*http.Client{}}
	}
	x.config = strings.NewReplacer("reuse_leeway: 2s", fmt.Sprintf("reuse_leeway: 0s, private_key: own.pem, "+
		"trusted_issuers: [{name: company, issuer: %q}]", x.issuer.URL)).Replace(shared) + fmt.Sprintf(`
  - {match: /chat, upstream: app, auth: [bearer]}
  - {match: /acted, upstream: app, auth: [bearer], policy: {actors: ["client:agent"]}}
providers: [{name: company, issuer: %[1]q, client_id: gateway}]
oauth:
  enabled: true
  clients:
    - {id: wiki, consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}
    - {id: deploy, grants: [jwt_bearer], federation: [{issuer: company, claims: {repository_id: ["7"]}}]}
    - {id: tools, secret: %[2]s, grants: [device_code]}
    - {id: agent, secret: %[2]s, grants: [token_exchange], exchange: {from: ["%[3]s/chat"], to: ["%[3]s/acted"]}}
  cross_app: [{provider: company, clients: [tools]}]
`, x.issuer.URL, agentSecret, x.a.Base) + world.App(x.up.URL) + store
	key := ownKey(t)
	for _, g := range x.instances() {
		g.Write("own.pem", key)
		g.Configure(x.config)
		g.Run()
	}
	return x
}

// instances are the different ones.
func (x *exchanging) instances() []*world.Instance {
	if x.a == x.b {
		return []*world.Instance{x.a}
	}
	return []*world.Instance{x.a, x.b}
}

// reload applies the configuration with a change at all instances.
func (x *exchanging) reload(t *testing.T, old, new string) {
	t.Helper()
	changed := strings.Replace(x.config, old, new, 1)
	if changed == x.config && old != "" {
		t.Fatalf("no %s", old)
	}
	for _, g := range x.instances() {
		before := strings.Count(g.Log.String(), `"msg":"reloaded"`)
		g.Configure(changed)
		g.Signal(syscall.SIGHUP)
		world.Until(t, "the reload", func() bool { return strings.Count(g.Log.String(), `"msg":"reloaded"`) > before })
	}
}

// form posts a form to an own endpoint of A.
func (x *exchanging) form(t *testing.T, endpoint string, form url.Values) string {
	t.Helper()
	a := x.a.Do(x.client(x.a), "POST", endpoint, form.Encode(), "Content-Type", world.TypeForm)
	world.WantStatus(t, endpoint, a, http.StatusOK)
	return a.Body
}

// exchange exchanges a token at A, and returns the Authorization header of the agent.
func (x *exchanging) exchange(t *testing.T, token string) string {
	t.Helper()
	var answer struct {
		Access string `json:"access_token"`
	}
	world.NoError(t, json.Unmarshal([]byte(x.form(t, "/oauth/token", url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "subject_token": {token},
		"resource": {x.a.Base + "/acted"}, "client_id": {"agent"}, "client_secret": {agentSecret},
	})), &answer))
	return "Bearer " + answer.Access
}

// lent returns what bob lends wiki.
func (x *exchanging) lent(t *testing.T) (login, lent world.Login) {
	t.Helper()
	login = x.signIn("bob")
	return login, x.a.Lend(login.Session, "wiki", "https://wiki.example.net/cb", x.a.Base+"/chat")
}

// wantActed checks what a token opens on all instances, at the latest after a while.
func (x *exchanging) wantActed(t *testing.T, token string, want int) {
	t.Helper()
	for _, g := range x.instances() {
		world.Until(t, fmt.Sprintf("%s to answer %d", g.Base, want), func() bool {
			x.up.All()
			got := g.Status(x.client(g), "GET", "/acted", "Authorization", token)
			if reached := len(x.up.All()); (got == http.StatusOK) != (reached == 1) {
				t.Errorf("%d, and %d requests reach the upstream", got, reached)
			}
			return got == want
		})
	}
}

// TestExchangeOnEachStore: whatever ends the token of a user, a job or a company's user ends the one that an agent
// got for it: on SQLite, and at the other one of two instances on Redis.
func TestExchangeOnEachStore(t *testing.T) {
	t.Parallel()
	for store, onRedis := range map[string]bool{"SQLite": false, "Redis": true} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			x := startExchanging(t, onRedis)
			for name, end := range lendersEnds() {
				t.Run(name, func(t *testing.T) {
					login, lent := x.lent(t)
					acting := x.exchange(t, strings.TrimPrefix(lent.Access, "Bearer "))
					x.wantActed(t, acting, http.StatusOK)
					end(t, x, login, lent)
					x.wantActed(t, acting, http.StatusUnauthorized)
				})
			}
			t.Run("a job", x.exchangesForJob)
			t.Run("a company's user", x.exchangesForCompany)
		})
	}
}

// lendersEnds are the ways in which what a user lends ends.
func lendersEnds() map[string]func(t *testing.T, x *exchanging, login, lent world.Login) {
	return map[string]func(t *testing.T, x *exchanging, login, lent world.Login){
		"logout": func(t *testing.T, x *exchanging, login, _ world.Login) {
			x.signOut(t, "Cookie", login.Session)
		},
		"the operator": func(t *testing.T, x *exchanging, _, _ world.Login) {
			x.endSessions(t, x.b, "bob")
		},
		"consent": func(t *testing.T, x *exchanging, login, _ world.Login) {
			a := x.a.Do(x.client(x.a), "POST", "/account/clients/revoke", `{"client_id":"wiki"}`,
				"Content-Type", world.TypeJSON, "Cookie", login.Session, "Origin", x.a.Base)
			world.WantStatus(t, "the consent", a, http.StatusOK)
		},
		"revocation of the subject token": func(t *testing.T, x *exchanging, _, lent world.Login) {
			token := strings.TrimPrefix(lent.Access, "Bearer ")
			x.form(t, "/oauth/revoke", url.Values{"client_id": {"wiki"}, "token": {token}})
		},
		"reuse of a refresh token": func(t *testing.T, x *exchanging, _, lent world.Login) {
			refresh := url.Values{"grant_type": {"refresh_token"}, "client_id": {"wiki"}, "refresh_token": {lent.Refresh}}
			x.form(t, "/oauth/token", refresh)
			a := x.b.Do(x.client(x.b), "POST", "/oauth/token", refresh.Encode(), "Content-Type", world.TypeForm)
			world.WantStatus(t, "a used refresh token", a, http.StatusBadRequest)
		},
		"disabling": func(t *testing.T, x *exchanging, _, _ world.Login) {
			x.reload(t, "username: bob", "disabled: true, username: bob")
			t.Cleanup(func() { x.reload(t, "", "") })
		},
		"reload": func(t *testing.T, x *exchanging, _, _ world.Login) {
			permission := fmt.Sprintf(`grants: [token_exchange], exchange: {from: ["%s/chat"], to: ["%[1]s/acted"]}`, x.a.Base)
			x.reload(t, permission, "grants: [device_code]")
			t.Cleanup(func() { x.reload(t, "", "") })
		},
	}
}

// exchangesForJob: the agent acts for a client that a token of its platform proved, and no longer than that.
func (x *exchanging) exchangesForJob(t *testing.T) {
	job := x.issuer.Sign("JWT", map[string]any{"aud": x.a.Base, "sub": "job", "repository_id": 7})
	acting := x.exchange(t, x.byAssertion(t, x.a, http.StatusOK, job, url.Values{"resource": {x.a.Base + "/chat"}}))
	x.wantActed(t, acting, http.StatusOK)
	x.wantIntrospected(t, acting, "client:deploy", map[string]any{"sub": "client:agent"})
	x.reload(t, `repository_id: ["7"]`, `repository_id: ["8"]`)
	defer x.reload(t, "", "")
	x.wantActed(t, acting, http.StatusUnauthorized)
}

// exchangesForCompany: the agent acts for a user for whom another client acts, by whom its provider vouches.
func (x *exchanging) exchangesForCompany(t *testing.T) {
	vouched := x.issuer.Sign("oauth-id-jag+jwt", map[string]any{
		"aud": x.a.Base, "sub": "1", "preferred_username": "carol", "client_id": "tools", "resource": x.a.Base + "/chat",
	})
	asTools := url.Values{"client_id": {"tools"}, "client_secret": {agentSecret}}
	acting := x.exchange(t, x.byAssertion(t, x.a, http.StatusOK, vouched, asTools))
	x.wantActed(t, acting, http.StatusOK)
	x.wantIntrospected(t, acting, "company:1",
		map[string]any{"sub": "client:agent", "act": map[string]any{"sub": "client:tools"}})
	x.endSessions(t, x.b, "company:carol")
	x.wantActed(t, acting, http.StatusUnauthorized)
}

// wantIntrospected checks the subject of the agent's token, and who acts.
func (x *exchanging) wantIntrospected(t *testing.T, token, subject string, act map[string]any) {
	t.Helper()
	var got struct {
		Active bool
		Sub    string
		Act    map[string]any
	}
	world.NoError(t, json.Unmarshal([]byte(x.form(t, "/oauth/introspect", url.Values{
		"token": {strings.TrimPrefix(token, "Bearer ")}, "client_id": {"agent"}, "client_secret": {agentSecret},
	})), &got))
	if !got.Active || got.Sub != subject || !reflect.DeepEqual(got.Act, act) {
		t.Errorf("introspection: %+v, want %s for %v", got, subject, act)
	}
}
