package conn

import (
	"io"
	"net/http"
	"sync"
)

// belongings has a value that belongs to a connection, and ends with it.
type belongings struct {
	mu    sync.Mutex
	owned io.Closer
	ended bool
}

// Own returns the value that belongs to the connection of r: the result of made at
// the first call. It is closed when the connection ends. Own returns nil if the
// connection has ended, or may carry requests of several people at once (HTTP/2).
func Own(r *http.Request, made func() io.Closer) io.Closer {
	b := belongingsOf(r)
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owned == nil && !b.ended {
		b.owned = made()
	}
	return b.owned
}

// Owned returns the earlier result of Own, nil if there is none.
func Owned(r *http.Request) io.Closer {
	b := belongingsOf(r)
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owned
}

func belongingsOf(r *http.Request) *belongings {
	c := carrierOf(r)
	if c == nil || c.below == nil {
		return nil
	}
	return &c.below.belongings
}

func (b *belongings) closeOwned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.owned != nil {
		_ = b.owned.Close() // nothing is left to do about an error
		b.owned = nil
	}
}
