package clientcert

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// ReadAuthorities returns the certificates in a file in PEM.
func ReadAuthorities(content []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue // a key beside it, or the text of a certificate
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(list)+1, err)
		}
		list = append(list, certificate)
	}
	if len(list) == 0 {
		return nil, errors.New("it contains no certificate in PEM")
	}
	return list, nil
}

// List is a list of revoked certificates (RFC 5280, section 5) that a client CA has signed.
type List struct {
	*x509.RevocationList
	signer  *x509.Certificate
	serials map[string]bool // of what it revokes, as bytes
}

// Stale reports whether a newer list should be there.
func (l *List) Stale(now time.Time) bool { return !l.NextUpdate.IsZero() && now.After(l.NextUpdate) }

// ReadLists returns the lists in a file, in PEM or one in DER. Each must be signed by one of the
// authorities.
func ReadLists(content []byte, authorities []*x509.Certificate) ([]*List, error) {
	encoded, err := encodedLists(content)
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

// encodedLists returns the lists in a file as DER.
func encodedLists(content []byte) (encoded [][]byte, err error) {
	if !bytes.Contains(content, []byte("-----BEGIN ")) {
		return [][]byte{content}, nil
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			encoded = append(encoded, block.Bytes)
		}
	}
	if len(encoded) == 0 {
		return nil, errors.New("it contains no X509 CRL in PEM")
	}
	return encoded, nil
}

// deltaList is the extension of lists that only tell what has changed (RFC 5280, section
// 5.2.4).
var deltaList = asn1.ObjectIdentifier{2, 5, 29, 27}

func readList(der []byte, authorities []*x509.Certificate) (*List, error) {
	parsed, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%w; expected a list of version 2 (RFC 5280, section 5.1)", err)
	}
	for _, extension := range parsed.Extensions {
		if extension.Id.Equal(deltaList) {
			return nil, errors.New("it only tells what has changed since another list (a delta CRL); give the whole list")
		}
	}
	for _, ca := range authorities {
		if bytes.Equal(ca.RawSubject, parsed.RawIssuer) && parsed.CheckSignatureFrom(ca) == nil {
			list := &List{RevocationList: parsed, signer: ca, serials: map[string]bool{}}
			for _, entry := range parsed.RevokedCertificateEntries {
				list.serials[string(entry.SerialNumber.Bytes())] = true
			}
			return list, nil
		}
	}
	return nil, errors.New("no certificate of tls.client_ca has signed it")
}

// revokes reports whether the list revokes a certificate.
func (l *List) revokes(certificate *x509.Certificate) bool {
	return l.serials[string(certificate.SerialNumber.Bytes())] &&
		bytes.Equal(certificate.RawIssuer, l.signer.RawSubject) && certificate.CheckSignatureFrom(l.signer) == nil
}
