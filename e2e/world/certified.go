package world

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
	"time"
)

// Certified is a process with certified providers.
type Certified struct {
	control string // URL for orders
	log     *Output
}

// StartCertified starts the process, which ends with the test.
func StartCertified(t testing.TB) *Certified {
	t.Helper()
	if _, err := os.Stat(Path("e2e/provider/node_modules/oidc-provider")); err != nil {
		t.Fatalf("the certified provider is not installed, run make deps: %v", err)
	}
	c := &Certified{log: &Output{}}
	cmd := exec.Command("node", Path("e2e/provider/provider.mjs"))
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
func (c *Certified) order(t testing.TB, what string, argument, result any) {
	t.Helper()
	body, err := json.Marshal(argument)
	if err != nil {
		t.Fatal(err)
	}
	process := &Instance{T: t, Base: c.control, Log: c.log}
	orders := &http.Client{Timeout: time.Minute} // a process that hangs must not hold the tests
	a := process.Do(orders, "POST", "/"+what, string(body), "Content-Type", TypeJSON)
	if a.Status == http.StatusOK && result != nil {
		err = json.Unmarshal([]byte(a.Body), result)
	}
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", what, a.Status, a.Body, err)
	}
}

// Provider is one certified provider.
type Provider struct {
	T      testing.TB
	c      *Certified
	port   string
	Issuer string
}

// ProviderOptions are the options of a provider.
type ProviderOptions struct {
	Port                string   `json:"port"`
	Algorithm           string   `json:"alg,omitempty"`                 // of ID tokens; default ES256
	AccessTokenLifetime int      `json:"accessTokenLifetime,omitempty"` // seconds; default an hour
	RolesIn             []string `json:"rolesIn,omitempty"`             // id_token, userinfo; default both
	// Resources are resource indicators, and the format of their access tokens: jwt or opaque.
	Resources map[string]string `json:"resources,omitempty"`
}

// Provider starts a provider.
func (c *Certified) Provider(t testing.TB, o ProviderOptions) *Provider {
	t.Helper()
	o.Port = FreePort(t)
	p := &Provider{T: t, c: c, port: o.Port}
	c.order(t, "start", o, &p.Issuer)
	return p
}

// Do orders the provider to do something; see the verbs in provider.mjs.
func (p *Provider) Do(verb string, argument any) {
	p.T.Helper()
	p.c.order(p.T, verb+"/"+p.port, argument, nil)
}

// Account changes claims of a user.
func (p *Provider) Account(user string, claims map[string]any) {
	p.T.Helper()
	p.Do("account", map[string]any{"user": user, "claims": claims})
}

// providerState is the state of a provider.
type providerState struct {
	Requests     map[string]int // how many came, by method and path
	LogoutTokens []string       // that it sent, oldest first
	Grants       []struct {     // that live
		Account string
		SID     string
	}
}

// State asks the provider for its state.
func (p *Provider) State() providerState {
	p.T.Helper()
	var s providerState
	p.c.order(p.T, "state/"+p.port, nil, &s)
	return s
}

// Asked returns the number of requests with a method and path.
func (p *Provider) Asked(what string) int {
	p.T.Helper()
	return p.State().Requests[what]
}

// CertifiedSecret is the client secret. It has characters that a form and a Basic
// header must encode (RFC 6749, section 2.3.1).
const CertifiedSecret = `s3cret: 100% +/&="~`

// ProviderClient describes a gateway as a client of a provider.
type ProviderClient struct {
	Name     string         // of the provider, for the gateway
	Method   string         // token_endpoint_auth_method; none: a public client
	Prefix   string         // endpoints.prefix; empty: /
	Scopes   string         // empty: all
	Metadata map[string]any // more for the provider
	More     string         // more for the gateway: ", key: value"
}

// Register makes g a client of the provider and returns the entry for its list of
// providers.
func (p *Provider) Register(g *Instance, c ProviderClient) string {
	p.T.Helper()
	if c.Prefix == "" {
		c.Prefix = "/"
	}
	if c.Scopes == "" {
		c.Scopes = "openid, profile, email, roles, offline_access"
	}
	own := g.Base + c.Prefix
	metadata := map[string]any{
		"client_id":                           "gateway",
		"redirect_uris":                       []string{own + "callback", own + "auth/callback", own + "callback/" + c.Name},
		"post_logout_redirect_uris":           []string{g.Base + "/"},
		"backchannel_logout_uri":              own + "backchannel-logout/" + c.Name,
		"backchannel_logout_session_required": true,
		"ca":                                  filepath.Join(g.Dir, g.CA),
	}
	secret := ""
	if c.Method != "" {
		metadata["token_endpoint_auth_method"] = c.Method
	}
	if c.Method != "none" {
		metadata["client_secret"] = CertifiedSecret
		secret = ", client_secret: '" + CertifiedSecret + "'"
	}
	maps.Copy(metadata, c.Metadata)
	p.Do("client", metadata)
	return fmt.Sprintf("  - {name: %s, issuer: %q, client_id: gateway%s, scopes: [%s]%s}\n",
		c.Name, p.Issuer, secret, c.Scopes, c.More)
}

// DelegatedRoutes are one for people who signed in, and one for administrators.
const DelegatedRoutes = `
policies: {admin: {roles: [admin]}}
routes:
  - {match: /secure-resource, upstream: app, auth: [oidc]}
  - {match: /admin-resource, upstream: app, auth: [oidc], policy: admin}
`

// Delegated is a gateway with one certified provider and a recorder.
type Delegated struct {
	*Instance
	Provider *Provider
	Up       *Recorder
}

// Prepare returns a gateway that does not run yet. more is added to the
// configuration; the routes are DelegatedRoutes unless it has its own.
func (c *Certified) Prepare(t testing.TB, o ProviderOptions, cl ProviderClient, more string) *Delegated {
	t.Helper()
	d := &Delegated{Instance: Prepare(t), Provider: c.Provider(t, o), Up: Record(t)}
	cl.Name = "certified"
	if !strings.Contains(more, "routes:") {
		more += DelegatedRoutes
	}
	d.Configure(App(d.Up.URL) + "providers:\n" + d.Provider.Register(d.Instance, cl) + more)
	return d
}

// Start is Prepare, and runs.
func (c *Certified) Start(t testing.TB, o ProviderOptions, cl ProviderClient, more string) *Delegated {
	t.Helper()
	d := c.Prepare(t, o, cl, more)
	d.Run()
	return d
}
