package oauth

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/certtest"
)

// callersConfig lets seven kinds of callers in, each at a route of its own. GATE, COMPANY, CI, CLUSTER and KEYS are
// addresses: of the gateway, of three issuers, and of the keys of the clients that sign.
const callersConfig = `
tls: {client_ca: ca.pem, crl: crl.pem}
certificates: {username: cn}
accounts: {file: accounts.yaml}
providers: [{name: company, issuer: COMPANY, client_id: gateway}]
token: {trusted_issuers: [{name: ci, issuer: CI}, {name: cluster, issuer: CLUSTER}]}
oauth:
  enabled: true
  clients:
    - {id: chat, consent: skip, redirect_uris: ["http://127.0.0.1/callback"]}
    - {id: deploy, grants: [jwt_bearer], federation: [{issuer: ci, claims: {repository_id: ["7"]}}]}
    - id: reports
      grants: [jwt_bearer]
      federation: [{issuer: cluster, claims: {sub: ["system:serviceaccount:team:reports"]}}]
    - {id: agent, jwks_uri: KEYS, grants: [token_exchange], exchange: {from: ["GATE/chat"], to: [apps]}}
    - {id: tools, jwks_uri: KEYS, grants: [device_code]}
    - {id: backup, jwks_uri: KEYS, grants: [client_credentials], roles: [backup]}
  cross_app: [{provider: company, clients: [tools]}]
policies:
  person: {users: [alice], mechanisms: [session]}
  telephone: {users: [alice], mechanisms: [certificate]}
  job: {users: ["client:deploy"]}
  pod: {users: ["client:reports"]}
  agent: {users: [alice], actors: ["client:agent"]}
  company: {users: ["company:carol"], actors: ["client:tools"]}
  daemon: {roles: [backup]}
routes:
  - {match: /chat, upstream: app, auth: [bearer]}
`

const jwtBearerGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// caller is one kind of caller.
type caller struct {
	kind string
	// enter gets in. The client and the header are those of its requests.
	enter func(t *testing.T) (c *http.Client, header []string)
	// headers reach the upstream. subject, actor and event are in the audit log; a certificate leaves no event.
	headers               map[string]string
	subject, actor, event string
	// end ends the access, which again makes possible once more.
	end, again func(t *testing.T)
}

// calling is a gateway with all callers.
type calling struct {
	*world.Instance
	up                        *world.Recorder
	company, ci, cluster, key *world.Platform
	ca                        *certtest.CA
	passkey                   *authenticator.Authenticator
	phone                     tls.Certificate
	config                    string
	session, access           string // of the last caller
}

func startCalling(t *testing.T) *calling {
	t.Helper()
	c := &calling{
		Instance: world.Prepare(t), up: world.Record(t), company: world.StartPlatform(t), ci: world.StartPlatform(t),
		cluster: world.StartPlatform(t), key: world.StartPlatform(t), ca: certtest.New(t, "phones", time.Now()),
	}
	c.phone = c.ca.Client(certtest.Named("alice"))
	slow := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	c.config = strings.NewReplacer("GATE", c.Base, "COMPANY", c.company.URL, "CI", c.ci.URL, "CLUSTER", c.cluster.URL,
		"KEYS", c.key.URL+"/jwks").Replace(callersConfig)
	for _, one := range c.callers() {
		for _, upstream := range []string{"app", "slow"} {
			c.config += fmt.Sprintf("  - {match: /%s/%s, upstream: %[2]s, resource: apps, policy: %[1]s, "+
				"auth: [certificate, session, bearer]}\n", one.kind, upstream)
		}
	}
	c.config += fmt.Sprintf("upstreams: {app: {url: %q}, slow: {url: %q}}\n", c.up.URL, slow)
	if strings.Contains(c.config, "secret") {
		t.Fatalf("a caller has a secret:\n%s", c.config)
	}
	c.Write("ca.pem", certtest.PEM(c.ca))
	c.Write("crl.pem", certtest.ListPEM(c.ca.List(time.Hour)))
	c.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ""))
	c.Configure(c.config)
	c.Run()
	c.addPasskey(t)
	return c
}

// addPasskey adds a passkey to the account of alice.
func (c *calling) addPasskey(t *testing.T) {
	t.Helper()
	c.passkey = &authenticator.Authenticator{Origin: c.Base, Verified: true}
	session := c.SignIn(c.Stranger(), "alice").Session
	line := []string{"Cookie", session, "Content-Type", world.TypeJSON, "Origin", c.Base}
	options := c.Do(c.Stranger(), "POST", "/account/passkeys/options", "{}", line...)
	made := world.Must(c.passkey.Create([]byte(options.Body)))(t)
	body := world.Must(json.Marshal(map[string]any{"name": "key", "credential": json.RawMessage(made)}))(t)
	added := c.Do(c.Stranger(), "POST", "/account/passkeys", string(body), line...)
	world.WantStatus(t, "a passkey", added, http.StatusCreated)
}

// signIn signs alice in with her passkey alone.
func (c *calling) signIn(t *testing.T) {
	t.Helper()
	line := []string{"Content-Type", world.TypeJSON, "Origin", c.Base}
	options := c.Do(c.Stranger(), "POST", "/signin/passkey/options", "{}", line...)
	proved := world.Must(c.passkey.Get([]byte(options.Body)))(t)
	answer := c.Do(c.Stranger(), "POST", "/signin/passkey", string(proved), line...)
	world.WantStatus(t, "the passkey", answer, http.StatusOK)
	c.session = world.CookieOf(answer)
}

// proof proves a client by an assertion of a platform.
func proof(assertion string) url.Values {
	return url.Values{
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion},
	}
}

// byKey proves a client by its key.
func (c *calling) byKey(client string) url.Values {
	return proof(c.key.Sign("JWT", map[string]any{"iss": client, "sub": client, "aud": c.Base}))
}

func (c *calling) job() string {
	return c.ci.Sign("JWT", map[string]any{"aud": c.Base, "sub": "repo:team/app", "repository_id": "7"})
}

func (c *calling) pod() string {
	return c.cluster.Sign("JWT", map[string]any{"aud": c.Base, "sub": "system:serviceaccount:team:reports"})
}

// ask asks the token endpoint, and keeps the token as that of the last caller.
func (c *calling) ask(t *testing.T, grant string, forms ...url.Values) (*http.Client, []string) {
	t.Helper()
	form := url.Values{"grant_type": {grant}}
	for _, more := range forms {
		maps.Copy(form, more)
	}
	a := c.Do(c.Stranger(), "POST", "/oauth/token", form.Encode(), "Content-Type", world.TypeForm)
	world.WantStatus(t, grant, a, http.StatusOK)
	in := world.Must(world.Tokens(a))(t)
	c.access = strings.TrimPrefix(in.Access, "Bearer ")
	return c.Stranger(), []string{"Authorization", in.Access}
}

// revoke revokes the token of the last caller.
func (c *calling) revoke(t *testing.T, as url.Values) {
	t.Helper()
	as.Set("token", c.access)
	a := c.Do(c.Stranger(), "POST", "/oauth/revoke", as.Encode(), "Content-Type", world.TypeForm)
	world.WantStatus(t, "revocation", a, http.StatusOK)
}

// reload applies the configuration with a change, and the files beside it.
func (c *calling) reload(t *testing.T, old, new string) {
	t.Helper()
	changed := strings.Replace(c.config, old, new, 1)
	if changed == c.config && old != new {
		t.Fatalf("no %s", old)
	}
	c.Configure(changed)
	before := strings.Count(c.Log.String(), `"msg":"reloaded"`)
	c.Signal(syscall.SIGHUP)
	world.Until(t, "the reload", func() bool { return strings.Count(c.Log.String(), `"msg":"reloaded"`) > before })
}

func (c *calling) restore(t *testing.T) { t.Helper(); c.reload(t, "", "") }

func (c *calling) callers() []caller {
	return slices.Concat(c.people(), c.workloads(), c.actors())
}

// signOut signs alice out, whose session is that of the last caller.
func (c *calling) signOut(t *testing.T) {
	t.Helper()
	a := c.Do(c.Stranger(), "POST", "/logout", "", "Cookie", c.session, "Origin", c.Base)
	world.WantStatus(t, "logout", a, http.StatusOK)
}

// people prove who they are by a passkey and by a certificate.
func (c *calling) people() []caller {
	lists := func(list []byte) { c.Write("crl.pem", certtest.ListPEM(list)) }
	return []caller{{
		kind: "person", headers: map[string]string{"User": "alice", "Mechanism": "session"},
		subject: "local:alice", event: "login",
		enter: func(t *testing.T) (*http.Client, []string) {
			c.signIn(t)
			return c.Stranger(), []string{"Cookie", c.session}
		},
		end: c.signOut,
	}, {
		kind: "telephone", headers: map[string]string{"User": "alice", "Mechanism": "certificate"}, subject: "local:alice",
		enter: func(*testing.T) (*http.Client, []string) {
			stranger := c.Stranger()
			stranger.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{c.phone}
			return stranger, nil
		},
		end: func(t *testing.T) {
			lists(c.ca.List(time.Hour, c.phone.Leaf))
			c.restore(t)
		},
		again: func(t *testing.T) {
			lists(c.ca.List(time.Hour))
			c.restore(t)
		},
	}}
}

// workloads act for themselves.
func (c *calling) workloads() []caller {
	return []caller{{
		kind: "job", headers: map[string]string{"User": "client:deploy", "Mechanism": "bearer"},
		subject: "client:deploy", event: "token_issued",
		enter: func(t *testing.T) (*http.Client, []string) {
			return c.ask(t, jwtBearerGrant, url.Values{"assertion": {c.job()}})
		},
		end:   func(t *testing.T) { c.reload(t, `repository_id: ["7"]`, `repository_id: ["8"]`) },
		again: c.restore,
	}, {
		kind: "pod", headers: map[string]string{"User": "client:reports", "Mechanism": "bearer"},
		subject: "client:reports", event: "token_issued",
		enter: func(t *testing.T) (*http.Client, []string) {
			return c.ask(t, jwtBearerGrant, url.Values{"assertion": {c.pod()}})
		},
		end: func(t *testing.T) { c.revoke(t, proof(c.pod())) },
	}, {
		kind: "daemon", headers: map[string]string{"User": "client:backup", "Mechanism": "bearer"},
		subject: "client:backup", event: "token_issued",
		enter: func(t *testing.T) (*http.Client, []string) {
			return c.ask(t, "client_credentials", c.byKey("backup"))
		},
		end: func(t *testing.T) {
			backup := "    - {id: backup, jwks_uri: " + c.key.URL + "/jwks, grants: [client_credentials], roles: [backup]}\n"
			c.reload(t, backup, "")
		},
		again: c.restore,
	}}
}

// actors act for users: one who signed in here, and one of a provider.
func (c *calling) actors() []caller {
	return []caller{{
		kind: "agent", headers: map[string]string{"User": "alice", "Actor": "client:agent", "Mechanism": "bearer"},
		subject: "local:alice", actor: "client:agent", event: "token_issued",
		enter: func(t *testing.T) (*http.Client, []string) {
			c.signIn(t)
			lent := c.Lend(c.session, "chat", "http://127.0.0.1/callback", c.Base+"/chat")
			return c.ask(t, "urn:ietf:params:oauth:grant-type:token-exchange", c.byKey("agent"), url.Values{
				"subject_token":      {strings.TrimPrefix(lent.Access, "Bearer ")},
				"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "resource": {"apps"},
			})
		},
		end: c.signOut,
	}, {
		kind: "company", headers: map[string]string{"User": "carol", "Actor": "client:tools", "Mechanism": "bearer"},
		subject: "company:1", actor: "client:tools", event: "token_issued",
		enter: func(t *testing.T) (*http.Client, []string) {
			assertion := c.company.Sign("oauth-id-jag+jwt", map[string]any{
				"aud": c.Base, "sub": "1", "preferred_username": "carol", "client_id": "tools", "resource": "apps",
			})
			return c.ask(t, jwtBearerGrant, c.byKey("tools"), url.Values{"assertion": {assertion}})
		},
		end: func(t *testing.T) {
			logout := url.Values{"logout_token": {c.company.Sign("logout+jwt", map[string]any{
				"aud": "gateway", "sub": "1",
				"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
			})}}
			world.WantStatus(t, "the provider's logout", c.Do(c.Stranger(), "POST", "/backchannel-logout/company",
				logout.Encode(), "Content-Type", world.TypeForm), http.StatusOK)
		},
		again: func(t *testing.T) { // only a later assertion counts
			second := time.Now().Unix()
			world.Until(t, "the next second", func() bool { return time.Now().Unix() > second })
		},
	}}
}

// TestCallers: seven kinds of callers get in without a stored secret, are named to the upstream and in the audit
// log, are refused where a policy says so, and lose a stream and their access within a second of their end.
func TestCallers(t *testing.T) {
	t.Parallel()
	c := startCalling(t)
	all := c.callers()
	for _, one := range all {
		t.Run(one.kind, func(t *testing.T) {
			c.up.All()
			before := len(c.Log.Records(t, "audit"))
			client, header := one.enter(t)
			t.Run("enters", func(t *testing.T) {
				world.WantStatus(t, "its own route", c.Do(client, "GET", "/"+one.kind+"/app", "", header...), http.StatusOK)
			})
			reached := c.up.One(t)
			t.Run("refused", func(t *testing.T) {
				for _, other := range all {
					if other.kind == one.kind {
						continue
					}
					a := c.Do(client, "GET", "/"+other.kind+"/app", "", header...)
					world.WantStatus(t, "the route of the "+other.kind, a, http.StatusForbidden)
				}
				c.up.None(t)
			})
			t.Run("named", func(t *testing.T) {
				for _, name := range []string{"User", "Actor", "Mechanism"} {
					if got := reached.Value(t, "X-Auth-"+name); got != one.headers[name] {
						t.Errorf("the upstream gets X-Auth-%s: %q, want %q", name, got, one.headers[name])
					}
				}
				c.wantNamed(t, before, one, len(all)-1)
			})
			t.Run("ended", func(t *testing.T) { c.wantEnds(t, one, client, header) })
		})
	}
}

// wantNamed checks that the audit log, from an event on, names a caller at its way in and at each refusal.
func (c *calling) wantNamed(t *testing.T, from int, one caller, refusals int) {
	t.Helper()
	for event, want := range map[string]int{one.event: 1, "denied": refusals} {
		world.Eventually(t, world.Patience, one.kind+" in events "+event, func() error {
			events := c.Log.Records(t, "audit")[from:]
			named := slices.DeleteFunc(slices.Clone(events), func(e map[string]any) bool {
				actor, _ := e["actor"].(string)
				return e["event"] != event || e["subject"] != one.subject || actor != one.actor
			})
			if event != "" && len(named) != want {
				return fmt.Errorf("%d, want %d: %v", len(named), want, events)
			}
			return nil
		})
	}
}

// wantEnds checks that a stream and the access of a caller end within a second. A busy machine gets more chances
// for the measurement.
func (c *calling) wantEnds(t *testing.T, one caller, client *http.Client, header []string) {
	t.Helper()
	took := time.Hour
	for try := 0; try < 5 && took >= time.Second; try++ {
		if try > 0 {
			if one.again != nil {
				one.again(t)
			}
			client, header = one.enter(t)
		}
		ended := c.stream(t, client, "/"+one.kind+"/slow", header)
		one.end(t)
		since := time.Now()
		took = (<-ended).Sub(since)
		c.up.All()
		if got := c.Status(client, "GET", "/"+one.kind+"/app", header...); got != http.StatusUnauthorized {
			t.Errorf("afterwards: %d", got)
		}
		c.up.None(t)
	}
	if took >= time.Second {
		t.Errorf("the stream ends after %v", took)
	}
}

// stream opens a stream. The channel gets the time of its end.
func (c *calling) stream(t *testing.T, client *http.Client, path string, header []string) <-chan time.Time {
	t.Helper()
	request := world.Must(http.NewRequestWithContext(t.Context(), "GET", c.Base+path, nil))(t)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := world.Must(client.Do(request))(t)
	if _, err := io.ReadFull(answer.Body, make([]byte, 4)); answer.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("a stream: %d, %v", answer.StatusCode, err)
	}
	ended := make(chan time.Time, 1)
	go func() {
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		ended <- time.Now()
	}()
	return ended
}
