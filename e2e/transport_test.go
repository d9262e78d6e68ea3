package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPlainListener: cleartext HTTP leads to https, and tells whoever sent a
// credential over it.
func TestPlainListener(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, secure+app(up.url))
	for _, test := range []struct {
		name, request string // request line and headers
		want          int
		location      string // behind public_url
	}{
		{"a path", "GET / HTTP/1.1\nHost: localhost", 308, "/"},
		{"a query", "GET /secure-resource?a=%zz&b;c HTTP/1.1\nHost: localhost", 308, "/secure-resource?a=%zz&b;c"},
		{"an empty query", "GET /a? HTTP/1.1\nHost: localhost", 308, "/a?"},
		{"encodings stay", "GET /%61/%C3%A9;x HTTP/1.1\nHost: localhost", 308, "/%61/%C3%A9;x"},
		{"another method", "POST /login HTTP/1.1\nHost: localhost\nContent-Length: 0", 308, "/login"},
		{"the host of an attacker", "GET /a HTTP/1.1\nHost: evil.example", 308, "/a"},
		{"and what he says of it", "GET /a HTTP/1.1\nHost: localhost\nX-Forwarded-Host: evil.example\nX-Forwarded-Proto: https", 308, "/a"},
		{"cookies of the application", "GET /a HTTP/1.1\nHost: localhost\nCookie: a=b; session=x", 308, "/a"},
		{"metrics are elsewhere", "GET /metrics HTTP/1.1\nHost: localhost", 308, "/metrics"},
		{"Basic", "GET /a HTTP/1.1\nHost: localhost\nAuthorization: " + basicService, 403, ""},
		{"a token", "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Bearer x", 403, ""},
		{"any scheme", "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Digest x", 403, ""},
		{"two of them", "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Basic x\nAuthorization: Bearer y", 403, ""},
		{"a session", "GET /a HTTP/1.1\nHost: localhost\nCookie: a=b; session_id=x", 403, ""},
		{"two sessions", "GET /a HTTP/1.1\nHost: localhost\nCookie: session_id=x; session_id=y", 403, ""},
		{"a login with a header", "POST /login HTTP/1.1\nHost: localhost\nContent-Length: 0\nAuthorization: " + basicService, 403, ""},
		{"not canonical", "GET //evil.example HTTP/1.1\nHost: localhost", 400, ""},
		{"dot segments", "GET /a/../b HTTP/1.1\nHost: localhost", 400, ""},
		{"absolute-form", "GET http://evil.example/ HTTP/1.1\nHost: evil.example", 400, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := g.plain(t, "127.0.0.1", test.request+"\n\n")
			want := ""
			if test.location != "" {
				want = g.public + test.location
			}
			if got := a.header.Get("Location"); a.status != test.want || got != want {
				t.Errorf("%d to %q, expected %d to %q", a.status, got, test.want, want)
			}
			if test.want == http.StatusForbidden {
				wantProblem(t, a, test.want)
				if !strings.Contains(a.body, "exposed") || !strings.Contains(a.body, "https") {
					t.Errorf("the answer does not tell the danger: %s", a.body)
				}
			}
			if got := a.header.Values("Set-Cookie"); len(got) > 0 {
				t.Errorf("it sets %q in cleartext", got)
			}
		})
	}
	up.none(t)
}

// TestTLSOff: a trusted proxy that says https is let in, and nobody else.
func TestTLSOff(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := startBehindProxy(t, "[127.0.0.1]", secure+app(up.url))
	const https = "X-Forwarded-Proto: https\n"
	for _, test := range []struct {
		name, from, headers string
		want                int
	}{
		{"the proxy", "127.0.0.1", https, 200},
		{"in capitals", "127.0.0.1", "X-Forwarded-Proto: HTTPS\n", 200},
		{"by Forwarded", "127.0.0.1", "Forwarded: for=192.0.2.1;proto=https\n", 200},
		{"it says nothing", "127.0.0.1", "", 403},
		{"it says http", "127.0.0.1", "X-Forwarded-Proto: http\n", 403},
		{"its word is the last", "127.0.0.1", "X-Forwarded-Proto: https, http\n", 403},
		{"in two lines", "127.0.0.1", https + "X-Forwarded-Proto: http\n", 403},
		{"X-Forwarded-Proto goes before Forwarded", "127.0.0.1", "Forwarded: proto=https\nX-Forwarded-Proto: http\n", 403},
		{"another spelling", "127.0.0.1", "X_Forwarded_Proto: https\n", 403},
		{"somebody else", "127.0.0.2", https, 403},
		{"somebody else who claims to be it", "127.0.0.2", https + "X-Forwarded-For: 127.0.0.1\n", 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := g.plain(t, test.from, fmt.Sprintf("POST /login HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: %d\n%s\n%s",
				len(right), test.headers, right))
			if a.status != test.want {
				t.Fatalf("login: %d %s", a.status, a.body)
			}
			if test.want == http.StatusForbidden {
				wantProblem(t, a, test.want)
				return
			}
			cookie, attributes, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
			if !strings.Contains(attributes, "Secure") {
				t.Errorf("the cookie may travel in cleartext: %s", attributes)
			}
			request := "GET /secure-resource HTTP/1.1\nHost: localhost\nCookie: " + cookie + "\n"
			if a := g.plain(t, test.from, request+test.headers+"\n"); a.status != http.StatusOK {
				t.Errorf("with the session: %d", a.status)
			}
			if a := g.plain(t, test.from, request+"\n"); a.status != http.StatusForbidden {
				t.Errorf("with the session, and without https: %d", a.status)
			}
			if got := len(up.all()); got != 1 {
				t.Errorf("%d requests reached the upstream", got)
			}
		})
	}
	up.none(t)
}

// TestTLSVersions: 1.2 with forward secrecy, and 1.3.
func TestTLSVersions(t *testing.T) {
	t.Parallel()
	g := start(t, secure+app(record(t).url))
	for _, test := range []struct {
		name     string
		min, max uint16
		suites   []uint16
		ok       bool
	}{
		{"1.0", tls.VersionTLS10, tls.VersionTLS10, nil, false},
		{"1.1", tls.VersionTLS10, tls.VersionTLS11, nil, false},
		{"1.2", tls.VersionTLS12, tls.VersionTLS12, nil, true},
		{"1.3", tls.VersionTLS13, tls.VersionTLS13, nil, true},
		{"1.2 with CBC", tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA}, false},
		{"1.2 without forward secrecy", tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}, false},
	} {
		config := g.tls()
		config.MinVersion, config.MaxVersion, config.CipherSuites = test.min, test.max, test.suites
		conn, err := tls.Dial("tcp", authority(g.base), config)
		if (err == nil) != test.ok {
			t.Errorf("TLS %s: %v", test.name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// certificate writes a new certificate for localhost and its key, and returns
// its serial number.
func (g *instance) certificate() *big.Int {
	g.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.certify(key)
}

// certify writes a new certificate of key for localhost, and the key, and
// returns the serial number.
func (g *instance) certify(key crypto.Signer) *big.Int {
	g.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		g.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	certificate, private := selfSigned(g.t, template, key)
	g.write("key.pem", private)
	g.write("cert.pem", certificate)
	return serial
}

// selfSigned returns a certificate and its key, in PEM, for an hour to come.
func selfSigned(t testing.TB, template *x509.Certificate, key crypto.Signer) (certificate, private string) {
	t.Helper()
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// TestCertificateFiles: tls.mode files, and a new certificate while it runs.
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	g.ca = "cert.pem"
	first := g.certificate()
	g.configure("tls: {mode: files, certificate: cert.pem, key: key.pem}\n" + secure + app(record(t).url))
	g.run()
	serial := func() *big.Int {
		conn, err := tls.Dial("tcp", authority(g.base), g.tls())
		if err != nil {
			return nil // cert.pem and the gateway differ for a moment
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber
	}
	if got := serial(); got == nil || got.Cmp(first) != 0 {
		t.Fatalf("the certificate is number %v, expected %v", got, first)
	}
	c := g.stranger()
	s := g.signIn(c, "alice")
	second := g.certificate()
	g.signal(syscall.SIGHUP)
	until(t, "the new certificate", func() bool {
		got := serial()
		return got != nil && got.Cmp(second) == 0
	})
	if got := g.status(c, "GET", "/secure-resource", "Cookie", s.session); got != http.StatusOK {
		t.Errorf("a connection from before: %d", got)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "data", "ca.pem")); !os.IsNotExist(err) {
		t.Errorf("there is a CA that nobody asked for: %v", err)
	}
}

// TestRestart: keys and logins are the same after a restart, and files that
// hold secrets are for nobody else.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"HS256", "RS256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			g := start(t, secure+app(record(t).url)+"token: {algorithm: "+algorithm+"}\n")
			c := g.stranger()
			s := g.signIn(c, "alice")
			before := g.files(t)
			keys := g.do(c, "GET", "/.well-known/jwks.json", "").body
			g.signal(syscall.SIGTERM)
			<-g.done
			if code := g.cmd.ProcessState.ExitCode(); code != 0 {
				t.Fatalf("exit status %d\n%s", code, g.log)
			}
			g.run()
			c = g.stranger()
			for header, credential := range map[string]string{"Cookie": s.session, "Authorization": s.access} {
				if got := g.status(c, "GET", "/secure-resource", header, credential); got != http.StatusOK {
					t.Errorf("%s from before: %d", header, got)
				}
			}
			if _, got, err := g.tryRefresh(c, s.refresh); err != nil || got != http.StatusOK {
				t.Errorf("refresh token from before: %d, %v", got, err)
			}
			if got := g.do(c, "GET", "/.well-known/jwks.json", "").body; got != keys {
				t.Errorf("the public keys are %s, and were %s", got, keys)
			}
			after := g.files(t)
			for name, content := range before {
				if strings.HasSuffix(name, ".pem") && after[name] != content {
					t.Errorf("%s is another one now", name)
				}
			}
		})
	}
}

// files reads data_dir and checks the modes of everything in it.
func (g *instance) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	data := filepath.Join(g.dir, "data")
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case entry.IsDir():
			want = fs.ModeDir | 0o700
		case entry.Name() == "ca.pem":
			want = 0o644
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, expected %v", path, info.Mode(), want)
		}
		if entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		all[entry.Name()] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.pem", "authgate.db"} {
		if all[name] == "" {
			t.Errorf("%s is missing or empty", name)
		}
	}
	return all
}

// TestDrain: SIGTERM lets requests under way finish, takes no new ones, and
// ends with status 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}, 2), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-finish:
			w.WriteHeader(http.StatusTeapot)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	g := start(t, targets+app(slow.URL))
	clients := []*http.Client{g.stranger(), g.stranger11()}
	statuses := make(chan int, len(clients))
	for _, c := range clients {
		go func() {
			a, _ := g.try(c, "GET", "/", "") // the status tells
			statuses <- a.status
		}()
		<-began
	}
	late := g.stranger()
	g.signal(syscall.SIGTERM)
	until(t, "readiness to end", func() bool {
		response, err := http.Get(g.adm + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	until(t, "no new connections", func() bool {
		_, err := g.try(late, "GET", "/.well-known/jwks.json", "")
		return err != nil
	})
	select {
	case <-g.done:
		t.Error("the process has ended before the requests")
	default:
	}
	close(finish)
	for range clients {
		if got := <-statuses; got != http.StatusTeapot {
			t.Errorf("a request that was under way: %d", got)
		}
	}
	select {
	case <-g.done:
	case <-time.After(patience):
		t.Fatal("the process goes on")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d\n%s", code, g.log)
	}
}
