package oauth_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

const (
	exchangeGrant   = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	otherType       = "urn:ietf:params:oauth:token-type:jwt"
	lends, acted    = "https://gw.example/bearer", "https://gw.example/acted" // resources
)

// exchanging has clients that act for users, one after the other.
var exchanging = strings.Replace(configuration, "oauth:\n", `  - match: /acted/
    name: acted
    upstream: app
    auth: [bearer]
    policy: {actors: ["client:agent"]}
oauth:
`, 1) + `    - {id: agent, name: Agent, secret: "` + wikiSecret + `", grants: [token_exchange],
       exchange: {from: ["https://gw.example/bearer"], to: ["https://gw.example/bearer", "https://gw.example/acted"]}}
    - {id: strict, secret: "` + wikiSecret + `", grants: [token_exchange], policy: closed,
       exchange: {from: ["https://gw.example/bearer"], to: ["https://gw.example/bearer"]}}
`

func exchangingYAML(t *testing.T) string {
	t.Helper()
	return rig.Edit(t, exchanging, "policies:\n", "policies:\n  closed: {roles: [nothing]}\n")
}

// exchanger is a server with clients that exchange tokens.
type exchanger struct {
	*server
	t *testing.T
}

func newExchanger(t *testing.T) *exchanger {
	t.Helper()
	return &exchanger{newServer(t, exchangingYAML(t)), t}
}

// lent returns the tokens that alice lends wiki for a resource that the agent may exchange.
func (x *exchanger) lent() answer {
	return x.tokens(x.t, "resource", lends)
}

// exchange exchanges a token as a client, with other parameters.
func (x *exchanger) exchange(status int, client, token string, change ...string) answer {
	x.T.Helper()
	form := url.Values{"grant_type": {exchangeGrant}, "subject_token": {token},
		"subject_token_type": {accessTokenType}, "resource": {acted}}
	for i := 0; i+1 < len(change); i += 2 {
		if form.Del(change[i]); change[i+1] != "" {
			form[change[i]] = strings.Split(change[i+1], "|")
		}
	}
	return x.post(x.t, status, "/oauth/token", form, rig.Basic(client, wikiSecret))
}

func (x *exchanger) wantOpen(path, token string, open bool) {
	x.T.Helper()
	x.Want(map[bool]int{true: 200, false: 401}[open], "GET", path, "", "Authorization: Bearer "+token)
}

// A client acts for the user of a token, at its own resource and by its own name.
func TestExchange(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.lent()
	a := x.exchange(200, "agent", lent.Access)
	if a.Refresh != "" || a.ID != "" || a.Type != "Bearer" || a.ExpiresIn > lent.ExpiresIn {
		t.Errorf("%+v", a)
	}
	x.wantOpen("/acted/", a.Access, true)
	h := x.LastHeader()
	if h.Get("X-Auth-Actor") != "client:agent" || h.Get("X-Auth-Subject") != "local:alice" {
		t.Errorf("the upstream sees %q", h)
	}
	x.wantOpen("/bearer/", a.Access, false) // another resource
	w := x.Want(200, "POST", "/oauth/introspect", url.Values{"token": {a.Access}}.Encode(), rig.Form,
		rig.Basic("agent", wikiSecret))
	if !strings.Contains(w.Body.String(), `"act":{"sub":"client:agent"}`) {
		t.Errorf("introspection: %s", w.Body)
	}
	x.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+lent.Access, "X-Auth-Actor: client:agent",
		"x_auth.actor: client:agent")
	for name, value := range x.LastHeader() {
		if strings.Contains(strings.ToLower(name), "actor") {
			t.Errorf("a client sends %s: %q", name, value)
		}
	}
}

// The actors of a token are nested, and four at most.
func TestExchangeDepth(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	token := x.lent().Access
	for range 4 {
		token = x.exchange(200, "agent", token, "resource", lends).Access
	}
	x.wantOpen("/bearer/", token, true)
	if a := x.exchange(400, "agent", token); a.Error != "invalid_request" {
		t.Errorf("a fifth actor: %+v", a)
	}
}

// What an exchange must not have is refused by its error.
func TestExchangeRefusals(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.lent()
	elsewhere := x.tokens(t, "resource", "https://mcp.example.org/mcp").Access
	own := x.Login(rig.Alice).Bearer
	for name, c := range map[string]struct {
		client, token string
		change        []string
		code          string
	}{
		"no resource":   {"agent", lent.Access, []string{"resource", ""}, "invalid_target"},
		"two resources": {"agent", lent.Access, []string{"resource", acted + "|" + lends}, "invalid_target"},
		"another resource": {
			"agent", lent.Access, []string{"resource", "https://mcp.example.org/mcp"}, "invalid_target"},
		"audience":              {"agent", lent.Access, []string{"audience", "x"}, "invalid_target"},
		"two audiences":         {"agent", lent.Access, []string{"audience", "x|y"}, "invalid_target"},
		"a scope it has not":    {"agent", lent.Access, []string{"scope", "more"}, "invalid_scope"},
		"an actor_token":        {"agent", lent.Access, []string{"actor_token", lent.Access}, "invalid_request"},
		"another type":          {"agent", lent.Access, []string{"subject_token_type", otherType}, "invalid_request"},
		"another type asked":    {"agent", lent.Access, []string{"requested_token_type", otherType}, "invalid_request"},
		"a refresh token":       {"agent", lent.Refresh, nil, "invalid_request"},
		"a token of /login":     {"agent", strings.TrimPrefix(own, "Authorization: Bearer "), nil, "invalid_request"},
		"text":                  {"agent", "x", nil, "invalid_request"},
		"a token of another":    {"agent", elsewhere, nil, "invalid_request"},
		"a client without it":   {"wiki", lent.Access, nil, "unauthorized_client"},
		"a user it lets not in": {"strict", lent.Access, []string{"resource", lends}, "access_denied"},
	} {
		if a := x.exchange(400, c.client, c.token, c.change...); a.Error != c.code {
			t.Errorf("%s: %+v, want %s", name, a, c.code)
		}
	}
	form := url.Values{"grant_type": {exchangeGrant}, "client_id": {"agent"}, "subject_token": {lent.Access}}
	if a := x.post(t, 401, "/oauth/token", form); a.Error != "invalid_client" {
		t.Errorf("a client without a secret: %+v", a)
	}
}

// A token of an exchange ends with whatever ends the token before it, at any depth.
func TestExchangeEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(x *exchanger, lent, first answer){
		"revocation of the subject token": func(x *exchanger, lent, _ answer) {
			x.Want(200, "POST", "/oauth/revoke", url.Values{"token": {lent.Access}}.Encode(), rig.Form, asWiki)
		},
		"revocation between": func(x *exchanger, _, first answer) {
			x.Want(200, "POST", "/oauth/revoke", url.Values{"token": {first.Access}}.Encode(), rig.Form,
				rig.Basic("agent", wikiSecret))
		},
		"revocation of the grant": func(x *exchanger, lent, _ answer) {
			x.Want(200, "POST", "/oauth/revoke", url.Values{"token": {lent.Refresh}}.Encode(), rig.Form, asWiki)
		},
		"reuse of the refresh token": func(x *exchanger, lent, _ answer) {
			x.refresh(x.t, 200, lent.Refresh)
			x.Clock.Advance(x.Config.Token.ReuseLeeway + 1)
			x.refresh(x.t, 400, lent.Refresh)
		},
		"disabling": func(x *exchanger, _, _ answer) {
			x.Reload(rig.Edit(x.T, exchangingYAML(x.t), "username: alice", "disabled: true, username: alice"))
		},
		"withdrawal of the consent": func(x *exchanger, _, _ answer) {
			x.Want(200, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, rig.JSON, x.cookie)
		},
		"logout": func(x *exchanger, _, _ answer) { x.Want(200, "POST", "/logout", "", x.cookie) },
		"the end of the exchange": func(x *exchanger, _, _ answer) {
			before, after, _ := strings.Cut(exchangingYAML(x.t), "grants: [token_exchange],")
			_, after, _ = strings.Cut(after, "acted\"]}}")
			x.Reload(before + "grants: [device_code]}" + after)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newExchanger(t)
			lent := x.lent()
			first := x.exchange(200, "agent", lent.Access, "resource", lends)
			second := x.exchange(200, "agent", first.Access)
			x.wantOpen("/acted/", second.Access, true)
			end(x, lent, first)
			x.wantOpen("/acted/", second.Access, false)
		})
	}
}

// A client's own token can be exchanged, too. What comes ends with the client's right to act for itself.
func TestExchangeOfAClientsOwn(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	own := x.post(t, 200, "/oauth/token", form("grant_type", "client_credentials", "resource", lends), asWiki)
	a := x.exchange(200, "agent", own.Access)
	x.wantOpen("/acted/", a.Access, true)
	if got := x.LastHeader().Get("X-Auth-Subject"); got != "client:wiki" {
		t.Errorf("the subject is %s", got)
	}
	x.Reload(strings.NewReplacer(", client_credentials]", "]", `", roles: [user],`, `",`).Replace(exchangingYAML(t)))
	x.wantOpen("/acted/", a.Access, false)
}

// An exchange leaves an event with the actor. A subject_token that is refused leaves one that says whether it
// was good once.
func TestExchangesAudited(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.lent()
	x.exchange(200, "agent", lent.Access)
	x.exchange(400, "agent", "x")
	x.exchange(400, "agent", lent.Access, "scope", "more")
	x.Want(200, "POST", "/oauth/revoke", url.Values{"token": {lent.Access}}.Encode(), rig.Form, asWiki)
	x.exchange(400, "agent", lent.Access)
	got := x.EventsOf("credential_refused", "past", "kind", "client_id")
	again := "past=true kind=access_token client_id=agent"
	if want := []string{"kind=access_token client_id=agent", again, again}; !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	issued := x.EventsOf("token_issued", "grant", "client_id", "subject", "actor", "resource")
	want := "grant=token_exchange client_id=agent subject=local:alice actor=client:agent resource=" + acted
	if len(issued) != 2 || issued[1] != want {
		t.Errorf("issued %q, want %q at last", issued, want)
	}
}

// An exchange is no way up: the token lives no longer than the one before it, and a scope that was left out does
// not come back.
func TestExchangeIsNoWayUp(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.tokens(t, "resource", lends, "scope", "openid profile")
	x.Clock.Advance(x.Config.Token.AccessLifetime - time.Minute)
	first := x.exchange(200, "agent", lent.Access, "resource", lends, "scope", "openid")
	if first.ExpiresIn > 60 || first.Scope != "openid" {
		t.Errorf("%+v", first)
	}
	if a := x.exchange(400, "agent", first.Access, "scope", "profile"); a.Error != "invalid_scope" {
		t.Errorf("%+v", a)
	}
	second := x.exchange(200, "agent", first.Access)
	x.wantOpen("/acted/", second.Access, true)
	x.Clock.Advance(time.Minute)
	x.wantOpen("/acted/", second.Access, false)
	if a := x.exchange(400, "agent", first.Access); a.Error != "invalid_request" {
		t.Errorf("%+v", a)
	}
}

// The claim act of another issuer names no actor, neither in its tokens nor in assertions.
func TestActorsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, rig.Edit(t, federated, "\noauth:\n", `
  - {match: /acted/, name: acted, upstream: app, auth: [bearer], policy: {actors: ["client:wiki"]}}
oauth:
`))
	act := map[string]any{"sub": "client:wiki"}
	for name, token := range map[string]string{
		"its token":          p.token(map[string]any{"aud": "api", "act": act}),
		"one for a client's": p.byAssertion(200, p.token(map[string]any{"act": act})).Access,
	} {
		p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+token)
		if actor := p.LastHeader().Values("X-Auth-Actor"); len(actor) > 0 {
			t.Errorf("%s: the actor is %q", name, actor)
		}
		p.Want(403, "GET", "/acted/", "", "Authorization: Bearer "+token)
	}
	c := newCompany(t)
	a := c.asAgent(200, c.vouch(map[string]any{"act": act}))
	c.wantOpen(a, true)
	if actor := c.LastHeader().Values("X-Auth-Actor"); !slices.Equal(actor, []string{"client:agent"}) {
		t.Errorf("a provider's user: the actor is %q", actor)
	}
}
