// Package certtest makes certificate authorities, certificates of clients, and lists of revoked
// ones, for tests.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"
)

// CA is an authority.
type CA struct {
	t           testing.TB
	Certificate *x509.Certificate
	above       []*x509.Certificate // between it and its root
	key         crypto.Signer
	now         time.Time
}

// New returns a root whose certificates are valid for a day from now.
func New(t testing.TB, name string, now time.Time) *CA {
	t.Helper()
	ca := &CA{t: t, now: now, key: newKey(t)}
	ca.Certificate = ca.sign(authority(name), nil, ca.key)
	return ca
}

// Intermediate returns an authority below ca.
func (ca *CA) Intermediate(name string) *CA {
	ca.t.Helper()
	below := &CA{t: ca.t, now: ca.now, key: newKey(ca.t)}
	below.Certificate = ca.sign(authority(name), ca.Certificate, below.key)
	below.above = append([]*x509.Certificate{below.Certificate}, ca.above...)
	return below
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// Client returns a certificate for the authentication of a client, after change has changed what
// it says.
func (ca *CA) Client(change ...func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	template := &x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, f := range change {
		f(template)
	}
	key := newKey(ca.t)
	leaf := ca.sign(template, ca.Certificate, key)
	issued := tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	for _, above := range ca.above {
		issued.Certificate = append(issued.Certificate, above.Raw)
	}
	return issued
}

// Named changes what a certificate says to a common name.
func Named(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, name := range names {
			c.Subject.ExtraNames = append(c.Subject.ExtraNames,
				pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 3}, Value: name})
		}
	}
}

// Email changes what a certificate says to addresses, and URI to a URI.
func Email(addresses ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.EmailAddresses = addresses }
}

// URI changes what a certificate says to a URI.
func URI(uri string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		parsed, err := url.Parse(uri)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{parsed}
	}
}

// sign signs a certificate by an issuer, or by its own key.
func (ca *CA) sign(template, issuer *x509.Certificate, key crypto.Signer) *x509.Certificate {
	ca.t.Helper()
	if template.NotAfter.IsZero() {
		template.NotAfter = ca.now.Add(24 * time.Hour)
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = ca.now.Add(-time.Hour)
	}
	if issuer == nil {
		issuer = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return parse(ca.t, der)
}

// List returns a list of the certificates that the authority has revoked, in DER. The next one
// is due after a time.
func (ca *CA) List(due time.Duration, revoked ...*x509.Certificate) []byte {
	ca.t.Helper()
	return ca.list(due, nil, revoked)
}

// IndirectList returns a list that says of each certificate that another authority has issued it
// (RFC 5280, section 5.3.3).
func (ca *CA) IndirectList(revoked ...*x509.Certificate) []byte {
	ca.t.Helper()
	const issuer = "\x30\x11\xa4\x0f\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02CA" // CN=CA
	names := pkix.Extension{Id: []int{2, 5, 29, 29}, Critical: true, Value: []byte(issuer)}
	return ca.list(time.Hour, []pkix.Extension{names}, revoked)
}

// list returns a list whose entries have extensions.
func (ca *CA) list(due time.Duration, extensions []pkix.Extension, revoked []*x509.Certificate) []byte {
	ca.t.Helper()
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: ca.now, NextUpdate: ca.now.Add(due)}
	if due < 0 {
		template.ThisUpdate = template.NextUpdate.Add(-time.Hour)
	}
	for _, one := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: one.SerialNumber, RevocationTime: ca.now, ExtraExtensions: extensions,
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, ca.Certificate, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return der
}

// PEM returns the certificates of authorities in PEM.
func PEM(authorities ...*CA) string {
	var all []byte
	for _, ca := range authorities {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw})...)
	}
	return string(all)
}

// ListPEM returns lists in PEM.
func ListPEM(lists ...[]byte) string {
	var all []byte
	for _, list := range lists {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list})...)
	}
	return string(all)
}

// Chain returns the certificates that a client presents, leaf first.
func Chain(t testing.TB, issued tls.Certificate) []*x509.Certificate {
	t.Helper()
	var chain []*x509.Certificate
	for _, der := range issued.Certificate {
		chain = append(chain, parse(t, der))
	}
	return chain
}

// Fields returns what a proxy sends of a client's certificate, as lines of a header (RFC 9440).
func Fields(issued tls.Certificate) (lines []string) {
	var sequences []string
	for _, der := range issued.Certificate {
		sequences = append(sequences, ":"+base64.StdEncoding.EncodeToString(der)+":")
	}
	lines = append(lines, "Client-Cert: "+sequences[0])
	for _, above := range slices.Clone(sequences[1:]) {
		lines = append(lines, "Client-Cert-Chain: "+above)
	}
	return lines
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
