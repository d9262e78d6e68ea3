package clientcert

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"authgate/gateway/store/keyfile"
)

// The files of the gateway's own authority for clients, in data_dir. The first one is for programs
// that verify certificates of the authority.
const (
	AuthorityFile    = "clients-ca.pem"
	authorityKeyFile = "clients-ca-key.pem"
)

const (
	authorityLives = 10 * 365 * 24 * time.Hour
	clockSkew      = time.Hour // by which the clock of a client may be behind
	// keySize is that of the keys of clients, in bits. Each phone and each card imports RSA keys.
	keySize       = 2048
	maxCommonName = 64 // RFC 5280, appendix A.1
)

// Authority issues certificates for clients.
type Authority struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// OpenAuthority returns the authority in a folder, and creates it if there is none. Its files
// are those of two processes that open it at once, too.
func OpenAuthority(folder string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	path, keyPath := filepath.Join(folder, AuthorityFile), filepath.Join(folder, authorityKeyFile)
	key, _, err := keyfile.KeepSigner(keyPath)
	if err != nil {
		return nil, err
	}
	certPEM, err := keyfile.KeepPublic(path, func() ([]byte, error) { return selfSign(key, now) })
	if err != nil {
		return nil, err
	}
	certificates, err := ReadAuthorities(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificates[0].PublicKey) {
		return nil, fmt.Errorf("%s and %s do not belong together; remove both to create new ones", path, keyPath)
	}
	return &Authority{Certificate: certificates[0], key: key}, nil
}

// Issue makes a key and a certificate that names a user by a kind of name, and returns them as
// PKCS #12 (RFC 7292) under a passphrase.
func (a *Authority) Issue(username, kind, passphrase string, now time.Time, lifetime time.Duration) ([]byte, error) {
	template, err := a.template(username, kind, now, lifetime)
	if err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, keySize)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issuing the certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err == nil {
		_, err = nameOf(leaf, kind)
	}
	if err != nil {
		return nil, fmt.Errorf("the name %q cannot be in a certificate as %s: %w", username, kind, err)
	}
	// Phones import this form. Its weak encryption needs a good passphrase.
	file, err := pkcs12.LegacyDES.Encode(key, leaf, []*x509.Certificate{a.Certificate}, passphrase)
	if err != nil {
		return nil, fmt.Errorf("making the PKCS #12 file: %w", err)
	}
	return file, nil
}

// template returns the fields of the certificate of a user. Browsers and phones show the
// common name when they ask for a certificate.
func (a *Authority) template(username, kind string, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	if !now.Before(a.Certificate.NotAfter) {
		return nil, fmt.Errorf("%s has expired; remove it to create a new one", AuthorityFile)
	}
	ends := now.Add(lifetime)
	if ends.After(a.Certificate.NotAfter) {
		ends = a.Certificate.NotAfter
	}
	template := &x509.Certificate{
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    ends,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len([]rune(username)) <= maxCommonName {
		template.Subject.CommonName = username
	}
	if kind == CommonName {
		if template.Subject.CommonName == "" {
			return nil, fmt.Errorf("the name %q has more than the %d characters of a common name", username,
				maxCommonName)
		}
		return template, nil
	}
	for _, r := range username {
		if r >= 0x80 {
			return nil, fmt.Errorf("the name %q is not ASCII, which %s must be; use certificates.username: cn",
				username, kind)
		}
	}
	names, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tags[kind],
		Bytes: []byte(username)}})
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = []pkix.Extension{{Id: alternativeNames, Value: names}}
	return template, nil
}

// selfSign returns the certificate of an authority with a key, in PEM.
func selfSign(key crypto.Signer, now time.Time) ([]byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authgate client CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLives),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, // it certifies no servers
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
