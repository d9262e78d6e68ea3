package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// pebble is an ACME authority (RFC 8555) and its DNS. It checks challenges as any
// authority does.
type pebble struct {
	t          testing.TB
	dir        string
	directory  string // its URL
	roots      string // the file with the CA of its own certificate
	management string // URL
	names      string // URL of the DNS's management
	http       string // the port for HTTP-01
	https      string // the port for TLS-ALPN-01
	log        *world.Output
	cmd        *exec.Cmd
	ended      <-chan struct{} // closed when cmd has ended
}

// gateName is the name for which gateways get a certificate.
const gateName = "gate.test"

// buildPebble builds it once, beside the gateway.
var buildPebble = sync.OnceValue(func() error {
	return world.Build("e2e", "github.com/letsencrypt/pebble/v2/cmd/pebble",
		"github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv")
})

// startPebble starts an authority whose certificates have a lifetime. In its DNS,
// gateName leads to 127.0.0.1.
func startPebble(t testing.TB, life time.Duration) *pebble {
	t.Helper()
	return startPebbleOf(t, map[string]time.Duration{"default": life})
}

// startPebbleOf starts an authority whose certificates have a lifetime by profile.
func startPebbleOf(t testing.TB, lives map[string]time.Duration) *pebble {
	t.Helper()
	profiles := map[string]any{}
	for name, life := range lives {
		profiles[name] = map[string]any{"description": name, "validityPeriod": int(life.Seconds())}
	}
	if err := buildPebble(); err != nil {
		t.Fatal(err)
	}
	server, management := world.FreeAddress(t), world.FreeAddress(t)
	names, dns := world.FreeAddress(t), world.FreeAddress(t)
	p := &pebble{
		t: t, dir: t.TempDir(), log: &world.Output{}, http: world.FreePort(t), https: world.FreePort(t),
		directory: "https://" + server + "/dir", management: "https://" + management, names: "http://" + names,
	}
	p.roots = filepath.Join(p.dir, "roots.pem")
	p.certify()
	config := filepath.Join(p.dir, "config.json")
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": server, "managementListenAddress": management, "keyAlgorithm": "ecdsa",
		"certificate": p.roots, "privateKey": filepath.Join(p.dir, "key.pem"),
		"httpPort": json.Number(p.http), "tlsPort": json.Number(p.https),
		"profiles": profiles,
	}})
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of pebble:\n%s", p.log)
		}
	})
	p.spawn("pebble-challtestsrv", "-dnsserver", dns, "-management", names, "-defaultIPv4", "", "-defaultIPv6", "",
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "")
	p.cmd = p.spawn("pebble", "-config", config, "-dnsserver", dns)
	world.Until(t, "pebble", func() bool {
		_, err := p.root()
		return err == nil
	})
	world.Until(t, "the DNS of pebble", func() bool { return p.tell("add-a", gateName, "127.0.0.1") == nil })
	return p
}

// certify makes the certificate that pebble itself shows.
func (p *pebble) certify() {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	certificate, private := world.SelfSigned(p.t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pebble"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key)
	for path, content := range map[string]string{p.roots: certificate, filepath.Join(p.dir, "key.pem"): private} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// spawn runs a program until the test ends. Pebble checks every challenge, even of
// a name that it has just checked.
func (p *pebble) spawn(program string, args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(world.Program(program), args...)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	p.ended = world.Spawn(p.t, cmd)
	return cmd
}

// signal sends a signal to the authority, such as SIGSTOP.
func (p *pebble) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// root returns the root certificate of the authority in PEM.
func (p *pebble) root() ([]byte, error) {
	pool := x509.NewCertPool()
	own, err := os.ReadFile(p.roots)
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(own)
	client := &http.Client{Timeout: world.Patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
	}}
	response, err := client.Get(p.management + "/roots/0")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// leadsTo sets the address of a name in the DNS.
func (p *pebble) leadsTo(name, address string) {
	p.t.Helper()
	err := p.tell("clear-a", name)
	if err == nil && address != "" {
		err = p.tell("add-a", name, address)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pebble) tell(what, name string, addresses ...string) error {
	body, err := json.Marshal(map[string]any{"host": name + ".", "addresses": addresses})
	if err != nil {
		return err
	}
	response, err := http.Post(p.names+"/"+what, world.TypeJSON, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

var issued = regexp.MustCompile(`Issued certificate serial ([0-9a-f]+) for order`)

// issued returns the serial numbers of the certificates that pebble has issued.
func (p *pebble) issued() []string {
	var all []string
	for _, found := range issued.FindAllStringSubmatch(p.log.String(), -1) {
		all = append(all, strings.TrimLeft(found[1], "0"))
	}
	return all
}

// serial returns the number of a certificate as pebble writes it.
func serial(certificate *x509.Certificate) string { return certificate.SerialNumber.Text(16) }

// acmeGateway is a gateway that gets its certificate from pebble.
type acmeGateway struct {
	*world.Instance
	p         *pebble
	host      string // where it listens
	secure    string // HOST:PORT for https
	cleartext string // HOST:PORT for http; empty: it does not listen
	domains   []string
	directory string // pebble's, or a proxy to it
	email     string // of the account
	more      string // keys of tls
}

// gateway returns a gateway that does not run yet. It gets pebble's challenges if
// it has pebble's ports.
func (p *pebble) gateway(host, httpPort, httpsPort string) *acmeGateway {
	p.t.Helper()
	g := &acmeGateway{
		Instance: world.Prepare(p.t), p: p, host: host, secure: net.JoinHostPort(host, httpsPort),
		domains: []string{gateName}, directory: p.directory, email: "admin@gate.test",
	}
	if httpPort != "" {
		g.cleartext = net.JoinHostPort(host, httpPort)
	}
	g.Base, g.HTTP = "https://"+gateName+":"+httpsPort, "http://"+gateName+":"+httpPort
	g.Listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q}\n", g.secure, g.cleartext, world.Authority(g.Admin))
	return g
}

// configure writes the configuration.
func (g *acmeGateway) configure(config string) {
	g.T.Helper()
	g.Instance.Configure(fmt.Sprintf("tls: {mode: acme, domains: [%s], email: %q, directory: %q, trusted_roots: %q%s}\n",
		strings.Join(g.domains, ", "), g.email, g.directory, g.p.roots, g.more) + config)
}

// trust returns the root that clients trust.
func (p *pebble) trust() *x509.CertPool {
	p.t.Helper()
	root, err := p.root()
	if err != nil {
		p.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(root) {
		p.t.Fatalf("pebble's root is %q", root)
	}
	return pool
}

// shake opens a TLS connection with a full handshake that checks everything.
func (g *acmeGateway) shake(roots *x509.CertPool, name string, protocols ...string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), world.Patience)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, NextProtos: protocols}}
	conn, err := dialer.DialContext(ctx, "tcp", g.secure)
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// serves returns the certificate that the gateway serves for a name, nil if there
// is none that clients trust.
func (g *acmeGateway) serves(roots *x509.CertPool, name string) *x509.Certificate {
	conn, err := g.shake(roots, name)
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// obtains waits until the gateway serves certificates for all its names, and
// returns the first one.
func (g *acmeGateway) obtains(roots *x509.CertPool) *x509.Certificate {
	g.T.Helper()
	var first *x509.Certificate
	for _, name := range g.domains {
		world.Until(g.T, "a certificate for "+name, func() bool {
			certificate := g.serves(roots, name)
			if first == nil {
				first = certificate
			}
			return certificate != nil
		})
	}
	return first
}

// visitor is a client that connects to the gateway's address without DNS and
// follows no redirects. With fresh, each request makes a connection.
func (g *acmeGateway) visitor(config *tls.Config, fresh bool) *http.Client {
	g.T.Helper()
	config = config.Clone()
	config.ServerName = gateName
	transport := &http.Transport{
		ForceAttemptHTTP2: true, DisableKeepAlives: fresh,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, g.cleartext)
		},
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, g.secure)
		},
	}
	g.T.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: world.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reported is what /readyz has on a certificate.
type reported struct {
	Domain  string
	Expires time.Time
	Problem string
}

// reported returns what /readyz has on a name. Certificates do not decide whether the
// gateway is ready.
func (g *acmeGateway) reported(name string) reported {
	g.T.Helper()
	response, err := http.Get(g.Admin + "/readyz")
	if err != nil {
		g.T.Fatal(err)
	}
	defer response.Body.Close()
	var ready struct {
		Status       string
		Certificates []reported
	}
	if err := json.NewDecoder(response.Body).Decode(&ready); err != nil {
		g.T.Fatal(err)
	}
	i := slices.IndexFunc(ready.Certificates, func(c reported) bool { return c.Domain == name })
	if i < 0 {
		g.T.Fatalf("/readyz does not know %s: %+v", name, ready)
	}
	return ready.Certificates[i]
}

// problem returns what is wrong with the certificate of a name.
func (g *acmeGateway) problem(name string) string { return g.reported(name).Problem }

// solved counts the challenges that the gateway has answered, by kind. The kind of
// one that another instance had begun ends in "for another".
func (g *acmeGateway) solved() map[string]int {
	const served = "certificates: served key authentication" // in an answer, or in a certificate
	all := map[string]int{}
	for _, entry := range slices.Concat(g.Log.Records(g.T, served), g.Log.Records(g.T, served+" certificate")) {
		kind, ok := entry["challenge"].(string)
		if !ok {
			continue
		}
		if entry["distributed"] == true {
			kind += " for another"
		}
		all[kind]++
	}
	return all
}
