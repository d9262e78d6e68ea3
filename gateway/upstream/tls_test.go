package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/forwarding"
)

// certified is a certificate with its key, as files have them.
type certified struct{ certificate, key []byte }

func (c certified) pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(c.certificate, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func newCertified(t *testing.T, name string) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certified{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

// An https target must have a certificate of the configured authority for the
// configured name, and gets the certificate of the gateway.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, client, other := newCertified(t, "app.internal"), newCertified(t, "gateway"), newCertified(t, "app.internal")
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(client.certificate)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Proto, " ", r.TLS.ServerName, " ", r.TLS.PeerCertificates[0].Subject.CommonName)
		}))
		app.EnableHTTP2 = protocol == "HTTP/2.0"
		app.TLS = &tls.Config{
			Certificates: []tls.Certificate{server.pair(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		}
		app.Config.ErrorLog = log.New(io.Discard, "", 0)
		app.StartTLS()
		t.Cleanup(app.Close)
		good := forwarding.UpstreamTLS{
			CAContent: server.certificate, ServerName: "app.internal",
			CertificateContent: client.certificate, KeyContent: config.Secret(client.key),
		}
		for name, c := range map[string]struct {
			edit func(*forwarding.UpstreamTLS)
			want string
		}{
			"good":                      {func(*forwarding.UpstreamTLS) {}, protocol + " app.internal gateway"},
			"another authority":         {func(c *forwarding.UpstreamTLS) { c.CAContent = other.certificate }, ""},
			"the system's authorities":  {func(c *forwarding.UpstreamTLS) { c.CAContent = nil }, ""},
			"an authority without any":  {func(c *forwarding.UpstreamTLS) { c.CAContent = []byte("x") }, ""},
			"another name":              {func(c *forwarding.UpstreamTLS) { c.ServerName = "other.internal" }, ""},
			"the name of the address":   {func(c *forwarding.UpstreamTLS) { c.ServerName = "" }, ""},
			"no certificate of its own": {func(c *forwarding.UpstreamTLS) { c.CertificateContent = nil }, ""},
		} {
			used := good
			c.edit(&used)
			f := newFixtureOf(t, func(cfg *forwarding.Upstream) { cfg.TLS = used }, app.URL)
			for range 2 {
				if got, err := f.send(t.Context(), "GET", nil); got != c.want || (err == nil) != (c.want != "") {
					t.Errorf("%s, %s: %q, %v; want %q", protocol, name, got, err, c.want)
				}
			}
		}
	}
}

// With a fingerprint, exactly that certificate is trusted, with any names and dates.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	server, other := newCertified(t, "device"), newCertified(t, "device")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Proto)
		}))
		app.EnableHTTP2 = protocol == "HTTP/2.0"
		app.TLS = &tls.Config{Certificates: []tls.Certificate{server.pair(t)}}
		app.Config.ErrorLog = log.New(io.Discard, "", 0)
		app.StartTLS()
		t.Cleanup(app.Close)
		for _, c := range []struct {
			of   certified
			want string
		}{{server, protocol}, {other, ""}} {
			sum := sha256.Sum256(c.of.pair(t).Certificate[0])
			f := newFixtureOf(t, func(cfg *forwarding.Upstream) { cfg.TLS.SHA256 = sum[:] }, app.URL)
			for range 2 {
				if got, err := f.send(t.Context(), "GET", nil); got != c.want || (err == nil) != (c.want != "") {
					t.Errorf("%s: %q, %v; want %q", protocol, got, err, c.want)
				}
			}
		}
	}
}

// The zone of an address is for this machine. Neither the upstream nor its certificate names it.
func TestZone(t *testing.T) {
	t.Parallel()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(interfaces, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 })
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host)
	}))
	app.Listener.Close()
	app.Listener, app.EnableHTTP2 = listener, true
	app.StartTLS()
	t.Cleanup(app.Close)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	f := newFixtureOf(t, func(c *forwarding.Upstream) {
		c.Host = forwarding.HostTarget
		c.TLS.CAContent = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: app.Certificate().Raw})
	}, "https://[::1%25"+interfaces[i].Name+"]:"+port)
	if got, err := f.send(t.Context(), "GET", nil); got != "[::1]:"+port {
		t.Errorf("the upstream gets the host %q, %v", got, err)
	}
}
