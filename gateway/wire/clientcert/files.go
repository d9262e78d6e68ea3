package clientcert

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ReadAuthorities returns the certificates in a file in PEM.
func ReadAuthorities(content []byte) ([]*x509.Certificate, error) {
	encoded, err := blocks(content, "CERTIFICATE") // others, such as a key beside it, are left out
	if err != nil {
		return nil, err
	}
	var list []*x509.Certificate
	for i, der := range encoded {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		list = append(list, certificate)
	}
	return list, nil
}

// blocks returns the blocks of a kind in a file in PEM. Package pem passes over one that is damaged,
// cut off, or begins on the line of another one's end; here, that is an error.
func blocks(content []byte, kind string) (found [][]byte, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			found = append(found, block.Bytes)
		}
	}
	switch begun := bytes.Count(content, []byte("-----BEGIN "+kind+"-----")); {
	case begun != len(found):
		return nil, fmt.Errorf("it begins %d times %s in PEM, of which %d can be read: one is damaged or cut off, "+
			"or does not begin on a line of its own", begun, kind, len(found))
	case begun == 0:
		return nil, fmt.Errorf("it contains no %s in PEM", kind)
	}
	return found, nil
}

// List is a list of revoked certificates (RFC 5280, section 5) that a client CA has signed.
type List struct {
	Issuer     string    // for operators
	NextUpdate time.Time // when a newer list should be there; zero if it does not say
	signer     *x509.Certificate
	serials    map[string]bool // of the certificates that it revokes, as bytes
}

// Stale reports whether a newer list should be there.
func (l *List) Stale(now time.Time) bool { return !l.NextUpdate.IsZero() && now.After(l.NextUpdate) }

// ReadLists returns the lists in a file, in PEM or one in DER. Each must be signed by one of the
// authorities.
func ReadLists(content []byte, authorities []*x509.Certificate) ([]*List, error) {
	encoded, err := [][]byte{content}, error(nil)
	if bytes.Contains(content, []byte("-----BEGIN ")) {
		encoded, err = blocks(content, "X509 CRL")
	}
	if err != nil {
		return nil, err
	}
	var lists []*List
	for i, der := range encoded {
		list, err := readList(der, authorities)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

var (
	// deltaList is the extension of lists that only tell changes (RFC 5280, section 5.2.4).
	deltaList = asn1.ObjectIdentifier{2, 5, 29, 27}
	// otherIssuer is the extension of an entry whose certificate, like those of the entries after it,
	// another authority than the signer of the list has issued (RFC 5280, section 5.3.3).
	otherIssuer = asn1.ObjectIdentifier{2, 5, 29, 29}
)

func readList(der []byte, authorities []*x509.Certificate) (*List, error) {
	parsed, err := x509.ParseRevocationList(der)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w; expected a list of version 2 (RFC 5280, section 5.1)", err)
	case len(parsed.Raw) != len(der):
		return nil, errors.New("something follows it; several lists must be in PEM")
	case has(parsed.Extensions, deltaList):
		return nil, errors.New("it only tells what has changed since another list (a delta CRL); give the whole list")
	}
	for _, ca := range authorities {
		if bytes.Equal(ca.RawSubject, parsed.RawIssuer) && parsed.CheckSignatureFrom(ca) == nil {
			return newList(parsed, ca)
		}
	}
	return nil, errors.New("no certificate of tls.client_ca has signed it")
}

func newList(parsed *x509.RevocationList, signer *x509.Certificate) (*List, error) {
	list := &List{
		Issuer: parsed.Issuer.String(), NextUpdate: parsed.NextUpdate, signer: signer,
		serials: make(map[string]bool, len(parsed.RevokedCertificateEntries)),
	}
	for _, entry := range parsed.RevokedCertificateEntries {
		if has(entry.Extensions, otherIssuer) {
			return nil, fmt.Errorf("its entry for the serial number %x names another issuer (an indirect CRL); "+
				"give a list of each issuer", entry.SerialNumber)
		}
		list.serials[string(entry.SerialNumber.Bytes())] = true
	}
	return list, nil
}

func has(extensions []pkix.Extension, id asn1.ObjectIdentifier) bool {
	return slices.ContainsFunc(extensions, func(e pkix.Extension) bool { return e.Id.Equal(id) })
}

// revokes reports whether the list revokes a certificate.
func (l *List) revokes(certificate *x509.Certificate) bool {
	return l.serials[string(certificate.SerialNumber.Bytes())] &&
		bytes.Equal(certificate.RawIssuer, l.signer.RawSubject) && certificate.CheckSignatureFrom(l.signer) == nil
}
