package clientcert

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"authgate/gateway/store/lru"
)

// The headers by which a proxy describes the certificate of its client (RFC 9440, section 2).
const (
	Header      = "Client-Cert"
	ChainHeader = "Client-Cert-Chain"
)

// errTwice: a request has several certificates in Client-Cert, so it is not clear which one counts.
var errTwice = errors.New("clientcert: the header Client-Cert comes more than once")

const (
	// proxied is how many certificates of Client-Cert are remembered.
	proxied = 1024
	// longest is how long the headers of one are that is remembered, in bytes: anybody can make one, and
	// some proxies pass it on.
	longest = 16 << 10
)

// Proxied reads the certificates that trusted proxies describe. It remembers them with the
// findings about them.
type Proxied struct {
	known *lru.Cache[string, *Presented] // by the values of the headers
}

// NewProxied returns a Proxied.
func NewProxied() *Proxied { return &Proxied{lru.New[string, *Presented](proxied)} }

// Read returns the certificate that the header of a trusted proxy describes, nil if there is none.
// It fails if there are several, because it is not clear which one counts.
func (p *Proxied) Read(h http.Header) (*Presented, error) {
	leaf := ""
	for _, value := range h[Header] {
		switch value = strings.Trim(value, " \t"); {
		case value == "" || value == "::": // of a client without a certificate
		case leaf != "":
			return nil, errTwice
		default:
			leaf = value
		}
	}
	if leaf == "" {
		return nil, nil
	}
	above := h[ChainHeader]
	key := leaf
	if len(above) > 0 {
		key += "\n" + strings.Join(above, "\n")
	}
	if presented, ok := p.known.Get(key); ok {
		return presented, nil
	}
	presented := &Presented{}
	presented.chain, presented.err = readChain(leaf, above)
	if len(key) <= longest {
		p.known.Add(key, presented)
	}
	return presented, nil
}

func readChain(leaf string, above []string) ([]*x509.Certificate, error) {
	item, err := httpsfv.UnmarshalItem([]string{leaf})
	if err != nil {
		return nil, fmt.Errorf("the header %s of the proxy is not one byte sequence (RFC 9440): %w", Header, err)
	}
	list, err := httpsfv.UnmarshalList(above)
	if err != nil {
		return nil, fmt.Errorf("the header %s of the proxy is not a list of byte sequences (RFC 9440): %w",
			ChainHeader, err)
	}
	if len(list) >= maxChain {
		return nil, fmt.Errorf("the header %s of the proxy has %d certificates; at most %d are verified", ChainHeader,
			len(list), maxChain-1)
	}
	var chain []*x509.Certificate
	for i, member := range append(httpsfv.List{item}, list...) {
		one, ok := member.(httpsfv.Item)
		der, isBytes := one.Value.([]byte)
		if !ok || !isBytes {
			return nil, fmt.Errorf("the header of the proxy is not made of byte sequences (RFC 9440): certificate %d",
				i+1)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("the proxy sends no certificate in DER (RFC 9440): certificate %d", i+1)
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}
