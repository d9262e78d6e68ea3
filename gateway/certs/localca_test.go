package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/config"
)

var caDomains = []string{"gw.example", "*.gw.example", "127.0.0.1", "::1"}

func openCA(t *testing.T, dir string, now func() time.Time) *localCA {
	t.Helper()
	ca, err := openLocalCA(dir, caDomains, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func leafOf(t *testing.T, certs Source) *x509.Certificate {
	t.Helper()
	pair, err := certs.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// A client that trusts ca.pem trusts the gateway after a restart too.
func TestLocalCASurvives(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), clocktest.At(time.Now())
	first := openCA(t, dir, c.Now)
	pem, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("ca.pem holds no certificate")
	}
	for i, ca := range []*localCA{first, openCA(t, dir, c.Now), openCA(t, dir, c.Now)} {
		leaf := leafOf(t, ca)
		for _, name := range []string{"gw.example", "x.gw.example", "127.0.0.1", "::1"} {
			options := x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: c.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
			if _, err := leaf.Verify(options); err != nil {
				t.Errorf("opening number %d: %s: %v", i, name, err)
			}
		}
		for _, other := range []string{"other.example", "a.b.gw.example", "127.0.0.2"} {
			if leaf.VerifyHostname(other) == nil {
				t.Errorf("the certificate is good for %s", other)
			}
		}
		if !slices.Equal(leaf.DNSNames, caDomains[:2]) || len(leaf.IPAddresses) != 2 || !leaf.IPAddresses[0].Equal(net.ParseIP("127.0.0.1")) {
			t.Errorf("the certificate is for %v and %v", leaf.DNSNames, leaf.IPAddresses)
		}
		if leaf.IsCA {
			t.Error("the certificate is one of an authority")
		}
	}
	for name, mode := range map[string]os.FileMode{caFile: 0o644, caKeyFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
}

// A client that trusts the authority accepts the chain of a handshake.
func TestLocalCAHandshake(t *testing.T) {
	t.Parallel()
	ca := openCA(t, t.TempDir(), time.Now)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		here, there := net.Pipe()
		server := tls.Server(there, TLSConfig(ca))
		done := make(chan error, 1)
		go func() { done <- server.Handshake() }()
		client := tls.Client(here, &tls.Config{
			RootCAs: roots, ServerName: "gw.example", NextProtos: []string{"h2"}, MinVersion: version, MaxVersion: version,
		})
		if err := client.Handshake(); err != nil {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if got := client.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("%s: the protocol is %q", tls.VersionName(version), got)
		}
	}
	here, there := net.Pipe()
	go func() {
		_ = tls.Server(there, TLSConfig(ca)).Handshake() // its error is the client's
		there.Close()
	}()
	if err := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: "gw.example", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}).Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

func TestLocalCARenews(t *testing.T) {
	t.Parallel()
	c := clocktest.At(time.Now())
	ca := openCA(t, t.TempDir(), c.Now)
	first := leafOf(t, ca)
	if lives := first.NotAfter.Sub(c.Now()); lives < leafLives-time.Second || lives > leafLives {
		t.Errorf("the certificate lives %v, want %v", lives, leafLives)
	}
	if !first.NotBefore.Before(c.Now().Add(-clockSkew + time.Second)) {
		t.Errorf("a clock that is behind does not trust it: %v", first.NotBefore)
	}
	c.Advance(leafLives*2/3 - time.Minute)
	if leafOf(t, ca) != first {
		t.Error("it is renewed before two thirds of its life are over")
	}
	c.Advance(2 * time.Minute)
	second := leafOf(t, ca)
	if second == first || second.SerialNumber.Cmp(first.SerialNumber) == 0 || !second.NotAfter.After(first.NotAfter) {
		t.Error("it is not renewed when two thirds of its life are over")
	}
	if leafOf(t, ca) != second {
		t.Error("each handshake gets a new one")
	}
}

// A certificate does not outlive its authority, and is not issued again for each
// handshake when the authority ends soon.
func TestLocalCAEnds(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), clocktest.At(time.Now())
	ca := openCA(t, dir, c.Now)
	c.Advance(caLives - 10*24*time.Hour)
	leaf := leafOf(t, ca)
	if leaf.NotAfter.After(ca.certificate.NotAfter) {
		t.Errorf("the certificate ends at %v, its authority at %v", leaf.NotAfter, ca.certificate.NotAfter)
	}
	if leafOf(t, ca) != leaf {
		t.Error("each handshake gets a new one")
	}
	c.Advance(10 * 24 * time.Hour)
	_, err := openLocalCA(dir, caDomains, c.Now)
	if err == nil || !strings.Contains(err.Error(), caFile) || !strings.Contains(err.Error(), "expired") || !strings.Contains(err.Error(), dir) {
		t.Errorf("after its end: %v", err)
	}
}

func TestLocalCABroken(t *testing.T) {
	t.Parallel()
	one, other := t.TempDir(), t.TempDir()
	openCA(t, one, time.Now)
	openCA(t, other, time.Now)
	foreign, err := os.ReadFile(filepath.Join(other, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		content    string
		want       []string
	}{
		{"another authority's key", caKeyFile, string(foreign), []string{caFile, caKeyFile, "do not belong together"}},
		{"no key", caKeyFile, "garbage", []string{caKeyFile, "PEM"}},
		{"a key of another form", caKeyFile, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", []string{caKeyFile}},
		{"no certificate", caFile, "garbage", []string{caFile}},
		{"an empty key", caKeyFile, "", []string{caKeyFile}},
	} {
		dir := t.TempDir()
		openCA(t, dir, time.Now)
		path := filepath.Join(dir, c.file)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openLocalCA(dir, caDomains, time.Now)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, want := range append(c.want, dir) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not name %s", c.name, err, want)
			}
		}
	}
	if _, err := openLocalCA(filepath.Join(one, "nowhere"), caDomains, time.Now); err == nil {
		t.Error("a folder that does not exist is accepted")
	}
}

// writePair writes a certificate and its key to files.
func writePair(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	keyPEM, err := generateECKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := parseKey(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := selfSign(signer, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, content := range map[string][]byte{certificate: certPEM, key: keyPEM} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := writePair(t, dir)
	certs, err := Open(&config.Config{TLS: config.TLS{Mode: config.TLSFiles, Certificate: certificate, Key: key}}, nil, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	first := leafOf(t, certs)
	writePair(t, dir)
	if leafOf(t, certs) != first {
		t.Error("the files are read before Refresh")
	}
	if err := certs.Refresh(); err != nil {
		t.Fatal(err)
	}
	second := leafOf(t, certs)
	if second.Equal(first) {
		t.Error("the new certificate is not used")
	}
	newKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"a missing key": "", "no key": "garbage", "another key": otherKey(t)} {
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			if err := os.WriteFile(key, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := certs.Refresh(); err == nil || !strings.Contains(err.Error(), "tls.certificate and tls.key") {
			t.Errorf("%s: %v", name, err)
		}
		if leafOf(t, certs) != second {
			t.Errorf("%s: the present certificate is not kept", name)
		}
		if err := os.WriteFile(key, newKey, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := certs.Refresh(); err != nil {
		t.Errorf("with good files again: %v", err)
	}
}

func otherKey(t *testing.T) string {
	t.Helper()
	key, err := generateECKey()
	if err != nil {
		t.Fatal(err)
	}
	return string(key)
}

func TestOpenCertificates(t *testing.T) {
	t.Parallel()
	open := func(cfg config.TLS) (Source, error) {
		return Open(&config.Config{DataDir: t.TempDir(), TLS: cfg}, nil, nil, time.Now)
	}
	if certs, err := open(config.TLS{Mode: config.TLSOff}); certs != nil || err != nil {
		t.Errorf("off: %v, %v", certs, err)
	}
	certs, err := open(config.TLS{Mode: config.TLSInternal, Domains: caDomains})
	if err != nil || leafOf(t, certs) == nil || certs.Refresh() != nil {
		t.Errorf("internal: %v", err)
	}
	for _, mode := range []string{"", config.TLSACME, "x"} {
		if certs, err := open(config.TLS{Mode: mode}); err == nil {
			t.Errorf("%q: %v", mode, certs)
		}
	}
	if certs, err := open(config.TLS{Mode: config.TLSFiles, Certificate: "nowhere", Key: "nowhere"}); err == nil {
		t.Errorf("missing files: %v", certs)
	}
}
