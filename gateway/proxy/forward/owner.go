package forward

import (
	"errors"
	"io"
	"net/http"

	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/conn"
)

// mayOwn reports whether the client's connection may own connections to upstreams.
// A connection of a trusted proxy carries requests of many people.
func (q *Request) mayOwn() bool {
	return q.Exchange.Request.ProtoMajor == 1 && !q.Exchange.Peer.Trusted
}

// owns reports whether the client's connection owns connections, which only
// RoundTrip uses.
func (q *Request) owns() bool {
	if !q.mayOwn() {
		return false
	}
	owner, _ := conn.Owned(q.Exchange.Request).(*http1.Owner)
	return owner.Owns()
}

// withOwner returns r as a request of the client's connection, which may own connections.
func (q *Request) withOwner(r *http.Request) *http.Request {
	if !q.mayOwn() {
		return r
	}
	owner, _ := conn.Own(q.Exchange.Request, func() io.Closer { return new(http1.Owner) }).(*http1.Owner)
	if owner == nil {
		return r
	}
	return r.WithContext(http1.WithOwner(r.Context(), owner))
}

// errNegotiate means that an application offers nothing that the client can use.
var errNegotiate = errors.New("the application asks for NTLM or Negotiate, which sign in a connection; " +
	"that works over HTTP/1.1 alone, from a client that connects to the gateway itself, to an upstream that speaks " +
	"HTTP/1.1")

// withoutNegotiate removes offers to sign in the connection from a response, unless
// the connections on both sides belong to this client alone.
func (q *Request) withoutNegotiate(response *http.Response) error {
	offers := response.Header["Www-Authenticate"]
	if response.ProtoMajor == 1 && q.mayOwn() || !http1.Negotiates(offers) {
		return nil
	}
	kept := http1.WithoutNegotiate(offers)
	switch {
	case len(kept) > 0:
		response.Header["Www-Authenticate"] = kept
	case response.StatusCode == http.StatusUnauthorized:
		return errNegotiate
	default:
		response.Header.Del("Www-Authenticate")
	}
	return nil
}
