package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPlainListener: plain HTTP redirects to https, and refuses a request with a
// credential. The tests of package gateway have the rules.
func TestPlainListener(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, secure+app(up.url))
	for _, test := range []struct {
		name, request string // request line and headers
		want          int
		location      string // behind public_url
	}{
		{"target", "GET /%61/%C3%A9;x?a=%zz&b;c HTTP/1.1\nHost: localhost", 308, "/%61/%C3%A9;x?a=%zz&b;c"},
		{"host and headers of an attacker", "GET /a HTTP/1.1\nHost: evil.example\nX-Forwarded-Host: evil.example\nX-Forwarded-Proto: https", 308, "/a"},
		{"metrics are elsewhere", "GET /metrics HTTP/1.1\nHost: localhost", 308, "/metrics"},
		{"two credentials", "GET /a HTTP/1.1\nHost: localhost\nAuthorization: Basic x\nAuthorization: Bearer y", 403, ""},
		{"a session", "GET /a HTTP/1.1\nHost: localhost\nCookie: a=b; session_id=x", 403, ""},
		{"a login", "POST /login HTTP/1.1\nHost: localhost\nContent-Length: 0\nAuthorization: " + basicService, 403, ""},
		{"not canonical", "GET //evil.example HTTP/1.1\nHost: localhost", 400, ""},
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

// TestTLSOff: the gateway serves only a trusted proxy that says https. The tests
// of packages peer and gateway have the rules.
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
		{"the proxy, by Forwarded", "127.0.0.1", "Forwarded: for=192.0.2.1;proto=https\n", 200},
		{"no scheme", "127.0.0.1", "", 403},
		{"http in a second line", "127.0.0.1", https + "X-Forwarded-Proto: http\n", 403},
		{"another spelling", "127.0.0.1", "X_Forwarded_Proto: https\n", 403},
		{"not the proxy", "127.0.0.2", https + "X-Forwarded-For: 127.0.0.1\n", 403},
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
				t.Errorf("the cookie is not Secure: %s", attributes)
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

// certify writes a new certificate of key for localhost, and the key. It returns
// the serial number.
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

// selfSigned returns a certificate that is valid for an hour, and its key, in
// PEM.
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

// TestRestart: keys and logins outlive a restart, and only the owner can read
// files with secrets.
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
					t.Errorf("%s has changed", name)
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
