package redisstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"authgate/e2e/redistest"
	"authgate/gateway/store/redisstore"
)

// startTLS starts a Redis that also listens for TLS at address, with a
// certificate by one of roots.
func startTLS(t testing.TB) (redis *redistest.Server, address string, roots *x509.CertPool) {
	t.Helper()
	lender := httptest.NewUnstartedServer(nil) // has a certificate for 127.0.0.1
	lender.StartTLS()
	defer lender.Close()
	lent := lender.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(lent.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate := write("cert.pem", "CERTIFICATE", lent.Certificate[0])
	address = freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	redis = startServer(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", certificate,
		"--tls-cert-file", certificate, "--tls-key-file", write("key.pem", "PRIVATE KEY", key))
	roots = x509.NewCertPool()
	roots.AddCert(lender.Certificate())
	return redis, address, roots
}

// TestTLS reaches Redis by TLS with the authority that issued its
// certificate, and does not with any other.
func TestTLS(t *testing.T) {
	t.Parallel()
	redis, address, roots := startTLS(t)
	s := openTest(t, redisstore.Options{Addresses: []string{address}, TLS: &tls.Config{RootCAs: roots}})
	put(t, s, "key", "value")
	warm(t, s, "key", redis)
	for name, config := range map[string]*tls.Config{"no TLS": nil, "another authority": {RootCAs: x509.NewCertPool()}} {
		s := openTest(t, redisstore.Options{Addresses: []string{address}, TLS: config})
		wantOutage(t, name, s.Ping(t.Context()))
	}
}
