package clientcert

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
)

// Kinds of names by which a certificate names its user.
const (
	Email      = "san_email" // an address in the subject alternative name (RFC 5280, section 4.2.1.6)
	URI        = "san_uri"
	DNS        = "san_dns"
	CommonName = "cn"
)

var (
	alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}
	commonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// tags are those of general names (RFC 5280, section 4.2.1.6).
var tags = map[string]int{Email: 1, DNS: 2, URI: 6}

// nameOf returns the bytes of the one name of a kind in a certificate: package x509 could
// parse two URIs to the same value.
func nameOf(certificate *x509.Certificate, kind string) (string, error) {
	names := commonNames(certificate)
	if kind != CommonName {
		var err error
		if names, err = generalNames(certificate, kind); err != nil {
			return "", err
		}
	}
	switch {
	case len(names) == 0 || len(names) == 1 && names[0] == "":
		return "", fmt.Errorf("the certificate has no name of the kind %s", kind)
	case len(names) > 1:
		return "", fmt.Errorf("the certificate has several names of the kind %s", kind)
	}
	return names[0], nil
}

func commonNames(certificate *x509.Certificate) (names []string) {
	for _, attribute := range certificate.Subject.Names {
		if attribute.Type.Equal(commonName) {
			name, _ := attribute.Value.(string) // a value of another type is no name
			names = append(names, name)
		}
	}
	return names
}

func generalNames(certificate *x509.Certificate, kind string) (names []string, err error) {
	for _, extension := range certificate.Extensions {
		if !extension.Id.Equal(alternativeNames) {
			continue
		}
		var list []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &list); err != nil || len(rest) > 0 {
			return nil, errors.New("the alternative names of the certificate are malformed")
		}
		for _, name := range list {
			if name.Class == asn1.ClassContextSpecific && name.Tag == tags[kind] {
				names = append(names, string(name.Bytes))
			}
		}
	}
	return names, nil
}
