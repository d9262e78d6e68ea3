package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/internal/test/logtest"
)

const (
	// directory is the address of an unreachable authority. Tests put what it
	// would have issued into the storage.
	directory = "https://127.0.0.1:1/directory"
	day       = 24 * time.Hour
)

// must returns value, where err would be a fault of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

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
func issue(name string, ago, lives time.Duration, responders ...string) pair {
	begins := time.Now().Add(-ago)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(begins.UnixNano()), DNSNames: []string{name}, NotBefore: begins, NotAfter: begins.Add(lives),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, OCSPServer: responders,
	}
	if addr := net.ParseIP(name); addr != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{addr}
	}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return pair{
		certificate: bytes.Repeat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 2), // it is its own issuer
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}),
		leaf:        must(x509.ParseCertificate(der)),
	}
}

// keep puts a certificate and its key where certmagic looks for those of a
// name, as an instance does that has obtained them.
func keep(t testing.TB, s certmagic.Storage, name string, p pair) {
	t.Helper()
	put(t, s, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(p.key))
	put(t, s, certmagic.StorageKeys.SiteCert(issuerKey(), name), string(p.certificate))
	put(t, s, certmagic.StorageKeys.SiteMeta(issuerKey(), name),
		string(must(json.Marshal(certmagic.CertificateResource{SANs: []string{name}}))))
}

// fakeIssuer is an authority that issues nothing.
type fakeIssuer struct {
	*certmagic.ACMEIssuer
	orders atomic.Int32
	answer func(context.Context) error
}

func (i *fakeIssuer) Issue(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.orders.Add(1)
	return nil, i.answer(ctx)
}

// rig is a Manager with the store below it and what it logs.
type rig struct {
	*Manager // after open
	name     string
	names    []string // name and others
	onDemand OnDemand
	spy      *spyStore
	storage  *storage // as another instance has it, past the spy
	log      logtest.Buffer
}

// newRig prepares a Manager of a new name and of others.
func newRig(t testing.TB, others ...string) *rig {
	t.Helper()
	r := &rig{spy: newSpy(t), name: newName()}
	r.names = append([]string{r.name}, others...)
	r.storage = newStorage(t, r.spy.Store, "a")
	return r
}

// keep stores a certificate of the first name, as another instance does.
func (r *rig) keep(t testing.TB, ago, lives time.Duration) pair {
	t.Helper()
	p := issue(r.name, ago, lives)
	keep(t, r.storage, r.name, p)
	return p
}

// tear stores another key beside the certificate of the first name, as an instance
// does that is killed while it writes.
func (r *rig) tear(t testing.TB, p pair) {
	t.Helper()
	put(t, r.storage, certmagic.StorageKeys.SitePrivateKey(issuerKey(), r.name), string(p.key))
}

func (r *rig) open(t testing.TB) *rig {
	t.Helper()
	r.Manager = must(Open(t.Context(), Options{
		Domains: r.names, Directory: directory, Storage: newStorage(t, r.spy, "a"), OnDemand: r.onDemand,
		HTTP: "127.0.0.1:0", HTTPS: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(&r.log, nil)),
	}))
	t.Cleanup(r.Close)
	return r
}

// inBubble runs a test on a rig of one name. Such tests do not run in parallel,
// because certmagic has one queue of jobs for the process, and bubbles must not work
// for each other. A bubble ends when all goroutines in it have ended, so that each
// test finds one that is left behind.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t)) })
}

// run lets the Manager run until the returned function is called, or the test ends.
func (r *rig) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// wantAfter compares what there is for the first name after d, and whether the Manager
// has ever ordered from the authority.
func (r *rig) wantAfter(t testing.TB, d time.Duration, p pair, problem string, asked bool) {
	t.Helper()
	time.Sleep(d)
	r.want(t, p, problem)
	r.wantAsked(t, asked)
}

// want compares what there is for the first name; a zero pair is none.
func (r *rig) want(t testing.TB, p pair, problem string) {
	t.Helper()
	got := r.Certificates()[0]
	var expires time.Time
	if p.leaf != nil {
		expires = p.leaf.NotAfter
	}
	if got.Domain != r.name || !got.Expires.Equal(expires) || !strings.Contains(got.Problem, problem) ||
		(problem == "") != (got.Problem == "") {
		t.Fatalf("there is %+v, want one that expires %v with the problem %q\n%s", got, expires, problem, &r.log)
	}
}

// wantAsked compares whether the Manager has ordered from the authority.
func (r *rig) wantAsked(t testing.TB, want bool) {
	t.Helper()
	log := r.log.String()
	if got := strings.Contains(log, "obtaining certificate") ||
		strings.Contains(log, "renewing certificate"); got != want {
		t.Fatalf("the authority was asked: %t, want %t\n%s", got, want, log)
	}
}

// handshake returns the certificate that a client is shown which asks for a
// name and offers these protocols.
func (r *rig) handshake(name string, protocols ...string) (*x509.Certificate, error) {
	client, server := net.Pipe()
	defer client.Close()
	served := make(chan error, 1)
	go func() {
		defer server.Close()
		served <- tls.Server(server, &tls.Config{
			GetCertificate: r.GetCertificate, NextProtos: []string{"h2", Protocol},
		}).Handshake()
	}()
	conn := tls.Client(client, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		return nil, errors.Join(err, <-served)
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// wantServed fails the test unless clients that ask for the names are shown the
// certificate of p.
func (r *rig) wantServed(t testing.TB, p pair, names ...string) {
	t.Helper()
	for _, name := range names {
		if got, err := r.handshake(name, "h2"); err != nil || !got.Equal(p.leaf) {
			t.Errorf("a client that asks for %q: %v", name, err)
		}
	}
}
