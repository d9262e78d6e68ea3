package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/certtest"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
)

// certified is a gateway that accepts certificates of clients at vpn.localhost, and not at
// wiki.localhost.
type certified struct {
	*http3Gateway
	ca    *certtest.CA
	up    *world.Recorder
	files string
}

func startCertified(t *testing.T) *certified {
	t.Helper()
	c := &certified{ca: certtest.New(t, "clients", time.Now()), up: world.Record(t), files: t.TempDir()}
	c.write("ca.pem", certtest.PEM(c.ca))
	c.write("crl.pem", certtest.ListPEM(c.ca.List(time.Hour)))
	c.write("accounts.yaml", world.Person("alice@example.org", world.WonderlandHash, ""))
	config := `
tls: {client_ca: DIR/ca.pem, crl: DIR/crl.pem}
certificates: {username: san_email}
accounts: {file: DIR/accounts.yaml}
routes:
  - {match: vpn.localhost/, upstream: app, auth: [certificate]}
  - {match: wiki.localhost/, upstream: app, auth: [session]}
` + world.App(c.up.URL)
	c.http3Gateway = startHTTP3(t, strings.ReplaceAll(config, "DIR", c.files))
	return c
}

// write replaces a file that the configuration names.
func (c *certified) write(name, content string) {
	path := filepath.Join(c.files, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// config is that of a client which presents a certificate, if the gateway asks for one, whatever
// authorities it names. Nil presents none.
func (c *certified) config(host, protocol string, issued *tls.Certificate) *tls.Config {
	config := c.TLS()
	config.ServerName, config.NextProtos = host, []string{protocol}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if issued == nil {
			return &tls.Certificate{}, nil
		}
		return issued, nil
	}
	return config
}

// asking sends GET / for a host on one connection, and returns the status.
type asking func(host string) int

// dial opens a connection.
func (c *certified) dial(t *testing.T, config *tls.Config) (ask asking, state tls.ConnectionState) {
	t.Helper()
	if config.NextProtos[0] == http3.NextProtoH3 {
		conn := world.Must(quic.DialAddr(t.Context(), c.address, config, nil))(t)
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") }) // the gateway may have closed it
		return overConn(t, (&http3.Transport{}).NewClientConn(conn)), conn.ConnectionState().TLS
	}
	conn := world.Must(tls.Dial("tcp", world.Authority(c.Base), config))(t)
	t.Cleanup(func() { conn.Close() })
	if config.NextProtos[0] == http2.NextProtoTLS {
		transport := &http.Transport{
			ForceAttemptHTTP2: true,
			DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		}
		over := world.Must(transport.NewClientConn(t.Context(), "https", world.Authority(c.Base)))(t)
		return overConn(t, over), conn.ConnectionState()
	}
	return func(host string) int {
		return world.Exchange(t, conn, "GET / HTTP/1.1\nHost: "+host+"\n\n").Status
	}, conn.ConnectionState()
}

func overConn(t *testing.T, conn http.RoundTripper) asking {
	return func(host string) int {
		t.Helper()
		answer := world.Must(conn.RoundTrip(world.Must(http.NewRequest("GET", "https://"+host+"/", nil))(t)))(t)
		defer answer.Body.Close()
		world.Must(io.ReadAll(answer.Body))(t)
		return answer.StatusCode
	}
}

// want opens a connection for a host, and checks the status there.
func (c *certified) want(t *testing.T, status int, host, protocol string, issued *tls.Certificate) asking {
	t.Helper()
	ask, _ := c.dial(t, c.config(host, protocol, issued))
	if got := ask(host); got != status {
		t.Errorf("%s over %s: %d, want %d", host, protocol, got, status)
	}
	return ask
}

// oneSession is a cache that offers its session to every host.
type oneSession struct{ tls.ClientSessionCache }

func (s oneSession) Get(string) (*tls.ClientSessionState, bool) { return s.ClientSessionCache.Get("") }
func (s oneSession) Put(_ string, session *tls.ClientSessionState) {
	s.ClientSessionCache.Put("", session)
}

// wantResumed opens a connection for a host, and offers its session to another host. It checks the
// status of a request for vpn.localhost there, whether or not the session is resumed.
func (c *certified) wantResumed(t *testing.T, first, second string, issued *tls.Certificate, status int) {
	t.Helper()
	config := c.config(first, "http/1.1", issued)
	config.InsecureSkipVerify = true // else the client itself keeps to the host
	config.ClientSessionCache = oneSession{tls.NewLRUClientSessionCache(1)}
	ask, _ := c.dial(t, config)
	ask(first) // the ticket comes with the answer
	config.ServerName = second
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{}, nil
	}
	ask, state := c.dial(t, config)
	if got := ask("vpn.localhost"); got != status {
		t.Errorf("a session of %s at %s (resumed: %t): %d, want %d", first, second, state.DidResume, got, status)
	}
}

// A certificate opens a route over each version of HTTP. The handshake asks for it where a route
// accepts one, and takes any or none. A connection is for its own host. What the gateway learns
// about a certificate ends connections that are open, and resumed ones.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	c := startCertified(t)
	alice := c.ca.Client(certtest.Email("alice@example.org"))
	gone := c.ca.Client(certtest.Email("alice@example.org"))
	foreign := certtest.New(t, "clients", time.Now()).Client(certtest.Email("alice@example.org"))
	const vpn, wiki = "vpn.localhost", "wiki.localhost"
	protocols := []string{"http/1.1", http2.NextProtoTLS, http3.NextProtoH3}
	var open []asking
	for _, protocol := range protocols {
		open = append(open, c.want(t, 200, vpn, protocol, &alice))
		m := c.up.One(t)
		if m.Value(t, "X-Auth-User") != "alice@example.org" || m.Value(t, "X-Auth-Mechanism") != "certificate" {
			t.Errorf("over %s the upstream gets %q", protocol, m.Head)
		}
		if got := open[len(open)-1](wiki); got != 421 {
			t.Errorf("over %s the connection of another host: %d", protocol, got)
		}
		c.want(t, 401, vpn, protocol, nil)
		c.want(t, 401, vpn, protocol, &foreign)
		if got := c.want(t, 401, wiki, protocol, &alice)(vpn); got != 421 {
			t.Errorf("over %s a connection without a certificate: %d", protocol, got)
		}
		c.up.None(t)
	}
	c.wantResumed(t, vpn, wiki, &alice, 421) // with its certificate, at a host that has not asked for it
	c.wantResumed(t, wiki, vpn, &alice, 401) // without one, at a host that would have asked
	c.up.All()
	revoked := c.want(t, 200, vpn, http2.NextProtoTLS, &gone)
	c.write("crl.pem", certtest.ListPEM(c.ca.List(time.Hour, gone.Leaf)))
	world.Until(t, "the list", func() bool { return revoked(vpn) == 401 })
	c.want(t, 401, vpn, http2.NextProtoTLS, &gone)

	config := c.config(vpn, "http/1.1", &alice)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	ask, _ := c.dial(t, config)
	if got := ask(vpn); got != 200 { // the ticket comes with the answer
		t.Fatalf("%d", got)
	}
	c.write("accounts.yaml", world.Person("alice@example.org", world.WonderlandHash, ", disabled: true"))
	for _, ask := range open {
		world.Until(t, "the account", func() bool { return ask(vpn) == 401 })
	}
	c.up.All()
	if ask, state := c.dial(t, config); !state.DidResume || ask(vpn) != 401 {
		t.Errorf("a resumed connection (%t) is let in", state.DidResume)
	}
	c.up.None(t)
}

// A key may name the gateway's own authority at the first start, before which it is missing: here the gateway is its
// own provider. Another start trusts the same.
func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	g, secret := world.Prepare(t), strings.Repeat("0123456789abcdef", 2)
	g.Configure(fmt.Sprintf(`
accounts: {users: [{username: alice, password_hash: "%[1]s"}]}
oauth: {enabled: true, clients: [{id: self, secret: "%[2]s", redirect_uris: ["%[3]s/callback"]}]}
providers: [{name: home, issuer: "%[3]s", trusted_roots: data/ca.pem, client_id: self, client_secret: "%[2]s"}]
routes: [{match: /app/, upstream: app, auth: [session, oidc]}]
`, world.WonderlandHash, secret, g.Base) + world.App("http://127.0.0.1:1"))
	for range 2 {
		g.Run()
		a := g.Do(g.Client(), "GET", "/login?provider=home", "")
		if to := a.Header.Get("Location"); !strings.HasPrefix(to, g.Base+"/oauth/authorize?") {
			t.Errorf("the sign-in answers %d, to %q: %s", a.Status, to, a.Body)
		}
		g.Kill()
	}
}
