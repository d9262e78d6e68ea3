package conn

import (
	"context"
	"net"
	"net/http"
)

// contextKey is the key in a context of the connection of a request.
type contextKey struct{}

// carrier is the connection of a client, and what ends all requests on it.
type carrier struct {
	conn   net.Conn
	cancel context.CancelFunc
}

// Context is for http.Server.ConnContext. The contexts of all requests on a
// connection are children of the one that it returns. A connection of HTTP/1.1
// has one request at a time, which so can be cancelled without a context of its
// own.
func Context(ctx context.Context, c net.Conn) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, contextKey{}, &carrier{c, cancel})
}

// Cancel returns what cancels a request by way of its connection, nil if there
// is nothing that cancels no other request too.
func Cancel(r *http.Request) context.CancelFunc {
	c := carrierOf(r)
	if c == nil {
		return nil
	}
	return c.cancel
}

// ClientGone reports whether the client of a request over HTTP/1.1 has closed
// the connection.
func ClientGone(r *http.Request) bool {
	c := carrierOf(r)
	return c != nil && Gone(c.conn)
}

// carrierOf returns the connection that belongs to a request alone, nil if there
// is none.
func carrierOf(r *http.Request) *carrier {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(contextKey{}).(*carrier)
	return c
}
