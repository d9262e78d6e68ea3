package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/store/keyfile"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
)

// named is a configuration with these domains.
func named(domains ...string) *config.Config {
	return &config.Config{TLS: listening.TLS{Mode: listening.TLSInternal, Domains: domains}}
}

// rootIn returns the certificate of the authority in a folder, as clients get it.
func rootIn(folder string) *x509.Certificate {
	block, _ := pem.Decode(must(os.ReadFile(filepath.Join(folder, caFile))))
	return must(x509.ParseCertificate(block.Bytes))
}

// accepts reports whether a client that trusts root accepts the certificate for name.
func accepts(root, leaf *x509.Certificate, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

// forge issues a certificate of a name with the key of the authority, past its rules,
// as one does who has stolen the key.
func (ca *localCA) forge(name string) *x509.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		NotBefore: ca.now().Add(-time.Hour), NotAfter: ca.now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	return must(x509.ParseCertificate(
		must(x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key))))
}

// The authority permits what the gateway serves, even to one who has its key, and the
// names below, which constraints cannot leave out.
func TestLocalCAPermits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ domains, permitted, refused string }{
		{"gw.example *.apps.example 127.0.0.1 ::1", "gw.example x.gw.example a.apps.example apps.example 127.0.0.1 ::1",
			"example other.example agw.example bank.com 127.0.0.2 ::2 ::ffff:10.0.0.1"},
		{"gw.example", "gw.example", "localhost 127.0.0.1 ::1 8.8.8.8"},
		{"192.0.2.1", "192.0.2.1", "gw.example localhost bank.com 192.0.2.2 ::1"},
		{"2001:db8::1 localhost", "2001:db8::1 localhost", "2001:db8::2 192.0.2.1 example"},
	} {
		ca := must(openLocalCA(t.TempDir(), strings.Fields(c.domains), time.Now, discard()))
		for _, name := range strings.Fields(c.permitted) {
			if err := accepts(ca.certificate, ca.forge(name), name, time.Now()); err != nil {
				t.Errorf("%s: a client refuses %s: %v", c.domains, name, err)
			}
		}
		for _, name := range strings.Fields(c.refused) {
			if accepts(ca.certificate, ca.forge(name), name, time.Now()) == nil {
				t.Errorf("%s: a client accepts %s", c.domains, name)
			}
		}
		var constraints pkix.Extension
		for _, extension := range ca.certificate.Extensions {
			if extension.Id.String() == "2.5.29.30" { // RFC 5280, section 4.2.1.10
				constraints = extension
			}
		}
		if !constraints.Critical || len(ca.certificate.ExtKeyUsage) != 1 ||
			ca.certificate.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
			t.Errorf("%s: critical %t, for %v", c.domains, constraints.Critical, ca.certificate.ExtKeyUsage)
		}
	}
}

// When names come or go, the authority is issued anew with the same key. Clients that
// trust either certificate accept names that stay, and those with the new one the new
// names. An order is no change.
func TestLocalCANamesChange(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &logtest.Buffer{}
	ca := must(openLocalCA(dir, []string{"gw.example", "old.example", "127.0.0.1"}, time.Now,
		slog.New(slog.NewJSONHandler(log, nil))))
	first := rootIn(dir)
	const issued = "the certificate of the local authority is issued anew"
	refresh := func(domains ...string) *x509.Certificate {
		t.Helper()
		if err := ca.Refresh(named(domains...)); err != nil {
			t.Fatal(err)
		}
		return rootIn(dir)
	}
	if !refresh("old.example", "127.0.0.1", "gw.example").Equal(first) || strings.Contains(log.String(), issued) {
		t.Error("another order issues the authority anew")
	}
	second := refresh("gw.example", "new.example", "127.0.0.1", "::1")
	if second.Equal(first) || !bytes.Equal(second.SubjectKeyId, first.SubjectKeyId) ||
		!bytes.Equal(second.RawSubject, first.RawSubject) ||
		!bytes.Equal(second.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) ||
		second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the authority is the same certificate, or has another key or name")
	}
	for _, want := range []string{
		`"WARN"`, issued, "clients need", `"new":["::1/128","new.example"]`, `"removed":["old.example"]`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("logged %s, want %s", log, want)
		}
	}
	for name, want := range map[string][2]bool{
		"gw.example": {true, true}, "127.0.0.1": {true, true}, "new.example": {false, true}, "::1": {false, true},
		"old.example": {false, false},
	} {
		hello := &tls.ClientHelloInfo{ServerName: name}
		if ip := net.ParseIP(name); ip != nil {
			hello = &tls.ClientHelloInfo{Conn: connectedTo{ip: ip}}
		}
		leaf := must(ca.GetCertificate(hello)).Leaf
		for i, root := range []*x509.Certificate{first, second} {
			if err := accepts(root, leaf, name, time.Now()); (err == nil) != want[i] {
				t.Errorf("%s, with certificate %d of the authority: %v", name, i, err)
			}
		}
	}
	again := must(openLocalCA(dir, []string{"gw.example", "::1", "127.0.0.1", "new.example"}, time.Now, discard()))
	if !again.certificate.Equal(second) {
		t.Error("a restart issues it anew")
	}
}

// connectedTo is a connection to an address.
type connectedTo struct {
	net.Conn
	ip net.IP
}

func (c connectedTo) LocalAddr() net.Addr { return &net.TCPAddr{IP: c.ip, Port: 443} }

// An authority of a version without constraints gets them, with the same key. Names that
// a wildcard covers need none of their own.
func TestLocalCAMigrates(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &logtest.Buffer{}
	key := must(keyfile.ParseSigner(must(keyfile.GenerateSigner())))
	before := unconstrained(t, dir, key, pkix.Name{CommonName: "authgate local CA"}, nil)
	ca := must(openLocalCA(dir, []string{"gw.example", "*.gw.example"}, time.Now, slog.New(slog.NewJSONHandler(log, nil))))
	after := rootIn(dir)
	leaf := leafOf(t, ca)
	if after.Equal(before) || len(after.PermittedDNSDomains) != 1 ||
		accepts(before, leaf, "gw.example", time.Now()) != nil || accepts(after, leaf, "gw.example", time.Now()) != nil {
		t.Errorf("permitted are %v, or a client refuses the name", after.PermittedDNSDomains)
	}
	if !strings.Contains(log.String(), "issued anew") {
		t.Errorf("logged %s", log)
	}
	if err := ca.Refresh(named("gw.example", "*.gw.example", "wiki.gw.example")); err != nil || !rootIn(dir).Equal(after) {
		t.Errorf("a name below a wildcard issues it anew: %v", err)
	}
}

// unconstrained writes an authority into a folder, as older versions did, and returns it.
// parent may be nil.
func unconstrained(t *testing.T, dir string, key any, subject pkix.Name, parent *localCA) *x509.Certificate {
	t.Helper()
	signer := key.(*ecdsa.PrivateKey)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, SubjectKeyId: []byte{1, 2, 3},
	}
	issuer, by := template, any(signer)
	if parent != nil {
		issuer, by = parent.certificate, parent.key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, issuer, signer.Public(), by))
	write(t, filepath.Join(dir, caFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, caKeyFile),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(signer))}))
	return must(x509.ParseCertificate(der))
}

// An authority below one of the operator's stays as it is, and clients get it in the
// chain, because they trust the one above.
func TestLocalCABelowAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	above := must(openLocalCA(t.TempDir(), []string{"gw.example"}, time.Now, discard()))
	given := unconstrained(t, dir, must(keyfile.ParseSigner(must(keyfile.GenerateSigner()))),
		pkix.Name{CommonName: "gate"}, above)
	ca := must(openLocalCA(dir, []string{"gw.example"}, time.Now, discard()))
	chain := must(ca.GetCertificate(&tls.ClientHelloInfo{})).Certificate
	if !rootIn(dir).Equal(given) || len(chain) != 2 || !bytes.Equal(chain[1], given.Raw) {
		t.Errorf("it was issued anew, or the chain has %d certificates", len(chain))
	}
}

// If the certificate of the authority cannot be written, the gateway serves on, and
// writes it when it can.
func TestLocalCACannotWrite(t *testing.T) {
	t.Parallel()
	dir, log, c := filepath.Join(t.TempDir(), "data"), &logtest.Buffer{}, clocktest.At(time.Now())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := must(openLocalCA(dir, []string{"gw.example"}, c.Now, slog.New(slog.NewJSONHandler(log, nil))))
	first := rootIn(dir)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := ca.Refresh(named("gw.example", "new.example")); err != nil ||
		!strings.Contains(log.String(), "cannot be issued anew") {
		t.Fatalf("without the folder: %v, %s", err, log)
	}
	serves := func(name string) *x509.Certificate {
		return must(ca.GetCertificate(&tls.ClientHelloInfo{ServerName: name})).Leaf
	}
	if err := accepts(first, serves("gw.example"), "gw.example", c.Now()); err != nil {
		t.Errorf("a name that stays: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if serves("new.example"); !rootIn(dir).Equal(first) {
		t.Error("it is tried again with each handshake")
	}
	c.Advance(retryAfter)
	leaf := serves("new.example")
	if err := accepts(rootIn(dir), leaf, "new.example", c.Now()); err != nil {
		t.Errorf("the new name in the end: %v", err)
	}
}
