package upstream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// A response that goes until the end of the connection is whole if TLS ends too. Otherwise it may be cut off, and is an
// error, unless the upstream is known to end so. One with an end of its own is whole in any case.
func TestEndOfTLS(t *testing.T) {
	t.Parallel()
	server := newCertified(t, "app.internal")
	for says, marked := range map[string]bool{
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok":                                                 false,
		"HTTP/1.1 200 OK\r\n\r\nok":                                                                      false,
		"HTTP/1.0 200 OK\r\n\r\nok":                                                                      false,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                 true,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok":                            true,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n": true,
	} {
		for _, closes := range []bool{true, false} { // with a close_notify
			for _, ignored := range []bool{true, false} {
				address := answerTLS(t, server, says, closes)
				f := newFixtureOf(t, func(c *forwarding.Upstream) {
					trusting(server)(c)
					c.TLS.IgnoreUnexpectedEOF = ignored
				}, address)
				got, err := f.send(t.Context(), "GET", nil)
				if want := marked || closes || ignored; got != "ok" || (err == nil) != want {
					t.Errorf("%q, close_notify %t, ignored %t: %q, %v", says, closes, ignored, got, err)
				}
				if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%q: the error is %v", says, err)
				}
			}
		}
	}
}

// answerTLS starts an https target that answers each connection with those bytes, and ends it with a close_notify or
// without. It returns its URL.
func answerTLS(t *testing.T, server certified, says string, closes bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer raw.Close()
				c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{server.pair(t)}})
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				_, _ = io.WriteString(c, says) // an error shows at the other end
				if closes {
					c.Close()
				}
			}()
		}
	}()
	return "https://" + listener.Addr().String()
}

// connection_age bounds for how long a connection takes further requests, by every protocol.
func TestConnectionAge(t *testing.T) {
	t.Parallel()
	server := newCertified(t, "app.internal")
	for _, scheme := range []string{"http", "https", "https+h2", "h2c"} {
		for age, want := range map[time.Duration]int{0: 1, time.Hour: 1, 1: 3} {
			app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.RemoteAddr)
			}))
			app.Config.Protocols = new(http.Protocols)
			app.Config.Protocols.SetHTTP1(scheme != "h2c")
			app.Config.Protocols.SetUnencryptedHTTP2(scheme == "h2c")
			app.EnableHTTP2 = scheme == "https+h2"
			app.Config.Protocols.SetHTTP2(app.EnableHTTP2)
			app.TLS = &tls.Config{Certificates: []tls.Certificate{server.pair(t)}}
			if strings.HasPrefix(scheme, "https") {
				app.StartTLS()
			} else {
				app.Start()
			}
			t.Cleanup(app.Close)
			f := newFixtureOf(t, func(c *forwarding.Upstream) {
				trusting(server)(c)
				c.ConnectionAge = age
			}, strings.Replace(app.URL, "http://", strings.TrimSuffix(scheme, "+h2")+"://", 1))
			connections := map[string]bool{}
			for range 3 {
				from, err := f.send(t.Context(), "GET", nil)
				if err != nil {
					t.Errorf("%s: %v", scheme, err)
				}
				connections[from] = true
			}
			if n := len(connections); n != want {
				t.Errorf("%s: %d connections for three requests with the age %v, want %d", scheme, n, age, want)
			}
		}
	}
}
