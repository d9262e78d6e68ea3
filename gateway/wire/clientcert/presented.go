package clientcert

import (
	"context"
	"crypto/x509"
	"net/http"
	"sync/atomic"

	"authgate/policy"
)

// Presented is a certificate that requests present. Its methods may be called concurrently.
type Presented struct {
	chain []*x509.Certificate // leaf first
	err   error               // why it cannot be read
	found atomic.Pointer[finding]
}

// Identity returns the identity that the certificate proves. The error says why it proves none,
// for operators. The chain is verified again only if another Verifier asks, or when the time
// has changed the finding.
func (p *Presented) Identity(v *Verifier) (*policy.Identity, error) {
	if p.err != nil {
		return nil, p.err
	}
	found := p.found.Load()
	if !found.holds(v, v.options.Now()) {
		found = v.verify(p.chain)
		p.found.Store(found)
	}
	return found.identity, found.err
}

// connectionKey is the key of a connection in the context of a request.
type connectionKey struct{}

// connection has the certificate that requests of one connection share.
type connection struct{ presented atomic.Pointer[Presented] }

// Context returns the context of a new connection, for those of its requests.
func Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// OfConnection returns the certificate of the TLS connection of a request, nil if there is none.
func OfConnection(r *http.Request) *Presented {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return &Presented{chain: r.TLS.PeerCertificates}
	}
	if p := c.presented.Load(); p != nil {
		return p
	}
	c.presented.CompareAndSwap(nil, &Presented{chain: r.TLS.PeerCertificates})
	return c.presented.Load()
}
