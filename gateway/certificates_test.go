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
	ownrig "authgate/internal/test/rig"
	"authgate/policy"
)

// certificateRig is a rig that accepts certificates of an authority.
type certificateRig struct {
	*rig
	*ownrig.Certificates
}

func newCertificateRig(t *testing.T) *certificateRig {
	t.Helper()
	c := ownrig.NewCertificates(t)
	return &certificateRig{newRig(t, c.YAML), c}
}

// A wrong certificate is 401, and ends the connection that it belongs to. A page load gets a page
// that leads to the sign-in, if a session could open the route.
func TestWrongCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	other := certtest.New(t, "clients", time.Now())
	for name, wrong := range map[string]tls.Certificate{
		"another CA": other.Client(certtest.Named("alice")), "a stranger": c.Named("mallory"),
		"two names": c.Named("alice", "bob"),
		"expired": c.CA.Client(certtest.Named("alice"),
			func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) }),
	} {
		for _, path := range []string{"/cert/", "/both/"} {
			w := c.wantOf(401, c.With(wrong, "GET", path, browser))
			link := strings.Contains(w.Body.String(), `href="/signin`)
			if link != (path == "/both/") || w.Header().Get("Connection") != "close" {
				t.Errorf("%s, %s: a link: %t, %v", name, path, link, w.Header())
			}
		}
		c.wantOf(200, c.With(wrong, "GET", "/public/"))
		c.wantOf(200, c.With(wrong, "GET", "/session/", c.login(aliceIn).cookie))
	}
	// A client without a certificate, and a proxy, keep theirs.
	for _, q := range []*http.Request{
		c.With(tls.Certificate{}, "GET", "/cert/"), c.With(tls.Certificate{}, "GET", "/both/"),
		c.Proxied(tls.Certificate{}, "/cert/", certtest.Fields(c.Named("mallory"))...),
	} {
		w := c.wantOf(401, q)
		tells := w.Header().Get("Authgate-Sign-In") != ""
		if w.Header().Get("Connection") != "" || tells != (q.RequestURI == "/both/") {
			t.Errorf("%s: %v", q.RequestURI, w.Header())
		}
	}
	c.wantOf(401, c.With(other.Client(certtest.Named("its-own-words")), "GET", "/cert/"))
	if strings.Contains(c.log.String(), "its-own-words") {
		t.Errorf("the log quotes a certificate of an authority that is not known:\n%s", c.log)
	}
}

// Browsers send a certificate by themselves, so other sites must not use it.
func TestCertificateCrossSite(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice := c.Named("alice")
	c.wantOf(403, c.With(alice, "POST", "/cert/", "Origin: https://evil.example"))
	c.wantOf(403, c.With(alice, "POST", "/cert/", "Sec-Fetch-Site: cross-site"))
	c.wantOf(200, c.With(alice, "POST", "/cert/", "Origin: https://gw.example"))
	c.wantOf(200, c.With(alice, "POST", "/cert/"))
}

// A certificate is one factor without a time. A browser is led to a sign-in that proves more.
func TestCertificateStepUp(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.wantOf(401, c.With(c.Named("alice"), "GET", "/two/"))
	w := c.wantOf(302, c.With(c.Named("alice"), "GET", "/two/", browser))
	if to := w.Header().Get("Location"); !strings.HasPrefix(to, "/signin?") || !strings.Contains(to, "factors=2") {
		t.Errorf("it leads to %q", to)
	}
}

// A connection belongs to the host that it was opened for, if a route of either host accepts
// certificates.
func TestCertificateHosts(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.YAML = edit(t, c.YAML, "match: /cert/", "match: gw.example/cert/")
	for _, path := range []string{"/both/", "/staff/", "/two/", "/only/"} {
		c.YAML = edit(t, c.YAML, "match: "+path, "match: vpn.example"+path)
	}
	c.mustReload(c.YAML)
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
		r := c.With(c.Named("alice"), "GET", q.path)
		r.TLS.ServerName, r.Host = q.opened, q.host
		c.wantOf(q.status, r)
	}
	r := c.Proxied(tls.Certificate{}, "/", certtest.Fields(c.Named("alice"))...)
	r.TLS.ServerName, r.Host = "wiki.example", "vpn.example"
	c.wantOf(200, r)
	for host, want := range map[string]bool{"vpn.example": true, "": true, "gw.example": true, "wiki.example": false,
		"mail.example": false, "..": false} {
		if got := c.ClientAuthorities(host) != nil; got != want {
			t.Errorf("a client of %q is asked for a certificate: %t", host, got)
		}
	}
}

// A proxy that asks at verify says which certificate its client has.
func TestCertificatesOfVerify(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	asks := []string{"X-Forwarded-Method: GET", "X-Forwarded-Host: gw.example", "X-Forwarded-Uri: /cert/"}
	w := c.wantOf(200, c.Proxied(tls.Certificate{}, "/verify", append(asks, certtest.Fields(c.Named("alice"))...)...))
	if user := w.Header().Get("X-Auth-User"); user != "alice" {
		t.Errorf("the user is %q", user)
	}
	c.wantOf(401, c.Proxied(c.Named("alice"), "/verify", asks...))
}

// With tls.mode off, only what the proxy says counts.
func TestCertificatesWithoutTLS(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	c.rig = newRig(t, edit(t, c.YAML, "tls: {", "tls: {mode: off, "))
	c.wantOf(200, c.Proxied(tls.Certificate{}, "/cert/", certtest.Fields(c.Named("alice"))...))
	c.wantOf(401, c.Proxied(c.Named("alice"), "/cert/"))
	c.wantOf(403, c.With(c.Named("alice"), "GET", "/cert/"))
}

// A stream ends within a second when its certificate does not open its route any more.
func TestStreamsEndWithTheCertificate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*certificateRig, tls.Certificate) error{
		"the account goes": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.YAML, "username: alice, ", "username: alicia, "))
		},
		"the account is off": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.YAML, "username: alice, ", "username: alice, disabled: true, "))
		},
		"it is revoked": func(c *certificateRig, alice tls.Certificate) error {
			c.Write("crl.pem", certtest.ListPEM(c.CA.List(time.Hour, alice.Leaf)))
			return c.reload(edit(c.t, c.YAML, "tls: {", "tls: {crl: "+filepath.Join(c.Folder, "crl.pem")+", "))
		},
		"its authority goes": func(c *certificateRig, _ tls.Certificate) error {
			c.Write("ca.pem", certtest.PEM(certtest.New(c.t, "clients", time.Now())))
			return c.reload(c.YAML)
		},
		"its validity ends": func(c *certificateRig, _ tls.Certificate) error {
			c.clock.Advance(time.Hour + time.Second)
			return nil
		},
		"the route does not accept it": func(c *certificateRig, _ tls.Certificate) error {
			return c.reload(edit(c.t, c.YAML, "name: cert, upstream: app, auth: [certificate]",
				"name: cert, upstream: app, auth: [session]"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCertificateRig(t)
				alice := c.CA.Client(certtest.Named("alice"),
					func(x *x509.Certificate) { x.NotAfter = time.Now().Add(time.Hour) })
				stream := c.stream(alice)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := c.inFlight.count.Load(); n != 1 {
					t.Fatalf("%d streams are open:\n%s", n, c.log)
				}
				must.Do(t, end(c, alice))
				began := time.Now()
				if why := <-stream; why != http.ErrAbortHandler || time.Since(began) > within {
					t.Errorf("it ended after %v with %v", time.Since(began), why)
				}
				c.wantOf(401, c.With(alice, "GET", "/cert/"))
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
		c.ServeHTTP(httptest.NewRecorder(), c.With(issued, "GET", "/cert/"))
	}()
	return ended
}

// explain and test know the mechanism.
func TestExplainCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	e := must.Get(NewExplainer(parseConfig(t, t.TempDir(), c.YAML)))(t)
	defer e.Close()
	for _, q := range []struct {
		url    string
		caller *explain.Caller
		want   string
	}{
		{"/cert/", &explain.Caller{User: "alice"}, explain.OutcomeAllow},
		{"https://vpn.example/", &explain.Caller{User: "alice", Mechanism: policy.Certificate}, explain.OutcomeAllow},
		{"/cert/", &explain.Caller{Mechanism: policy.Certificate, Username: "alice", Roles: []string{"x"}},
			explain.OutcomeAllow},
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
