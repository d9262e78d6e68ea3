// Package lab starts the servers that bench measures, each fresh and on one core: authgate, the bare
// proxy, nginx, HAProxy, Caddy, oauth2-proxy and oidc-provider, with their upstream and Redis on
// another core. It signs in, and checks that a server works. It reads the use of resources by
// servers, but puts no load on them and judges no figure.
package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"authgate/e2e/bench/process"
	"authgate/e2e/bench/role"
)

// Options say where servers run, and which programs.
type Options struct {
	ServerCore, LoadCore int    // the cores of the servers, and of the loads and the upstream
	Authgate             string // a program; empty: it is built
	AuthgateLog          string // a file
	OAuth2Proxy          string // a program; empty: it is built
	Caddy                string // a program
}

// Lab is the part that all servers share: a folder, a certificate, the upstream, and a client
// that trusts the certificate.
type Lab struct {
	Client      client
	Dir         string
	Certificate string // file

	options    Options
	key, both  string // files
	cores      string // of authgate
	serverCore string
	loadCore   string
	upstream   *process.Process
	upstreams  [2]string // its addresses for the two servers
}

// New starts the upstream.
func New(ctx context.Context, o Options) (*Lab, error) {
	dir, err := os.MkdirTemp("", "authgate-bench-")
	if err != nil {
		return nil, err
	}
	l := &Lab{
		options: o, Dir: dir,
		Certificate: filepath.Join(dir, "certificate.pem"),
		key:         filepath.Join(dir, "key.pem"),
		both:        filepath.Join(dir, "both.pem"),
		serverCore:  strconv.Itoa(o.ServerCore),
		loadCore:    strconv.Itoa(o.LoadCore),
		cores:       strconv.Itoa(o.ServerCore),
	}
	if err := l.furnish(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lab) furnish(ctx context.Context) error {
	if err := l.makeCertificate(); err != nil {
		return fmt.Errorf("making the certificate: %w", err)
	}
	upstream, addresses, err := process.StartRole(ctx, l.loadCore, "upstream")
	if err != nil {
		return err
	}
	l.upstream = upstream
	if copy(l.upstreams[:], addresses) != len(l.upstreams) {
		return fmt.Errorf("the upstream listens on %q, want two addresses", addresses)
	}
	return nil
}

// Close ends the upstream and removes the folder.
func (l *Lab) Close() {
	if l.upstream != nil {
		l.upstream.Stop()
	}
	_ = os.RemoveAll(l.Dir) // it is in the folder for temporary files
}

// Build builds authgate, unless the options name a program.
func (l *Lab) Build(ctx context.Context) error {
	if l.options.Authgate != "" {
		return nil
	}
	l.options.Authgate = filepath.Join(l.Dir, "authgate")
	build := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", l.options.Authgate, "authgate/cmd/authgate")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building authgate: %w\n%s", err, out)
	}
	return nil
}

// With returns the lab with another program for authgate.
func (l *Lab) With(authgate string) *Lab {
	other := *l
	other.options.Authgate = authgate
	return &other
}

// UseBothCores lets authgate run on the core of the loads too.
func (l *Lab) UseBothCores() { l.cores = l.serverCore + "," + l.loadCore }

// Reading has the use of resources and the forwarded requests of a server so far.
type Reading struct {
	CPU     time.Duration
	Reached int64 // requests that its upstream has answered
	Posted  int64 // bytes of their bodies
	Peak    int64 // bytes of memory
}

// Read reads the use of resources by a server.
func (l *Lab) Read(ctx context.Context, s *Server) (Reading, error) {
	var r Reading
	_, counts, err := l.Client.Get(ctx, "http://"+s.upstream+role.CountPath)
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscan(counts, &r.Reached, &r.Posted); err != nil {
		return r, fmt.Errorf("the upstream's counts: %w", err)
	}
	for _, p := range append([]*process.Process{s.Process}, s.counts...) {
		cpu, err := p.CPU()
		if err != nil {
			return r, err
		}
		peak, err := p.Memory(process.PeakMemory)
		if err != nil {
			return r, err
		}
		r.CPU, r.Peak = r.CPU+cpu, r.Peak+peak
	}
	return r, nil
}

// makeCertificate writes the certificate of all servers and makes a client that
// trusts it.
func (l *Lab) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "authgate bench"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	l.Client = newClient(roots)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return errors.Join(
		os.WriteFile(l.Certificate, public, 0o600),
		os.WriteFile(l.key, private, 0o600),
		os.WriteFile(l.both, append(public, private...), 0o600))
}
