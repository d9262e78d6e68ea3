package upstream

import (
	"context"
	"net/http"
	"time"
)

// http1Only is how long a target that has asked for HTTP/1.1 gets it for all requests.
const http1Only = 10 * time.Minute

// protocol is the protocol of a target.
type protocol struct {
	name  string    // of ALPN
	until time.Time // zero: until the target chooses another one
}

// speaks returns the protocol that the target with that address speaks, empty if that is
// not known. only says that the target must not be offered another one.
func (t *transport) speaks(address string) (name string, only bool) {
	known, ok := t.protocols.Load(address)
	if !ok {
		return "", false
	}
	p := known.(*protocol)
	if p.until.IsZero() {
		return p.name, false
	}
	if time.Now().After(p.until) {
		t.protocols.CompareAndDelete(address, known)
		return "", false
	}
	return p.name, true
}

// chose notes the protocol that a target has chosen in the handshake.
func (t *transport) chose(address, name string) { t.protocols.Store(address, &protocol{name: name}) }

// needsHTTP1 notes that a target serves over HTTP/1.1 only (RFC 9113, section 7).
func (t *transport) needsHTTP1(address string) {
	t.protocols.Store(address, &protocol{name: alpnHTTP1, until: time.Now().Add(http1Only)})
}

// withoutHTTP2Key is the key of a request for which no connection may speak HTTP/2.
type withoutHTTP2Key struct{}

func withoutHTTP2(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), withoutHTTP2Key{}, true))
}

// mustBeHTTP1 reports whether the connection for a request must speak HTTP/1.1.
func mustBeHTTP1(ctx context.Context) bool { return ctx.Value(withoutHTTP2Key{}) != nil }
