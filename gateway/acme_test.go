package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/acme"
	"authgate/gateway/config"
	"authgate/gateway/seal"
	"authgate/gateway/store"
)

// noAuthority is the address of an authority that cannot be reached. What it would
// have issued, tests keep where it is looked for.
const noAuthority = "https://127.0.0.1:1/directory"

// acmeConfig is mode acme for gw.example and other.example.
const acmeConfig = "tls: {mode: acme, domains: [GW.example, other.example], directory: \"" + noAuthority + "\"}\n"

// keepIssued puts a certificate that ends 90 days after now into the storage,
// as certmagic does, and returns it.
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

// acmeFiles is where a gateway without Redis keeps its certificates.
func acmeFiles(dir string) *certmagic.FileStorage {
	return &certmagic.FileStorage{Path: filepath.Join(dir, acmeFolder)}
}

// openCerts opens what cfg says, until the test ends.
func openCerts(t *testing.T, cfg *config.Config, shared store.Store) certificates {
	t.Helper()
	certs, err := openCertificates(cfg, shared, time.Now, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := certs.(*acme.Manager); ok {
		t.Cleanup(m.Close)
	}
	return certs
}

// A gateway alone keeps certificates in data_dir, where nobody else may read
// them.
func TestACMEInFiles(t *testing.T) {
	dir := t.TempDir()
	want := keepIssued(t, acmeFiles(dir), "gw.example", time.Now)
	certs := openCerts(t, parseConfig(t, dir, baseConfig+acmeConfig), nil)
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

// Instances on Redis share one storage, sealed with store.encryption_key, and
// nothing is in data_dir.
func TestACMEInTheSharedStore(t *testing.T) {
	const secret = "a secret of its own that is long enough"
	shared := store.NewMemory(nil)
	defer shared.Close()
	box, err := seal.New([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	want := keepIssued(t, acme.NewStorage(shared, box, time.Now), "gw.example", time.Now)
	open := func(key string) (string, acme.Certificate) {
		dir := t.TempDir()
		yaml := strings.Replace(baseConfig, "store: {driver: memory}", `store: {driver: redis, encryption_key: "`+key+`"}`+"\n"+sharedSecret, 1)
		return dir, openCerts(t, parseConfig(t, dir, yaml+acmeConfig), shared).Certificates()[0]
	}
	dir, got := open(secret)
	if got != (acme.Certificate{Domain: "gw.example", Expires: want.NotAfter}) {
		t.Errorf("there is %+v", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("data_dir holds %v (%v)", entries, err)
	}
	if _, got := open(strings.ToUpper(secret)); !got.Expires.IsZero() || !strings.Contains(got.Problem, "store.encryption_key") {
		t.Errorf("with another key: %+v", got)
	}
}

// tls.trusted_roots come beside those of the system.
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
		cfg := parseConfig(t, dir, baseConfig+acmeConfig)
		cfg.TLS.TrustedRoots = path // checked when the configuration is read, and gone since
		if _, err := openACME(cfg, nil, time.Now, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "tls.trusted_roots") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The protocol of challenges is offered in mode acme alone, and never chosen
// where a client speaks HTTP.
func TestChallengeProtocol(t *testing.T) {
	dir := t.TempDir()
	m := openCerts(t, parseConfig(t, dir, baseConfig+acmeConfig), nil)
	if got := tlsConfig(m).NextProtos; !slices.Equal(got, []string{"h2", "http/1.1", acme.Protocol}) {
		t.Errorf("mode acme offers %q", got)
	}
	if got := tlsConfig(openCA(t, dir, time.Now)).NextProtos; !slices.Equal(got, []string{"h2", "http/1.1"}) {
		t.Errorf("mode internal offers %q", got)
	}
}

// TestServerOfACME asks both listeners of a server: the authority gets the
// answer to its challenge, and everybody else what they always get.
func TestServerOfACME(t *testing.T) {
	r := newRig(t, baseConfig+acmeConfig+anyPort)
	files := acmeFiles(r.dir)
	leaf := keepIssued(t, files, "gw.example", time.Now)
	challenge, err := json.Marshal(map[string]any{
		"type": "http-01", "token": "token", "keyAuthorization": "token.thumbprint",
		"identifier": map[string]string{"type": "dns", "value": "gw.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	issuer := certmagic.StorageKeys.Safe((&certmagic.ACMEIssuer{CA: noAuthority}).IssuerKey())
	if err := files.Store(t.Context(), "acme/"+issuer+"/challenge_tokens/gw.example.json", challenge); err != nil {
		t.Fatal(err)
	}
	s := serverOn(t, r)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	const path = "/.well-known/acme-challenge/token"
	for _, c := range []struct {
		host, path string
		status     int
		body       string
	}{
		{"gw.example", path, http.StatusOK, "token.thumbprint"},
		{"other.example", path, http.StatusPermanentRedirect, ""},
		{"evil.example", path, http.StatusPermanentRedirect, ""},
		{"gw.example", "/public/", http.StatusPermanentRedirect, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Address("http")+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || c.body != "" && string(body) != c.body || bytes.Contains(body, []byte("thumbprint")) != (c.body != "") {
			t.Errorf("%s%s: %d %s (%v)", c.host, c.path, answer.StatusCode, body, err)
		}
	}
	for _, protocols := range [][]string{nil, {"http/1.1"}, {acme.Protocol, "http/1.1"}} {
		conn, err := tls.Dial("tcp", s.Address("https"), &tls.Config{ServerName: "gw.example", NextProtos: protocols, InsecureSkipVerify: true})
		if err != nil {
			t.Fatalf("%q: %v", protocols, err)
		}
		if state := conn.ConnectionState(); !state.PeerCertificates[0].Equal(leaf) || state.NegotiatedProtocol == acme.Protocol {
			t.Errorf("%q: %s with the certificate %v", protocols, state.NegotiatedProtocol, state.PeerCertificates[0].DNSNames)
		}
		conn.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
