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
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// postedBytes is the length of a body that is posted.
const postedBytes = 1 << 10

// lab is what all measurements share: a folder, a certificate, the upstream, and a
// client that trusts the certificate.
type lab struct {
	options
	dir, self              string // self: the program of bench
	certificate, key, both string // files
	script, postScript     string // files for wrk
	posted                 string // the file that is posted
	upstream               *process
	upstreams              [2]string // its addresses for the two servers
	serverCores            string    // of authgate; empty: serverCore
	roots                  *x509.CertPool
	client                 *http.Client
}

func newLab(ctx context.Context, o options) (*lab, error) {
	dir, err := os.MkdirTemp("", "authgate-bench-")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &lab{
		options: o, dir: dir, self: self,
		certificate: filepath.Join(dir, "certificate.pem"),
		key:         filepath.Join(dir, "key.pem"),
		both:        filepath.Join(dir, "both.pem"),
		script:      filepath.Join(dir, "done.lua"),
		postScript:  filepath.Join(dir, "post.lua"),
		posted:      filepath.Join(dir, "posted"),
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
	for file, text := range map[string]string{
		l.script: doneScript, l.postScript: fmt.Sprintf(postScript, l.posted) + doneScript, l.posted: strings.Repeat("x", postedBytes),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
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

// makeCertificate writes the certificate of all servers and makes a client that
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
	l.roots = x509.NewCertPool()
	l.roots.AddCert(certificate)
	l.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: l.roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return errors.Join(
		os.WriteFile(l.certificate, public, 0o600),
		os.WriteFile(l.key, private, 0o600),
		os.WriteFile(l.both, append(public, private...), 0o600))
}

// get returns the status and the body of url. Each header is a line.
func (l *lab) get(ctx context.Context, url string, headers ...string) (int, string, error) {
	status, _, body, err := l.exchange(ctx, url, headers...)
	return status, body, err
}

// exchange returns the status, the header and the body of url. Each header is a line.
func (l *lab) exchange(ctx context.Context, url string, headers ...string) (int, http.Header, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, "", err
	}
	for _, line := range headers {
		name, value := header(line)
		if name == "Host" {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(answer), err
}

// build builds authgate, unless the options name a program.
func (l *lab) build(ctx context.Context) error {
	if l.authgate != "" {
		return nil
	}
	l.authgate = filepath.Join(l.dir, "authgate")
	build := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", l.authgate, "authgate/cmd/authgate")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building authgate: %w\n%s", err, out)
	}
	return nil
}
