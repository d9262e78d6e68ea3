package conn

import (
	"context"
	"net"
	"net/http"
)

// contextKey is the key of the carrier in the context of a request.
type contextKey struct{}

// carrier is the connection that carries a request.
type carrier struct {
	conn   net.Conn
	below  *connection        // of conn; nil if it is not of a Set
	cancel context.CancelFunc // of all requests on the connection
}

// Context is for http.Server.ConnContext. It returns the parent of the contexts
// of all requests on a connection, so that Cancel and ClientGone work for them.
// HTTP/1.1 has one request at a time on a connection, which can be cancelled
// without a context of its own.
func Context(ctx context.Context, c net.Conn) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	if kept := requestsOf(c); kept != nil {
		kept.background.cancel = cancel
	}
	return context.WithValue(ctx, contextKey{}, &carrier{c, under(c), cancel})
}

// Cancel returns a function that cancels r and all later requests on its
// connection. It returns nil if the connection may carry other requests too.
func Cancel(r *http.Request) context.CancelFunc {
	c := carrierOf(r)
	if c == nil {
		return nil
	}
	return c.cancel
}

// ClientGone reports whether the client of r has closed the connection. It
// reports false over HTTP/2, where net/http notices it.
func ClientGone(r *http.Request) bool {
	c := carrierOf(r)
	return c != nil && c.below != nil && hungUp(c.below.Conn)
}

// carrierOf returns the carrier of r, or nil if it may carry other requests.
func carrierOf(r *http.Request) *carrier {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(contextKey{}).(*carrier)
	return c
}
