package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/explain"
	"authgate/internal/test/certtest"
	"authgate/internal/test/must"
	"authgate/policy"
)

// certificateRoutes are the routes of certificateRig, after those of baseConfig.
const certificateRoutes = `
  - {match: /cert/, name: cert, upstream: app, auth: [certificate]}
  - {match: /both/, name: both, upstream: app, auth: [certificate, session, bearer]}
  - {match: /staff/, name: staff, upstream: app, auth: [certificate, session], policy: admin}
  - {match: /two/, name: two, upstream: app, auth: [certificate, session], policy: {factors: 2}}
  - {match: /only/, name: only, upstream: app, auth: [certificate, session], policy: {mechanisms: [certificate]}}
  - {match: /passes/, name: passes, upstream: app, auth: [none], headers: {pass: [Client-Cert, Client-Cert-Chain]}}
  - {match: vpn.example/, name: vpn, upstream: app, auth: [certificate]}
  - {match: wiki.example/, name: wiki, upstream: app, auth: [session]}
  - {match: mail.example/, name: mail, upstream: app, auth: [session]}
`

// certificateRig is a rig that accepts certificates of an authority.
type certificateRig struct {
	*rig
	ca     *certtest.CA
	folder string
	yaml   string
}

func newCertificateRig(t *testing.T) *certificateRig {
	t.Helper()
	c := &certificateRig{ca: certtest.New(t, "clients", time.Now()), folder: t.TempDir()}
	c.write("ca.pem", certtest.PEM(c.ca))
	c.yaml = edit(t, baseConfig, "store:", "tls: {client_ca: "+filepath.Join(c.folder, "ca.pem")+"}\n"+
		"certificates: {username: cn}\nlisten: {trusted_proxies: [10.0.0.1]}\nstore:") + certificateRoutes
	c.rig = newRig(t, c.yaml)
	return c
}

func (c *certificateRig) write(name, content string) {
	if err := os.WriteFile(filepath.Join(c.folder, name), []byte(content), 0o600); err != nil {
		panic(err)
	}
}

// with is a request on a connection that was opened for gw.example, with a certificate.
func (c *certificateRig) with(issued tls.Certificate, method, target string, lines ...string) *http.Request {
	q := request(method, target, "", lines...)
	q.TLS = &tls.ConnectionState{ServerName: "gw.example"}
	if len(issued.Certificate) > 0 {
		q.TLS.PeerCertificates = certtest.Chain(c.t, issued)
	}
	return q
}

// proxied is a request of a trusted proxy, which has a certificate of its own.
func (c *certificateRig) proxied(own tls.Certificate, target string, lines ...string) *http.Request {
	q := c.with(own, "GET", target, append(lines, "X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https")...)
	q.RemoteAddr = "10.0.0.1:4711"
	return q
}

func (c *certificateRig) named(names ...string) tls.Certificate {
	return c.ca.Client(certtest.Named(names...))
}

// A certificate opens the routes that accept it for the account that it names, and nothing else.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, bob := c.named("alice"), c.named("bob")
	w := c.wantOf(200, c.with(alice, "GET", "/cert/"))
	got := c.upstream.Last().Header
	if got.Get("X-Auth-User") != "alice" || got.Get("X-Auth-Mechanism") != "certificate" ||
		got.Get("X-Auth-Subject") != "local:alice" || got.Get("X-Auth-Provider") != "local" ||
		len(w.Header()["Set-Cookie"]) > 0 {
		t.Errorf("the upstream gets %v, and the client %v", got, w.Header())
	}
	if private := w.Header().Get("Cache-Control"); !strings.Contains(private, "private") {
		t.Errorf("Cache-Control is %q", private)
	}
	for _, path := range []string{"/both/", "/staff/", "/only/"} {
		c.wantOf(200, c.with(alice, "GET", path))
	}
	c.wantOf(403, c.with(bob, "GET", "/staff/"))
	for _, path := range []string{"/session/", "/bearer/", "/me", "/account/sessions"} {
		c.wantOf(401, c.with(alice, "GET", path))
	}
	for _, target := range []string{"/cert/", "/both/"} {
		w := c.wantOf(401, c.with(tls.Certificate{}, "GET", target))
		if w.Header().Get("Connection") != "" {
			t.Errorf("%s: a client without a certificate loses its connection", target)
		}
		if tells := w.Header().Get("Authgate-Sign-In") != ""; tells != (target == "/both/") {
			t.Errorf("%s: the answer says where users sign in: %t", target, tells)
		}
	}
}

// A wrong certificate is 401, and ends the connection that it belongs to. A page load gets a page
// that leads to the sign-in, if a session could open the route.
func TestWrongCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	other := certtest.New(t, "clients", time.Now())
	for name, wrong := range map[string]tls.Certificate{
		"another CA": other.Client(certtest.Named("alice")), "a stranger": c.named("mallory"),
		"two names": c.named("alice", "bob"),
		"expired": c.ca.Client(certtest.Named("alice"),
			func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) }),
	} {
		for _, path := range []string{"/cert/", "/both/"} {
			w := c.wantOf(401, c.with(wrong, "GET", path, browser))
			link := strings.Contains(w.Body.String(), `href="/signin`)
			if link != (path == "/both/") || w.Header().Get("Connection") != "close" {
				t.Errorf("%s, %s: a link: %t, %v", name, path, link, w.Header())
			}
		}
		c.wantOf(200, c.with(wrong, "GET", "/public/"))
		c.wantOf(200, c.with(wrong, "GET", "/session/", c.login(aliceIn).cookie))
	}
	c.wantOf(401, c.with(other.Client(certtest.Named("its-own-words")), "GET", "/cert/"))
	if strings.Contains(c.log.String(), "its-own-words") {
		t.Errorf("the log quotes a certificate of an authority that is not known:\n%s", c.log)
	}
}

// Authorization comes first, then cookies, then the certificate.
func TestCertificateOrder(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, in := c.named("alice"), c.login(bobIn)
	for _, header := range []string{in.cookie, in.bearer} {
		c.wantOf(200, c.with(alice, "GET", "/both/", header))
		if user := c.upstream.LastUser(); user != "bob" {
			t.Errorf("with %.20s it is %s", header, user)
		}
	}
	c.wantOf(401, c.with(alice, "GET", "/both/", "Authorization: Bearer wrong"))
	c.wantOf(401, c.with(alice, "GET", "/both/", "Cookie: session_id=dead"))
	c.wantOf(200, c.with(alice, "GET", "/both/", "Cookie: session_id=dead", browser, "Sec-Fetch-Mode: navigate"))
	if user := c.upstream.LastUser(); user != "alice" {
		t.Errorf("a page load with a dead cookie is of %s", user)
	}
}

// Browsers send a certificate by themselves, so other sites must not use it.
func TestCertificateCrossSite(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice := c.named("alice")
	c.wantOf(403, c.with(alice, "POST", "/cert/", "Origin: https://evil.example"))
	c.wantOf(403, c.with(alice, "POST", "/cert/", "Sec-Fetch-Site: cross-site"))
	c.wantOf(200, c.with(alice, "POST", "/cert/", "Origin: https://gw.example"))
	c.wantOf(200, c.with(alice, "POST", "/cert/"))
}

// A certificate is one factor without a time. A browser is led to a sign-in that proves more.
func TestCertificateStepUp(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.wantOf(401, c.with(c.named("alice"), "GET", "/two/"))
	w := c.wantOf(302, c.with(c.named("alice"), "GET", "/two/", browser))
	if to := w.Header().Get("Location"); !strings.HasPrefix(to, "/signin?") || !strings.Contains(to, "factors=2") {
		t.Errorf("it leads to %q", to)
	}
}

// A connection belongs to the host that it was opened for, if a route of either host accepts
// certificates.
func TestCertificateHosts(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.yaml = edit(t, c.yaml, "match: /cert/", "match: gw.example/cert/")
	for _, path := range []string{"/both/", "/staff/", "/two/", "/only/"} {
		c.yaml = edit(t, c.yaml, "match: "+path, "match: vpn.example"+path)
	}
	c.mustReload(c.yaml)
	for _, q := range []struct {
		opened, host, path string
		status             int
	}{
		{"vpn.example", "vpn.example", "/", 200},
		{"VPN.example", "vpn.example:443", "/", 200},
		{"wiki.example", "vpn.example", "/", 421},
		{"vpn.example", "wiki.example", "/", 421},
		{"vpn.example", "wiki.example", "/signin", 421},
		{"wiki.example", "mail.example", "/", 401},
		{"", "vpn.example", "/", 421},
		{"", "gw.example", "/cert/", 200},
		{"gw.example", "vpn.example", "/", 421},
		{"192.0.2.1", "vpn.example", "/", 421},
	} {
		r := c.with(c.named("alice"), "GET", q.path)
		r.TLS.ServerName, r.Host = q.opened, q.host
		c.wantOf(q.status, r)
	}
	r := c.proxied(tls.Certificate{}, "/", certtest.Fields(c.named("alice"))...)
	r.TLS.ServerName, r.Host = "wiki.example", "vpn.example"
	c.wantOf(200, r)
	for host, want := range map[string]bool{"vpn.example": true, "": true, "gw.example": true, "wiki.example": false,
		"mail.example": false, "..": false} {
		if got := c.ClientAuthorities(host) != nil; got != want {
			t.Errorf("a client of %q is asked for a certificate: %t", host, got)
		}
	}
}

// Only a trusted proxy says which certificate its client has, and its own is not its client's.
// The header reaches no application.
func TestProxiedCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, none := certtest.Fields(c.named("alice")), tls.Certificate{}
	below := certtest.Fields(c.ca.Intermediate("between").Client(certtest.Named("alice")))
	c.wantOf(200, c.proxied(none, "/cert/", alice...))
	if h := c.upstream.Last().Header; h.Get("X-Auth-User") != "alice" || h["Client-Cert"] != nil {
		t.Errorf("the upstream gets %v", h)
	}
	c.wantOf(200, c.proxied(none, "/cert/", below...))
	c.wantOf(200, c.proxied(c.named("bob"), "/cert/", alice...))
	if user := c.upstream.LastUser(); user != "alice" {
		t.Errorf("the certificate of the proxy counts, for %s", user)
	}
	c.wantOf(401, c.proxied(none, "/cert/", below[0]))
	c.wantOf(401, c.proxied(c.named("alice"), "/cert/"))
	c.wantOf(401, c.proxied(c.named("alice"), "/cert/", "Client-Cert: "))
	c.wantOf(401, c.proxied(none, "/cert/", "Client-Cert: :bm9uZQ==:"))
	c.wantOf(400, c.proxied(none, "/cert/", append(alice, alice...)...))
	wrong := c.wantOf(401, c.proxied(none, "/cert/", certtest.Fields(c.named("mallory"))...))
	if wrong.Header().Get("Connection") != "" {
		t.Error("the proxy loses its connection")
	}
	c.wantOf(401, c.with(none, "GET", "/cert/", alice...))
	c.wantOf(200, c.with(none, "GET", "/public/", append(below, "Client_Cert: x")...))
	c.wantOf(200, c.proxied(none, "/passes/", below...))
	if c.upstream.Last().Header.Get("Client-Cert") == "" {
		t.Error("a route that lets it pass drops what the proxy says")
	}
	c.wantOf(200, c.with(none, "GET", "/passes/", append(below, "Client_Cert: x")...))
	for name := range c.upstream.Last().Header {
		if strings.HasPrefix(strings.ToLower(name), "client") {
			t.Errorf("the upstream gets %s of a client", name)
		}
	}
}

// A proxy that asks at verify says which certificate its client has.
func TestCertificatesOfVerify(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	asks := []string{"X-Forwarded-Method: GET", "X-Forwarded-Host: gw.example", "X-Forwarded-Uri: /cert/"}
	w := c.wantOf(200, c.proxied(tls.Certificate{}, "/verify", append(asks, certtest.Fields(c.named("alice"))...)...))
	if user := w.Header().Get("X-Auth-User"); user != "alice" {
		t.Errorf("the user is %q", user)
	}
	c.wantOf(401, c.proxied(c.named("alice"), "/verify", asks...))
}

// With tls.mode off, only what the proxy says counts.
func TestCertificatesWithoutTLS(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.rig = newRig(t, edit(t, c.yaml, "tls: {", "tls: {mode: off, "))
	c.wantOf(200, c.proxied(tls.Certificate{}, "/cert/", certtest.Fields(c.named("alice"))...))
	c.wantOf(401, c.proxied(c.named("alice"), "/cert/"))
	c.wantOf(403, c.with(c.named("alice"), "GET", "/cert/"))
}

// A stream ends within a second when its certificate does not open its route any more.
func TestStreamsEndWithTheCertificate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*certificateRig, tls.Certificate) error{
		"the account goes": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.yaml, "username: alice, ", "username: alicia, "))
		},
		"the account is off": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.yaml, "username: alice, ", "username: alice, disabled: true, "))
		},
		"it is revoked": func(c *certificateRig, alice tls.Certificate) error {
			c.write("crl.pem", certtest.ListPEM(c.ca.List(time.Hour, alice.Leaf)))
			return c.reload(edit(c.t, c.yaml, "tls: {", "tls: {crl: "+filepath.Join(c.folder, "crl.pem")+", "))
		},
		"its authority goes": func(c *certificateRig, _ tls.Certificate) error {
			c.write("ca.pem", certtest.PEM(certtest.New(c.t, "clients", time.Now())))
			return c.reload(c.yaml)
		},
		"its validity ends": func(c *certificateRig, _ tls.Certificate) error {
			c.clock.Advance(time.Hour + time.Second)
			return nil
		},
		"the route does not accept it": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.yaml, "name: cert, upstream: app, auth: [certificate]",
				"name: cert, upstream: app, auth: [session]"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCertificateRig(t)
				alice := c.ca.Client(certtest.Named("alice"),
					func(x *x509.Certificate) { x.NotAfter = time.Now().Add(time.Hour) })
				stream := c.stream(alice)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := c.load.inFlight.Load(); n != 1 {
					t.Fatalf("%d streams are open:\n%s", n, c.log)
				}
				must.Do(t, end(c, alice))
				began := time.Now()
				if why := <-stream; why != http.ErrAbortHandler || time.Since(began) > within {
					t.Errorf("it ended after %v with %v", time.Since(began), why)
				}
				c.wantOf(401, c.with(alice, "GET", "/cert/"))
			})
		})
	}
}

// stream opens a response that does not end, and returns what the handler panics with.
func (c *certificateRig) stream(issued tls.Certificate) <-chan any {
	c.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		out, in := io.Pipe()
		context.AfterFunc(q.Context(), func() { in.CloseWithError(q.Context().Err()) })
		answer := response(q, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, "")
		answer.Body, answer.ContentLength = out, -1
		return answer, nil
	}
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		c.ServeHTTP(httptest.NewRecorder(), c.with(issued, "GET", "/cert/"))
	}()
	return ended
}

// explain and test know the mechanism.
func TestExplainCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	e := must.Get(NewExplainer(parseConfig(t, t.TempDir(), c.yaml)))(t)
	defer e.Close()
	for _, q := range []struct {
		url    string
		caller *explain.Caller
		want   string
	}{
		{"/cert/", &explain.Caller{User: "alice"}, explain.OutcomeAllow},
		{"https://vpn.example/", &explain.Caller{User: "alice", Mechanism: policy.Certificate}, explain.OutcomeAllow},
		{"/cert/", &explain.Caller{Mechanism: policy.Certificate, Username: "alice", Roles: []string{"x"}}, explain.OutcomeAllow},
		{"/staff/", &explain.Caller{User: "bob", Mechanism: policy.Certificate}, explain.OutcomeForbid},
		{"/session/", &explain.Caller{User: "alice", Mechanism: policy.Certificate}, explain.OutcomeChallenge},
		{"/two/", &explain.Caller{User: "alice", Mechanism: policy.Certificate}, explain.OutcomeChallenge},
		{"/cert/", nil, explain.OutcomeChallenge},
	} {
		x, err := e.Explain(&explain.Request{Method: "GET", URL: q.url, Caller: q.caller})
		if err != nil || x.Outcome != q.want || q.want == explain.OutcomeAllow && x.Mechanism != policy.Certificate {
			t.Errorf("%s as %+v: %+v, %v", q.url, q.caller, x, err)
		}
	}
	_, err := e.Explain(&explain.Request{Method: "GET", URL: "/cert/",
		Caller: &explain.Caller{User: "alice", Mechanism: policy.Certificate, Factors: 2}})
	if err == nil || !strings.Contains(err.Error(), "certificates") {
		t.Errorf("two factors of a certificate: %v", err)
	}
	if _, err := os.Stat(filepath.Join(e.gateway.Config().DataDir, "clients-ca.pem")); err == nil {
		t.Error("the explainer made an authority")
	}
}
