package certs

import (
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

	"authgate/gateway/acme"
	"authgate/gateway/config"
)

// noAuthority is the directory of an authority that cannot be reached. Tests put
// the certificates that it would have issued into the storage.
const noAuthority = "https://127.0.0.1:1/directory"

// acmeConfig is mode acme for gw.example and other.example.
func acmeConfig(dir string) *config.Config {
	return &config.Config{
		DataDir: dir, Listen: config.Listen{HTTPS: ":8443"},
		TLS: config.TLS{Mode: config.TLSACME, Domains: []string{"GW.example", "other.example"}, Directory: noAuthority},
	}
}

// keepIssued stores a certificate that expires 90 days after now, as certmagic
// does, and returns it.
func keepIssued(t *testing.T, s certmagic.Storage, name string, now func() time.Time) *x509.Certificate {
	t.Helper()
	ca, err := openLocalCA(t.TempDir(), []string{name}, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keys, issuer := certmagic.StorageKeys, (&certmagic.ACMEIssuer{CA: noAuthority}).IssuerKey()
	for file, content := range map[string][]byte{
		keys.SiteCert(issuer, name):       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		keys.SitePrivateKey(issuer, name): pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		keys.SiteMeta(issuer, name):       []byte("{}"),
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
	certs, err := Open(cfg, shared, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := certs.(*acme.Manager); ok {
		t.Cleanup(m.Close)
	}
	return certs
}

// A gateway without shared storage stores certificates in data_dir, for its owner
// only.
func TestACMEInFiles(t *testing.T) {
	dir := t.TempDir()
	want := keepIssued(t, acmeFiles(dir), "gw.example", time.Now)
	certs := openCerts(t, acmeConfig(dir), nil)
	all := certs.Certificates()
	if len(all) != 2 || all[0] != (acme.Certificate{Domain: "gw.example", Expires: want.NotAfter}) || all[1] != (acme.Certificate{Domain: "other.example"}) {
		t.Errorf("there is %+v", all)
	}
	if !leafOf(t, certs).Equal(want) {
		t.Error("another certificate is served")
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

// Instances that share a storage have their certificates there, and nothing in
// data_dir.
func TestACMEInASharedStorage(t *testing.T) {
	t.Parallel()
	dir, shared := t.TempDir(), &certmagic.FileStorage{Path: t.TempDir()}
	want := keepIssued(t, shared, "gw.example", time.Now)
	certs := openCerts(t, acmeConfig(dir), shared)
	if got := certs.Certificates()[0]; got != (acme.Certificate{Domain: "gw.example", Expires: want.NotAfter}) {
		t.Errorf("there is %+v", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("data_dir holds %v (%v)", entries, err)
	}
}

// tls.trusted_roots are added to the roots of the system.
func TestRootsWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := openCA(t, dir, time.Now)
	roots, err := rootsWith(filepath.Join(dir, caFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leafOf(t, ca).Verify(x509.VerifyOptions{DNSName: "gw.example", Roots: roots}); err != nil {
		t.Error(err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if system.Equal(roots) {
		t.Error("the roots are those of the system alone")
	}
	system.AddCert(ca.certificate)
	if !system.Equal(roots) {
		t.Error("the roots are not those of the system and the file")
	}
	for _, path := range []string{filepath.Join(dir, caKeyFile), filepath.Join(dir, "nowhere")} {
		if roots, err := rootsWith(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", path, roots, err)
		}
		cfg := acmeConfig(dir)
		cfg.TLS.TrustedRoots = path // it was there when the configuration was read
		if _, err := openACME(cfg, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "tls.trusted_roots") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Only mode acme offers the protocol of challenges.
func TestChallengeProtocol(t *testing.T) {
	dir := t.TempDir()
	m := openCerts(t, acmeConfig(dir), nil)
	if got := TLSConfig(m).NextProtos; !slices.Equal(got, []string{"h2", "http/1.1", acme.Protocol}) {
		t.Errorf("mode acme offers %q", got)
	}
	if got := TLSConfig(openCA(t, dir, time.Now)).NextProtos; !slices.Equal(got, []string{"h2", "http/1.1"}) {
		t.Errorf("mode internal offers %q", got)
	}
}
