package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/store/keyfile"
	"authgate/internal/test/clocktest"
)

var caDomains = []string{"gw.example", "*.gw.example", "127.0.0.1", "::1", "other.example"}

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openCA(t *testing.T, dir string, now func() time.Time) *localCA {
	t.Helper()
	return must(openLocalCA(dir, caDomains, now, discard()))
}

func leafOf(t *testing.T, certs Source) *x509.Certificate {
	t.Helper()
	return must(certs.GetCertificate(&tls.ClientHelloInfo{})).Leaf
}

// write writes a file that is there already anew.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// wantMention fails the test unless err mentions all of these.
func wantMention(t *testing.T, what string, err error, mentioned ...string) {
	t.Helper()
	for _, want := range mentioned {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that mentions %s", what, err, want)
		}
	}
}

// A client that trusts ca.pem trusts the gateway after a restart too.
func TestLocalCASurvives(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), clocktest.At(time.Now())
	first := openCA(t, dir, c.Now)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(dir, caFile)))) {
		t.Fatal("ca.pem holds no certificate")
	}
	for i, ca := range []*localCA{first, openCA(t, dir, c.Now)} {
		for _, name := range []string{"gw.example", "x.gw.example", "other.example", "127.0.0.1", "::1"} {
			asked := name
			if net.ParseIP(name) != nil {
				asked = "" // clients ask for names only (RFC 6066, section 3)
			}
			leaf := must(ca.GetCertificate(&tls.ClientHelloInfo{ServerName: asked})).Leaf
			options := x509.VerifyOptions{
				DNSName: name, Roots: roots, CurrentTime: c.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			if _, err := leaf.Verify(options); err != nil || leaf.IsCA {
				t.Errorf("opening number %d: %s: %v, authority %t", i, name, err, leaf.IsCA)
			}
		}
	}
	for name, mode := range map[string]os.FileMode{caFile: 0o644, caKeyFile: 0o600} {
		if info := must(os.Stat(filepath.Join(dir, name))); info.Mode().Perm() != mode {
			t.Errorf("%s: %v, want %v", name, info.Mode(), mode)
		}
	}
}

// A client that trusts the authority accepts the chain of a handshake, from TLS 1.2 on.
func TestLocalCAHandshake(t *testing.T) {
	t.Parallel()
	ca := openCA(t, t.TempDir(), time.Now)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	for version, want := range map[uint16]string{tls.VersionTLS11: "", tls.VersionTLS12: "h2", tls.VersionTLS13: "h2"} {
		here, there := net.Pipe()
		go func() {
			_ = tls.Server(there, TLSConfig(ca, nil)).Handshake() // its error is the client's
			there.Close()
		}()
		client := tls.Client(here, &tls.Config{
			RootCAs: roots, ServerName: "gw.example", NextProtos: []string{"h2"}, MinVersion: version, MaxVersion: version,
		})
		err := client.Handshake()
		if got := client.ConnectionState().NegotiatedProtocol; got != want || (err == nil) != (want != "") {
			t.Errorf("%s: the protocol is %q (%v), want %q", tls.VersionName(version), got, err, want)
		}
	}
}

// Each name has a certificate of its own, which is small and stays the same. A
// client cannot have others issued, and what is kept is bounded.
func TestLocalCANames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60) + ".gw.example"
	domains := slices.Concat(caDomains, []string{"*.apps.example", long, "192.0.2.1"})
	for i := range 2 * maxLeaves {
		domains = append(domains, fmt.Sprintf("%d.many.example", i))
	}
	ca := must(openLocalCA(t.TempDir(), domains, time.Now, discard()))
	for asked, want := range map[string]string{
		"gw.example": "gw.example", "GW.example": "gw.example", "": "gw.example", "unknown.example": "gw.example",
		"many.example": "gw.example", "other.example": "other.example", "a.gw.example": "*.gw.example",
		"b.gw.example": "*.gw.example", "a.b.gw.example": "gw.example", "x.apps.example": "*.apps.example",
		"apps.example": "gw.example", "*.apps.example": "*.apps.example", long: long, "7.many.example": "7.many.example",
	} {
		hello := &tls.ClientHelloInfo{ServerName: asked}
		certificate := must(ca.GetCertificate(hello))
		leaf, addresses := certificate.Leaf, 0
		if want == "gw.example" && strings.ToLower(asked) != want {
			addresses = 3
		}
		if !slices.Equal(leaf.DNSNames, []string{want}) || len(leaf.IPAddresses) != addresses ||
			len(certificate.Certificate[0]) > 1000 {
			t.Errorf("%q: the certificate is for %v and %v, and has %d bytes; want %s",
				asked, leaf.DNSNames, leaf.IPAddresses, len(certificate.Certificate[0]), want)
		}
		if (leaf.Subject.CommonName == want) != (len(want) <= maxCommonName) ||
			must(ca.GetCertificate(hello)) != certificate {
			t.Errorf("%q: the common name is %q, or each handshake gets a new certificate", asked, leaf.Subject.CommonName)
		}
	}
	if chain := must(ca.GetCertificate(&tls.ClientHelloInfo{})).Certificate; len(chain) != 1 ||
		len(must(openCA(t, t.TempDir(), time.Now).GetCertificate(&tls.ClientHelloInfo{})).Certificate) != 2 {
		t.Errorf("an authority of %d bytes is sent, or a small one is not", len(ca.certificate.Raw))
	}
	for i := range maxLeaves {
		must(ca.GetCertificate(&tls.ClientHelloInfo{ServerName: fmt.Sprintf("%d.many.example", i)}))
	}
	if ca.leaves.Len() != maxLeaves {
		t.Errorf("%d certificates are kept, want %d", ca.leaves.Len(), maxLeaves)
	}
}

// A gateway whose public_url is an address has a certificate for it.
func TestLocalCAOfAnAddress(t *testing.T) {
	t.Parallel()
	ca := must(openLocalCA(t.TempDir(), []string{"192.0.2.1", "localhost"}, time.Now, discard()))
	// OpenSSL takes a common name for a name if there is no other, and the authority permits no
	// name 192.0.2.1.
	if leaf := leafOf(t, ca); leaf.VerifyHostname("192.0.2.1") != nil || len(leaf.DNSNames) != 0 ||
		leaf.Subject.CommonName != "" {
		t.Errorf("it is for %v and %v, and of %q", leaf.DNSNames, leaf.IPAddresses, leaf.Subject)
	}
	leaf := must(ca.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})).Leaf
	if leaf.VerifyHostname("localhost") != nil {
		t.Errorf("that of the name is for %v", leaf.DNSNames)
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
	if leaf.NotAfter.After(ca.certificate.NotAfter) || leafOf(t, ca) != leaf {
		t.Errorf("the certificate ends at %v, its authority at %v, or each handshake gets a new one",
			leaf.NotAfter, ca.certificate.NotAfter)
	}
	c.Advance(10 * 24 * time.Hour)
	_, err := openLocalCA(dir, caDomains, c.Now, discard())
	wantMention(t, "after its end", err, caFile, "expired", dir)
}

func TestLocalCABroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"another authority's key": {caKeyFile, string(must(keyfile.GenerateSigner())),
			[]string{caFile, caKeyFile, "do not belong together"}},
		"no key": {caKeyFile, "garbage", []string{caKeyFile, "PEM"}},
		"a key of another form": {caKeyFile,
			"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", []string{caKeyFile}},
		"no certificate": {caFile, "garbage", []string{caFile}},
	} {
		dir := t.TempDir()
		openCA(t, dir, time.Now)
		write(t, filepath.Join(dir, c.file), []byte(c.content))
		_, err := openLocalCA(dir, caDomains, time.Now, discard())
		wantMention(t, name, err, append(c.want, dir)...)
	}
	_, err := openLocalCA(filepath.Join(t.TempDir(), "nowhere"), caDomains, time.Now, discard())
	wantMention(t, "a folder that does not exist", err, "nowhere")
}

// writePair writes a certificate and its key to files.
func writePair(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	keyPEM := must(keyfile.GenerateSigner())
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, certificate, must(selfSign(must(keyfile.ParseSigner(keyPEM)), newCANames(caDomains), nil, time.Now())))
	write(t, key, keyPEM)
	return certificate, key
}

func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := writePair(t, dir)
	cfg := &config.Config{TLS: listening.TLS{Mode: listening.TLSFiles, Certificate: certificate, Key: key}}
	certs := must(Open(Options{Config: cfg, Now: time.Now}))
	first := leafOf(t, certs)
	writePair(t, dir)
	if leafOf(t, certs) != first {
		t.Error("the files are read before Refresh")
	}
	if err := certs.Refresh(cfg); err != nil {
		t.Fatal(err)
	}
	second := leafOf(t, certs)
	if second.Equal(first) {
		t.Error("the new certificate is not used")
	}
	good := must(os.ReadFile(key))
	for name, content := range map[string][]byte{"no key": []byte("garbage"),
		"another key": must(keyfile.GenerateSigner())} {
		write(t, key, content)
		wantMention(t, name, certs.Refresh(cfg), "tls.certificate and tls.key")
		if leafOf(t, certs) != second {
			t.Errorf("%s: the present certificate is not kept", name)
		}
	}
	write(t, key, good)
	if err := certs.Refresh(cfg); err != nil {
		t.Errorf("with good files again: %v", err)
	}
}

func TestOpenCertificates(t *testing.T) {
	t.Parallel()
	open := func(cfg listening.TLS) (Source, error) {
		return Open(Options{Config: &config.Config{DataDir: t.TempDir(), TLS: cfg}, Now: time.Now})
	}
	if certs, err := open(listening.TLS{Mode: listening.TLSOff}); certs != nil || err != nil {
		t.Errorf("off: %v, %v", certs, err)
	}
	certs, err := open(listening.TLS{Mode: listening.TLSInternal, Domains: caDomains})
	if err != nil || leafOf(t, certs) == nil {
		t.Errorf("internal: %v", err)
	}
	for _, cfg := range []listening.TLS{
		{}, {Mode: listening.TLSACME}, {Mode: "x"},
		{Mode: listening.TLSFiles, Certificate: "nowhere", Key: "nowhere"},
	} {
		if certs, err := open(cfg); certs != nil || err == nil {
			t.Errorf("%q: %v, %v", cfg.Mode, certs, err)
		}
	}
}
