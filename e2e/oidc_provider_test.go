package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCertifiedProvider signs people in at oidc-provider, which the OpenID
// Foundation has certified, on its own pages. Each story has its own gateway and
// providers; one process holds all providers.
func TestCertifiedProvider(t *testing.T) {
	t.Parallel()
	c := startCertified(t)
	for name, story := range map[string]func(*testing.T, *certified){
		"kinds of clients":     delegatedLogin,
		"pages":                delegatedPages,
		"prefix":               ownPrefix,
		"a session goes on":    sessionGoesOn,
		"down at start":        providerDownAtStart,
		"logout here":          logoutHere,
		"logout redirects":     logoutRedirects,
		"logout at provider":   logoutAtProvider,
		"bearer tokens":        bearerOfTrustedIssuer,
		"a session of its own": applicationSession,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, c)
		})
	}
}

// certified is a process with certified providers.
type certified struct {
	control string // URL for orders
	log     *lines
}

// startCertified starts the process, which ends with the test.
func startCertified(t *testing.T) *certified {
	t.Helper()
	if _, err := os.Stat("provider/node_modules/oidc-provider"); err != nil {
		t.Fatalf("the certified provider is not installed, run make deps: %v", err)
	}
	c := &certified{log: &lines{}}
	cmd := exec.Command("node", "provider/provider.mjs")
	cmd.Stderr = c.log
	_, err := cmd.StdinPipe() // the process ends when this pipe does
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the certified provider says:\n%s", c.log)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the certified provider does not start: %v\n%s", err, c.log)
	}
	c.control = strings.TrimSpace(line)
	return c
}

// order sends the process an order and decodes the answer.
func (c *certified) order(t *testing.T, what string, argument, result any) {
	t.Helper()
	body, err := json.Marshal(argument)
	if err != nil {
		t.Fatal(err)
	}
	a := (&instance{t: t, base: c.control, log: c.log}).do(http.DefaultClient, "POST", "/"+what, string(body), "Content-Type", typeJSON)
	if a.status == http.StatusOK && result != nil {
		err = json.Unmarshal([]byte(a.body), result)
	}
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", what, a.status, a.body, err)
	}
}

// openID is one certified provider.
type openID struct {
	t      *testing.T
	c      *certified
	port   string
	issuer string
}

// openIDOptions are the options of a provider.
type openIDOptions struct {
	Port                string            `json:"port"`
	Algorithm           string            `json:"alg,omitempty"`                 // of ID tokens; default ES256
	AccessTokenLifetime int               `json:"accessTokenLifetime,omitempty"` // seconds; default an hour
	RolesIn             []string          `json:"rolesIn,omitempty"`             // id_token, userinfo; default both
	Resources           map[string]string `json:"resources,omitempty"`           // resource indicators and the format of their access tokens, jwt or opaque
}

// provider starts a provider.
func (c *certified) provider(t *testing.T, o openIDOptions) *openID {
	t.Helper()
	o.Port = freePort(t)
	p := &openID{t: t, c: c, port: o.Port}
	c.order(t, "start", o, &p.issuer)
	return p
}

// do orders the provider to do something; see the verbs in provider.mjs.
func (p *openID) do(verb string, argument any) {
	p.t.Helper()
	p.c.order(p.t, verb+"/"+p.port, argument, nil)
}

// account changes claims of a user.
func (p *openID) account(user string, claims map[string]any) {
	p.t.Helper()
	p.do("account", map[string]any{"user": user, "claims": claims})
}

// openIDState is the state of a provider.
type openIDState struct {
	Requests     map[string]int // how many came, by method and path
	LogoutTokens []string       // that it sent, oldest first
	Grants       []struct {     // that live
		Account string
		SID     string
	}
}

func (p *openID) state() openIDState {
	p.t.Helper()
	var s openIDState
	p.c.order(p.t, "state/"+p.port, nil, &s)
	return s
}

// asked returns the number of requests with a method and path.
func (p *openID) asked(what string) int {
	p.t.Helper()
	return p.state().Requests[what]
}

// certifiedSecret is the client secret. It has characters that a form and a Basic
// header must encode (RFC 6749, section 2.3.1).
const certifiedSecret = `s3cret: 100% +/&="~`

// client describes a gateway as a client of a provider.
type client struct {
	name     string         // of the provider, for the gateway
	method   string         // token_endpoint_auth_method; none: a public client
	prefix   string         // endpoints.prefix; empty: /
	scopes   string         // empty: all
	metadata map[string]any // more for the provider
	more     string         // more for the gateway: ", key: value"
}

// register makes g a client of the provider and returns the entry for its list of
// providers.
func (p *openID) register(g *instance, c client) string {
	p.t.Helper()
	if c.prefix == "" {
		c.prefix = "/"
	}
	if c.scopes == "" {
		c.scopes = "openid, profile, email, roles, offline_access"
	}
	own := g.base + c.prefix
	metadata := map[string]any{
		"client_id":                           "gateway",
		"redirect_uris":                       []string{own + "callback", own + "auth/callback", own + "callback/" + c.name},
		"post_logout_redirect_uris":           []string{g.base + "/"},
		"backchannel_logout_uri":              own + "backchannel-logout/" + c.name,
		"backchannel_logout_session_required": true,
		"ca":                                  filepath.Join(g.dir, g.ca),
	}
	secret := ""
	if c.method != "" {
		metadata["token_endpoint_auth_method"] = c.method
	}
	if c.method != "none" {
		metadata["client_secret"] = certifiedSecret
		secret = ", client_secret: '" + certifiedSecret + "'"
	}
	maps.Copy(metadata, c.metadata)
	p.do("client", metadata)
	return fmt.Sprintf("  - {name: %s, issuer: %q, client_id: gateway%s, scopes: [%s]%s}\n", c.name, p.issuer, secret, c.scopes, c.more)
}

// delegatedRoutes are one for people who signed in, and one for administrators.
const delegatedRoutes = `
policies: {admin: {roles: [admin]}}
routes:
  - {match: /secure-resource, upstream: app, auth: [oidc]}
  - {match: /admin-resource, upstream: app, auth: [oidc], policy: admin}
`

// delegated is a gateway with one certified provider and a recorder.
type delegated struct {
	*instance
	p  *openID
	up *recorder
}

// prepared returns a gateway that does not run yet. more is added to the
// configuration; the routes are delegatedRoutes unless it has its own.
func (c *certified) prepared(t *testing.T, o openIDOptions, cl client, more string) *delegated {
	t.Helper()
	d := &delegated{instance: prepared(t), p: c.provider(t, o), up: record(t)}
	cl.name = "certified"
	if !strings.Contains(more, "routes:") {
		more += delegatedRoutes
	}
	d.configure(app(d.up.url) + "providers:\n" + d.p.register(d.instance, cl) + more)
	return d
}

// gateway is prepared, and runs.
func (c *certified) gateway(t *testing.T, o openIDOptions, cl client, more string) *delegated {
	t.Helper()
	d := c.prepared(t, o, cl, more)
	d.run()
	return d
}

// signedIn is a new browser in which a user has signed in.
func (d *delegated) signedIn(user string) *browser {
	d.t.Helper()
	b := d.browse()
	b.signIn(d.base+"/login", d.p, user)
	return b
}

// session is the cookie of the browser's session.
func (d *delegated) session(b *browser) string {
	d.t.Helper()
	value := b.cookie(d.base, "session")
	if value == "" {
		d.t.Fatalf("there is no session: %s\n%s", b.describe(), d.log)
	}
	return "session=" + value
}

// lives fails the test unless a session gives access to the upstream.
func (d *delegated) lives(t *testing.T, session string) {
	t.Helper()
	d.up.all()
	if got := d.status(d.stranger(), "GET", "/secure-resource", "Cookie", session); got != http.StatusOK {
		t.Fatalf("with a valid session, /secure-resource is %d\n%s", got, d.log)
	}
	d.up.one(t)
}

// ended fails the test if a session gives access to anything.
func (d *delegated) ended(t *testing.T, session string) {
	t.Helper()
	d.up.all()
	for _, path := range []string{"/secure-resource", "/me"} {
		if got := d.status(d.stranger(), "GET", path, "Cookie", session); got != http.StatusUnauthorized {
			t.Errorf("with a session that has ended, %s is %d", path, got)
		}
	}
	d.up.none(t)
}
