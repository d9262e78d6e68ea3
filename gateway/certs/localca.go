package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/store/keyfile"
	"authgate/gateway/store/lru"
)

const (
	caFile    = listening.AuthorityFile // for clients to trust
	caKeyFile = "ca-key.pem"
	caLives   = 10 * 365 * 24 * time.Hour
	leafLives = 90 * 24 * time.Hour
	// maxCommonName is how long a common name may be (RFC 5280, appendix A.1).
	maxCommonName = 64
	// clockSkew is how far the clock of a client may be behind.
	clockSkew = time.Hour
	// maxSent is how large the certificate of the authority may be to be sent to clients,
	// which have it (RFC 8446, section 4.4.2). It names all hosts.
	maxSent = 4 << 10
	// retryAfter is the pause before the certificate of the authority, which could not be
	// written, is written again.
	retryAfter = time.Minute
)

// maxLeaves is how many certificates of a localCA are kept in memory.
const maxLeaves = 1024

// localCA is the certificate authority of one gateway. It issues a certificate for
// each of the gateway's names when a client asks for it. Its own certificate permits
// these names alone.
type localCA struct {
	folder string
	now    func() time.Time
	logger *slog.Logger
	key    crypto.Signer

	mu          sync.Mutex
	names       *caNames
	certificate *x509.Certificate                    // as it is in folder
	failed      time.Time                            // the last attempt to replace it; zero: none is to be repeated
	leaves      *lru.Cache[string, *tls.Certificate] // by name
}

// openLocalCA returns the authority in the folder, for these domains and addresses. It
// creates the authority if there is none.
func openLocalCA(folder string, domains []string, now func() time.Time, logger *slog.Logger) (*localCA, error) {
	key, keyPEM, err := keyfile.KeepSigner(filepath.Join(folder, caKeyFile))
	if err != nil {
		return nil, err
	}
	names := newCANames(domains)
	certPEM, err := keyfile.KeepPublic(filepath.Join(folder, caFile),
		func() ([]byte, error) { return selfSign(key, names, nil, now()) })
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s in %s do not belong together; remove both to create new ones: %w", caFile,
			caKeyFile, folder, err)
	}
	if !now().Before(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s in %s has expired; remove it to create a new one", caFile, folder)
	}
	ca := &localCA{folder: folder, now: now, logger: logger, key: key, certificate: pair.Leaf}
	return ca, ca.setNames(names)
}

// setNames makes the authority one of these names.
func (ca *localCA) setNames(names *caNames) (err error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.names = names
	ca.constrain()
	ca.leaves = lru.New[string, *tls.Certificate](maxLeaves)
	return nil
}

// constrain issues the certificate of the authority anew, with the same key, unless it
// permits exactly the names. If it cannot be written, the present one stays, and the
// next handshake after retryAfter tries again: clients that have the present one do
// without the new names meanwhile. The caller holds the lock.
func (ca *localCA) constrain() {
	ca.failed = time.Time{}
	old := ca.certificate
	if !selfSigned(old) || ca.names.areThoseOf(old) {
		return // an operator's own authority below another one cannot be issued here
	}
	path := filepath.Join(ca.folder, caFile)
	issued, err := ca.reissue(path)
	if err != nil {
		ca.failed = ca.now()
		ca.logger.Error("the certificate of the local authority cannot be issued anew; "+
			"clients refuse the names that the present one does not permit, and it is tried again",
			"file", path, "error", err.Error())
		return
	}
	ca.certificate = issued
	added, removed := ca.names.since(old)
	ca.logger.Warn("the certificate of the local authority is issued anew, with the same key, because it permits only "+
		"the gateway's names; "+
		"clients need the new one: with the old one they refuse the names that are new",
		"file", path, "new", added, "removed", removed)
}

// reissue replaces the certificate in the file at path, and returns the new one.
func (ca *localCA) reissue(path string) (*x509.Certificate, error) {
	content, err := selfSign(ca.key, ca.names, ca.certificate, ca.now())
	if err != nil {
		return nil, err
	}
	if err := keyfile.ReplacePublic(path, content); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	return x509.ParseCertificate(block.Bytes)
}

// GetCertificate implements Source. A client that asks for one of the names gets a
// certificate of that name, or of the wildcard that it is below. Any other client gets
// one of the first name and of the address that it has connected to, or of all addresses
// if that is none of them.
func (ca *localCA) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if !ca.failed.IsZero() && ca.now().Sub(ca.failed) >= retryAfter {
		ca.constrain()
	}
	return ca.leaf(ca.names.certified(hello))
}

// leaf returns the certificate of a subject that caNames.certified returns. It issues a new one when two
// thirds of the lifetime of the present one are over, unless the authority itself expires before a new one
// would. The caller holds the lock.
func (ca *localCA) leaf(name string) (*tls.Certificate, error) {
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
func (ca *localCA) Refresh(cfg *config.Config) error {
	names := newCANames(cfg.TLS.Domains)
	ca.mu.Lock()
	same := names.equal(ca.names)
	ca.mu.Unlock()
	if same {
		return nil
	}
	return ca.setNames(names)
}

// Certificates implements Source. It describes the certificate of the first name:
// the others are issued when they are needed.
func (ca *localCA) Certificates() []acme.Certificate {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	c := acme.Certificate{Domain: ca.names.first}
	if leaf, err := ca.leaf(""); err != nil {
		c.Problem = err.Error()
	} else {
		c.Begins, c.Expires = leaf.Leaf.NotBefore, leaf.Leaf.NotAfter
	}
	return []acme.Certificate{c}
}

// issue issues a certificate for leaf. It has no name or address that the client needs
// not, because the client may have an authority that does not permit a new one yet.
func (ca *localCA) issue(certified string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	name, addresses := certified, ca.names.addressesOf(certified)
	if len(addresses) > 0 || name == "" {
		name = ca.names.first
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
		IPAddresses: addresses,
	}
	if net.ParseIP(name) == nil {
		template.DNSNames = []string{name}
		if len(name) <= maxCommonName {
			template.Subject.CommonName = name // not an address: OpenSSL takes it for a name that ca does not permit
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
	chain := [][]byte{der}
	if !selfSigned(ca.certificate) || len(ca.certificate.Raw) <= maxSent {
		chain = append(chain, ca.certificate.Raw)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}

// selfSigned reports whether clients trust the certificate itself, and not one above.
func selfSigned(certificate *x509.Certificate) bool {
	return bytes.Equal(certificate.RawIssuer, certificate.RawSubject)
}

// selfSign returns the certificate of an authority of these names, in PEM. It takes the
// place of old, which may be nil. The subject and the key identifier, by which clients
// find an issuer, stay the same. So clients that trust the old or the new certificate
// accept certificates of the key.
func selfSign(key crypto.Signer, names *caNames, old *x509.Certificate, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authgate local CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(caLives),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	if old != nil {
		template.RawSubject, template.SubjectKeyId = old.RawSubject, old.SubjectKeyId
	}
	names.constrain(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
