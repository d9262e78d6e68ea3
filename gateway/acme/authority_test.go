package acme

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// directory is the address of an unreachable authority. Tests put what it would
// have issued into the storage.
const directory = "https://127.0.0.1:1/directory"

func issuerKey() string { return (&certmagic.ACMEIssuer{CA: directory}).IssuerKey() }

// newName is a name that no other test run has: certmagic remembers for the
// whole process when it failed with which name.
func newName() string { return strings.ToLower(rand.Text()) + ".example" }

// pair is a certificate and its key, in PEM.
type pair struct {
	certificate, key []byte
	leaf             *x509.Certificate
}

// issue makes a certificate of a name that began to be valid a while ago and
// lives for so long. It names these responders of OCSP.
func issue(t testing.TB, name string, ago, lives time.Duration, responders ...string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	begins := time.Now().Add(-ago)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(begins.UnixNano()), DNSNames: []string{name}, NotBefore: begins, NotAfter: begins.Add(lives),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, OCSPServer: responders,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return pair{
		certificate: bytes.Repeat(certificate, 2), // it is its own issuer
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		leaf:        leaf,
	}
}

// keep puts a certificate and its key where certmagic looks for those of a
// name, as an instance does that has obtained them.
func keep(t testing.TB, s certmagic.Storage, name string, p pair) {
	t.Helper()
	meta, err := json.Marshal(certmagic.CertificateResource{SANs: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(p.key))
	put(t, s, certmagic.StorageKeys.SiteCert(issuerKey(), name), string(p.certificate))
	put(t, s, certmagic.StorageKeys.SiteMeta(issuerKey(), name), string(meta))
}

// rig is a Manager with the store below it and what it logs.
type rig struct {
	*Manager
	spy     *spyStore
	storage *Storage // as another instance has it, past the spy
	log     *journal
}

// newRig opens a Manager of these names after prepare has filled the storage.
func newRig(t testing.TB, domains []string, prepare func(r *rig)) *rig {
	t.Helper()
	r := &rig{spy: newSpy(t)}
	r.storage = NewStorage(r.spy.Store, newBox(t, "a"), time.Now)
	prepare(r)
	var logger *slog.Logger
	r.log, logger = newJournal(slog.LevelInfo)
	m, err := Open(t.Context(), Options{
		Domains: domains, Directory: directory, Storage: NewStorage(r.spy, newBox(t, "a"), time.Now),
		HTTP: "127.0.0.1:0", HTTPS: "127.0.0.1:0", Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); kill(r.storage) })
	r.Manager = m
	return r
}

// asked reports whether it was tried to get a certificate from the authority.
func (r *rig) asked() bool {
	log := r.log.String()
	return strings.Contains(log, "obtaining certificate") || strings.Contains(log, "renewing certificate")
}

// want compares what there is for the first name; a zero pair is none.
func (r *rig) want(t testing.TB, p pair, problem string) {
	t.Helper()
	got := r.Certificates()[0]
	var expires time.Time
	if p.leaf != nil {
		expires = p.leaf.NotAfter
	}
	if got.Domain != r.domains[0] || !got.Expires.Equal(expires) || !strings.Contains(got.Problem, problem) || (problem == "") != (got.Problem == "") {
		t.Fatalf("there is %+v, want one that expires %v with the problem %q\n%s", got, expires, problem, r.log)
	}
}
