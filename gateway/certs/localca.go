package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"authgate/gateway/acme"
	"authgate/gateway/keyfile"
)

const (
	caFile    = "ca.pem" // for clients to trust
	caKeyFile = "ca-key.pem"
	caLives   = 10 * 365 * 24 * time.Hour
	leafLives = 90 * 24 * time.Hour
	// clockSkew is how far the clock of a client may be behind.
	clockSkew = time.Hour
)

// localCA is the certificate authority of one gateway, and the certificate that
// it has issued to the gateway.
type localCA struct {
	now         func() time.Time
	domains     []string
	certificate *x509.Certificate
	key         crypto.Signer

	mu   sync.Mutex
	leaf *tls.Certificate
}

// openLocalCA returns the authority in dir, for these domains and addresses. It
// creates the authority if there is none.
func openLocalCA(dir string, domains []string, now func() time.Time) (*localCA, error) {
	keyPEM, err := keyfile.Keep(filepath.Join(dir, caKeyFile), generateECKey)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, caKeyFile), err)
	}
	certPEM, err := keyfile.KeepPublic(filepath.Join(dir, caFile), func() ([]byte, error) { return selfSign(key, now()) })
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s in %s do not belong together; remove both to create new ones: %w", caFile, caKeyFile, dir, err)
	}
	if !now().Before(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s in %s has expired; remove it to create a new one", caFile, dir)
	}
	return &localCA{now: now, domains: domains, certificate: pair.Leaf, key: key}, nil
}

// GetCertificate implements Source. It issues a new certificate when two thirds
// of the lifetime of the present one are over, unless the authority itself
// expires before a new one would.
func (ca *localCA) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if ca.leaf == nil || ca.due(ca.leaf.Leaf) {
		leaf, err := ca.issue()
		if err != nil {
			return nil, err
		}
		ca.leaf = leaf
	}
	return ca.leaf, nil
}

// due reports whether a certificate is to be replaced.
func (ca *localCA) due(leaf *x509.Certificate) bool {
	return leaf.NotAfter.Sub(ca.now()) < leafLives/3 && leaf.NotAfter.Before(ca.certificate.NotAfter)
}

// Refresh implements Source. GetCertificate renews the certificate.
func (ca *localCA) Refresh() error { return nil }

// Certificates implements Source.
func (ca *localCA) Certificates() []acme.Certificate {
	c := acme.Certificate{Domain: ca.domains[0]}
	if leaf, err := ca.GetCertificate(nil); err != nil {
		c.Problem = err.Error()
	} else {
		c.Expires = leaf.Leaf.NotAfter
	}
	return []acme.Certificate{c}
}

func (ca *localCA) issue() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ends := ca.now().Add(leafLives)
	if ends.After(ca.certificate.NotAfter) {
		ends = ca.certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: ca.domains[0]},
		NotBefore:   ca.now().Add(-clockSkew),
		NotAfter:    ends,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, domain := range ca.domains {
		if ip := net.ParseIP(domain); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, domain)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, ca.certificate.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func selfSign(key crypto.Signer, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authgate local CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(caLives),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func generateECKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseKey(content []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it contains no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it contains no signing key")
	}
	return signer, nil
}
