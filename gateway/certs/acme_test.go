package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
)

// noAuthority is the directory of an authority that cannot be reached. Tests put
// the certificates that it would have issued into the storage.
const noAuthority = "https://127.0.0.1:1/directory"

// acmeConfig is mode acme for gw.example and other.example.
func acmeConfig(dir string) *config.Config {
	return &config.Config{
		DataDir: dir, Listen: listening.Listen{HTTPS: ":8443"},
		TLS: listening.TLS{Mode: listening.TLSACME, Domains: []string{"GW.example", "other.example"}, Directory: noAuthority},
	}
}

// issuedFiles are the names of the files of gw.example in a storage.
func issuedFiles() (certificate, key, meta string) {
	keys, issuer := certmagic.StorageKeys, (&certmagic.ACMEIssuer{CA: noAuthority}).IssuerKey()
	return keys.SiteCert(issuer, "gw.example"), keys.SitePrivateKey(issuer, "gw.example"),
		keys.SiteMeta(issuer, "gw.example")
}

// keepIssued stores a certificate of gw.example that expires in 90 days, as certmagic
// does, and returns it.
func keepIssued(t *testing.T, s certmagic.Storage) *x509.Certificate {
	t.Helper()
	pair := must(must(openLocalCA(t.TempDir(), []string{"gw.example"}, time.Now, discard())).
		GetCertificate(&tls.ClientHelloInfo{}))
	certificate, key, meta := issuedFiles()
	for file, content := range map[string][]byte{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		key: pem.EncodeToMemory(&pem.Block{
			Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey)),
		}),
		meta: []byte("{}"),
	} {
		if err := s.Store(t.Context(), file, content); err != nil {
			t.Fatal(err)
		}
	}
	return pair.Leaf
}

// acmeFiles is the storage of a gateway without Redis.
func acmeFiles(dir string) *certmagic.FileStorage {
	return &certmagic.FileStorage{Path: filepath.Join(dir, acmeFolder)}
}

// openCerts opens the certificates of cfg until the test ends.
func openCerts(t *testing.T, cfg *config.Config, shared certmagic.Storage) Source {
	t.Helper()
	certs, err := Open(Options{Config: cfg, Shared: shared, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := certs.(authority); ok {
		t.Cleanup(m.Close)
	}
	return certs
}

// A gateway stores certificates in data_dir, for its owner only. Instances that share
// a storage have their certificates there, and nothing in data_dir.
func TestACMEStorage(t *testing.T) {
	dir := t.TempDir()
	for _, shared := range []certmagic.Storage{&certmagic.FileStorage{Path: t.TempDir()}, nil} {
		var want *x509.Certificate
		if shared != nil {
			want = keepIssued(t, shared)
		} else {
			want = keepIssued(t, acmeFiles(dir))
		}
		certs := openCerts(t, acmeConfig(dir), shared)
		all := []acme.Certificate{
			{Domain: "gw.example", Begins: want.NotBefore, Expires: want.NotAfter}, {Domain: "other.example"},
		}
		if got := certs.Certificates(); !slices.Equal(got, all) || !leafOf(t, certs).Equal(want) {
			t.Errorf("got %+v, or another certificate is served; want %+v", got, all)
		}
		if entries, err := os.ReadDir(dir); err != nil || shared != nil && len(entries) != 0 {
			t.Errorf("data_dir holds %v (%v)", entries, err)
		}
	}
	err := filepath.WalkDir(filepath.Join(dir, acmeFolder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// tls.trusted_roots are added to the roots of the system.
func TestRootsWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := openCA(t, dir, time.Now)
	system := must(x509.SystemCertPool())
	roots, err := section.RootsWith(must(os.ReadFile(filepath.Join(dir, caFile))))
	if err != nil || system.Equal(roots) {
		t.Errorf("the roots are those of the system alone: %v", err)
	}
	if system.AddCert(ca.certificate); !system.Equal(roots) {
		t.Error("the roots are not those of the system and the file")
	}
	if none, err := section.RootsWith(nil); none != nil || err != nil {
		t.Errorf("without a file: %v, %v, want those that package tls knows", none, err)
	}
	cfg := acmeConfig(dir)
	cfg.TLS.TrustedRoots, cfg.TLS.TrustedRootsContent = caKeyFile, must(os.ReadFile(filepath.Join(dir, caKeyFile)))
	if _, err := openACME(Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)}); err == nil ||
		!strings.Contains(err.Error(), "tls.trusted_roots") {
		t.Errorf("a key instead of roots: %v", err)
	}
}

// Only mode acme offers the protocol of challenges.
func TestChallengeProtocol(t *testing.T) {
	dir := t.TempDir()
	for certs, want := range map[Source][]string{
		openCerts(t, acmeConfig(dir), nil): {"h2", "http/1.1", acme.Protocol}, openCA(t, dir, time.Now): {"h2", "http/1.1"},
	} {
		if got := TLSConfig(certs, nil).NextProtos; !slices.Equal(got, want) {
			t.Errorf("%T: it offers %q, want %q", certs, got, want)
		}
	}
}
