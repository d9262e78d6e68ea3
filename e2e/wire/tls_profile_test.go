package wire

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// certify writes a certificate of key for localhost, and the key.
func certify(g *world.Instance, key crypto.Signer) {
	g.T.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	certificate, private := world.SelfSigned(g.T, template, key)
	g.Write("key.pem", private)
	g.Write("cert.pem", certificate)
}

// TestTLSProfile tries every cipher suite and version that Go has. The gateway accepts
// TLS 1.3, and TLS 1.2 with ECDHE and AEAD, for both kinds of keys. An RSA key would
// allow key exchange without forward secrecy.
func TestTLSProfile(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	world.NoError(t, errors.Join(err, err2))
	for kind, key := range map[string]crypto.Signer{"RSA": rsaKey, "ECDSA": ecKey} {
		g := world.Prepare(t)
		g.CA = "cert.pem"
		certify(g, key)
		g.Configure("tls: {mode: files, certificate: cert.pem, key: key.pem}\n" + targets + world.App(world.Record(t).URL))
		g.Run()
		var accepted []string
		var all []uint16
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			all = append(all, suite.ID)
			if shakesHands(g, tls.VersionTLS12, suite.ID) && !slices.Contains(suite.SupportedVersions, tls.VersionTLS13) {
				accepted = append(accepted, strings.TrimPrefix(suite.Name, "TLS_ECDHE_"+kind+"_WITH_"))
			}
		}
		slices.Sort(accepted)
		want := []string{"AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256"}
		if !slices.Equal(accepted, want) {
			t.Errorf("TLS 1.2 with %s, want TLS_ECDHE_%s_WITH_ and %s", accepted, kind, want)
		}
		for version, want := range map[uint16]bool{
			tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
		} {
			if got := shakesHands(g, version, all...); got != want {
				t.Errorf("%s: %s: %t", kind, tls.VersionName(version), got)
			}
		}
	}
}

// shakesHands reports whether the gateway accepts a client of one version.
func shakesHands(g *world.Instance, version uint16, suites ...uint16) bool {
	config := g.TLS()
	config.MinVersion, config.MaxVersion, config.CipherSuites = version, version, suites
	conn, err := tls.Dial("tcp", world.Authority(g.Base), config)
	if err != nil {
		return false
	}
	conn.Close()
	return conn.ConnectionState().Version == version
}
