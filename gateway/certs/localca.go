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
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authgate/gateway/acme"
	"authgate/gateway/keyfile"
)

const (
	caFile    = "ca.pem" // for clients to trust
	caKeyFile = "ca-key.pem"
	caLives   = 10 * 365 * 24 * time.Hour
	leafLives = 90 * 24 * time.Hour
	// maxCommonName is how long a common name may be (RFC 5280, appendix A.1).
	maxCommonName = 64
	// clockSkew is how far the clock of a client may be behind.
	clockSkew = time.Hour
)

// maxLeaves is how many certificates of a localCA are kept in memory.
const maxLeaves = 1024

// localCA is the certificate authority of one gateway. It issues a certificate for
// each of the gateway's names when a client asks for it.
type localCA struct {
	now         func() time.Time
	names       map[string]bool // "*.example.org" is one
	first       string          // for clients that ask for none of them
	addresses   []net.IP        // clients that connect to one ask for no name
	certificate *x509.Certificate
	key         crypto.Signer

	mu     sync.Mutex
	leaves *lru.Cache[string, *tls.Certificate] // by name
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
	ca := &localCA{now: now, names: map[string]bool{}, first: domains[0], certificate: pair.Leaf, key: key}
	for _, domain := range domains {
		if ip := net.ParseIP(domain); ip != nil {
			ca.addresses = append(ca.addresses, ip)
		} else {
			ca.names[domain] = true
		}
	}
	ca.leaves, err = lru.New[string, *tls.Certificate](maxLeaves)
	return ca, err
}

// GetCertificate implements Source. A client that asks for one of the names gets a
// certificate of that name, or of the wildcard that it is below. Any other client
// gets the one of the first name, which is also for all addresses.
func (ca *localCA) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	if ca.names[name] {
		return ca.leaf(name)
	}
	if _, parent, below := strings.Cut(name, "."); below && ca.names["*."+parent] {
		return ca.leaf("*." + parent)
	}
	return ca.leaf(ca.first)
}

// leaf returns the certificate of a name. It issues a new one when two thirds of the
// lifetime of the present one are over, unless the authority itself expires before
// a new one would.
func (ca *localCA) leaf(name string) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	present, ok := ca.leaves.Get(name)
	if ok && !ca.due(present.Leaf) {
		return present, nil
	}
	leaf, err := ca.issue(name)
	if err != nil {
		return nil, err
	}
	ca.leaves.Add(name, leaf)
	return leaf, nil
}

// due reports whether a certificate is to be replaced.
func (ca *localCA) due(leaf *x509.Certificate) bool {
	return leaf.NotAfter.Sub(ca.now()) < leafLives/3 && leaf.NotAfter.Before(ca.certificate.NotAfter)
}

// Refresh implements Source. GetCertificate renews the certificates.
func (ca *localCA) Refresh() error { return nil }

// Certificates implements Source. It describes the certificate of the first name:
// the others are issued when they are needed.
func (ca *localCA) Certificates() []acme.Certificate {
	c := acme.Certificate{Domain: ca.first}
	if leaf, err := ca.leaf(ca.first); err != nil {
		c.Problem = err.Error()
	} else {
		c.Expires = leaf.Leaf.NotAfter
	}
	return []acme.Certificate{c}
}

// issue issues a certificate of a name.
func (ca *localCA) issue(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ends := ca.now().Add(leafLives)
	if ends.After(ca.certificate.NotAfter) {
		ends = ca.certificate.NotAfter
	}
	template := &x509.Certificate{
		NotBefore:   ca.now().Add(-clockSkew),
		NotAfter:    ends,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(name) <= maxCommonName {
		template.Subject.CommonName = name
	}
	if net.ParseIP(name) == nil {
		template.DNSNames = []string{name}
	}
	if name == ca.first {
		template.IPAddresses = ca.addresses
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
