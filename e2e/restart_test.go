package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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

// certify writes a certificate of key for localhost, and the key.
func (g *instance) certify(key crypto.Signer) {
	g.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	certificate, private := selfSigned(g.t, template, key)
	g.write("key.pem", private)
	g.write("cert.pem", certificate)
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
	g := start(t, secure+app(record(t).url)+"token: {algorithm: RS256}\n")
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
}

// files reads data_dir and checks the modes of everything in it.
func (g *instance) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(g.dir, "data"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want, ok := map[string]fs.FileMode{"data": fs.ModeDir | 0o700, "control": fs.ModeDir | 0o700, "ca.pem": 0o644}[entry.Name()]
		if !ok {
			want = entry.Type()&fs.ModeSocket | 0o600
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, expected %v", path, info.Mode(), want)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		all[entry.Name()] = string(content)
		return err
	})
	if err != nil || all["ca.pem"] == "" || all["authgate.db"] == "" {
		t.Fatalf("ca.pem or authgate.db is missing or empty: %v", err)
	}
	return all
}
