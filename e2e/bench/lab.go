package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// lab is what all measurements share: a folder, a certificate, the upstream, and a
// client that trusts the certificate.
type lab struct {
	options
	dir, certificate, key, script string
	upstream                      *process
	upstreams                     [2]string // its addresses for the two servers
	client                        *http.Client
}

func newLab(ctx context.Context, o options) (*lab, error) {
	dir, err := os.MkdirTemp("", "authgate-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{
		options: o, dir: dir,
		certificate: filepath.Join(dir, "certificate.pem"),
		key:         filepath.Join(dir, "key.pem"),
		script:      filepath.Join(dir, "done.lua"),
	}
	if err := l.furnish(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) furnish(ctx context.Context) error {
	if err := l.makeCertificate(); err != nil {
		return fmt.Errorf("making the certificate: %w", err)
	}
	if err := os.WriteFile(l.script, []byte(doneScript), 0o600); err != nil {
		return err
	}
	upstream, addresses, err := startRole(ctx, l.loadCore, "upstream")
	if err != nil {
		return err
	}
	l.upstream = upstream
	if copy(l.upstreams[:], addresses) != len(l.upstreams) {
		return fmt.Errorf("the upstream listens on %q, want two addresses", addresses)
	}
	return nil
}

// close ends the upstream and removes the folder.
func (l *lab) close() {
	if l.upstream != nil {
		l.upstream.stop()
	}
	_ = os.RemoveAll(l.dir) // it is in the folder for temporary files
}

// makeCertificate writes the certificate of both servers and makes a client that
// trusts it.
func (l *lab) makeCertificate() error {
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
	l.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	return errors.Join(
		os.WriteFile(l.certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(l.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// server is one side of a comparison.
type server struct {
	process  *process
	address  string // of its TLS listener
	upstream string // the address of the upstream for this server
	header   string // of its requests
}

// startBare starts a bare proxy to the nth address of the upstream.
func (l *lab) startBare(ctx context.Context, n int) (*server, error) {
	p, addresses, err := startRole(ctx, l.serverCore, "bare",
		"-upstream", "http://"+l.upstreams[n], "-certificate", l.certificate, "-key", l.key)
	if err != nil {
		return nil, err
	}
	return &server{process: p, address: addresses[0], upstream: l.upstreams[n], header: "Accept: */*"}, nil
}

// sample is what one server did in one round.
type sample struct {
	load
	cpu  time.Duration
	peak int64 // bytes
}

// perRequest returns the processor time of one request.
func (s sample) perRequest() time.Duration { return s.cpu / time.Duration(s.requests) }

// pair is one round: two servers under load at the same time.
type pair struct{ subject, other sample }

// ratio returns the cost of the subject as a multiple of the other's.
func (p pair) ratio() float64 {
	return float64(p.subject.cpu) / float64(p.subject.requests) / (float64(p.other.cpu) / float64(p.other.requests))
}

// rounds measures the number of rounds in the options.
func (l *lab) rounds(ctx context.Context, progress io.Writer, measure func(ctx context.Context, n int) (pair, error)) (series, error) {
	var s series
	for n := range l.options.rounds {
		p, err := measure(ctx, n)
		if err != nil {
			return s, err
		}
		fmt.Fprintf(progress, "  %.3f\n", p.ratio())
		s.pairs = append(s.pairs, p)
	}
	return s, nil
}

func (l *lab) bareAgainstBare(ctx context.Context, n int) (pair, error) {
	subject, err := l.startBare(ctx, 0)
	if err != nil {
		return pair{}, err
	}
	defer subject.process.stop()
	bare, err := l.startBare(ctx, 1)
	if err != nil {
		return pair{}, err
	}
	defer bare.process.stop()
	return l.measure(ctx, n, subject, bare, "/resource")
}

// measure warms both servers up, then loads both with the same requests at the same
// time. The server that starts first changes with each round.
func (l *lab) measure(ctx context.Context, n int, subject, other *server, path string) (pair, error) {
	sides := [2]*server{subject, other}
	both := func(lasting time.Duration, do func(side int, load load)) error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range sides {
			side := (i + n) % len(sides)
			group.Go(func() error {
				seen, err := wrk(ctx, l.loadCore, l.connections, l.script, lasting, "https://"+sides[side].address+path, sides[side].header)
				if err == nil {
					do(side, seen)
				}
				return err
			})
		}
		return group.Wait()
	}
	if err := both(l.warm, func(int, load) {}); err != nil {
		return pair{}, fmt.Errorf("warming up: %w", err)
	}
	before, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	var samples [2]sample
	if err := both(l.measured, func(side int, seen load) { samples[side].load = seen }); err != nil {
		return pair{}, err
	}
	after, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	for i, side := range sides {
		samples[i].cpu = after[i].cpu - before[i].cpu
		if samples[i].peak, err = side.process.peak(); err != nil {
			return pair{}, err
		}
		if reached := after[i].reached - before[i].reached; reached < samples[i].requests {
			return pair{}, fmt.Errorf("%d requests were answered, but only %d reached the upstream", samples[i].requests, reached)
		}
	}
	return pair{subject: samples[0], other: samples[1]}, nil
}

// reading is what a server has used and answered so far.
type reading struct {
	cpu     time.Duration
	reached int64 // requests that its upstream has answered
}

func (l *lab) read(ctx context.Context, sides [2]*server) (readings [2]reading, err error) {
	for i, side := range sides {
		_, count, err := l.get(ctx, "http://"+side.upstream+countPath, "", "")
		if err != nil {
			return readings, err
		}
		if readings[i].reached, err = strconv.ParseInt(count, 10, 64); err != nil {
			return readings, fmt.Errorf("the upstream's count: %w", err)
		}
		if readings[i].cpu, err = side.process.cpu(); err != nil {
			return readings, err
		}
	}
	return readings, nil
}

// get returns the status and the body of url. It sends a header unless its name is
// empty.
func (l *lab) get(ctx context.Context, url, name, value string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if name != "" {
		request.Header.Set(name, value)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}
