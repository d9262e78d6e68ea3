package http1

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Owner has the connections to upstreams that belong to one connection of a client,
// because the upstream or the client spoke NTLM or Negotiate on them. These
// schemes authenticate a connection, not a request (RFC 4559, section 6): the
// sender of the next request on it is the same user. It is safe for concurrent use.
type Owner struct {
	mu     sync.Mutex
	conns  map[route]*conn // by where they lead
	closed bool
}

// route is where a connection leads.
type route struct {
	client  *Client
	address string
}

// ownerKey is the key of an Owner in the context of a request.
type ownerKey struct{}

// WithOwner returns a context for a request that comes on the connection of an owner.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// ownerOf returns the owner of a request's connections, nil if there can be none.
func ownerOf(r *http.Request) *Owner {
	o, _ := r.Context().Value(ownerKey{}).(*Owner)
	return o
}

// Owns reports whether there is a connection that the next request may need. It is false for nil.
func (o *Owner) Owns() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns) > 0
}

// take removes and returns the owner's connection, nil if it has none.
func (o *Owner) take(c *Client, address string) *conn {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	to := route{c, address}
	k := o.conns[to]
	delete(o.conns, to)
	if k != nil && !time.Now().Before(k.until) {
		k.Close()
		return nil
	}
	return k
}

// has reports whether the owner has a connection.
func (o *Owner) has(c *Client, address string) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns[route{c, address}] != nil
}

// put keeps a connection for the owner.
func (o *Owner) put(c *Client, k *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := route{c, k.address}
	if o.closed || o.conns[to] != nil {
		k.Close()
		return
	}
	k.aged = time.Time{} // a user is signed in on it
	k.rest(unannounced)
	if o.conns == nil {
		o.conns = map[route]*conn{}
	}
	o.conns[to] = k
}

// Close closes the connections, and each that comes later. It implements io.Closer.
func (o *Owner) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, k := range o.conns {
		k.Close()
	}
	o.conns = nil
	return nil
}

// use is how a request uses a connection.
type use struct {
	closes bool   // it is closed after the response; without an owner's, it is new
	owner  *Owner // of connections that only this client may use; nil: there is none
	owned  bool   // the connection is the owner's from now on
}

// useOf returns how a request uses a connection.
func (c *Client) useOf(r *http.Request) use {
	u := use{closes: c.noReuse, owner: ownerOf(r)}
	if Negotiates(r.Header["Authorization"]) || u.owner.has(c, r.URL.Host) {
		u.owned, u.closes = true, u.owner == nil
	}
	u.closes = (u.closes || c.isolates(r)) && !Upgrades(r)
	return u
}

// isolates reports whether a request has a body that must not share a connection. "close" beside an
// upgrade has no meaning, and a connection that upgrades is never used again.
func (c *Client) isolates(r *http.Request) bool {
	return hasBody(r) && !c.sharesBody(r.Method) && !Upgrades(r)
}

// sharesBody reports whether a connection that carries a body may carry another
// request afterwards. A server that does not read the body takes it for the next
// request, which has not been checked. With POST, PUT and PATCH almost every server reads
// it, and each body on a connection of its own would be dear.
func (c *Client) sharesBody(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return !c.strays.Seen()
	}
	return false
}
