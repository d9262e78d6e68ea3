package streams

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ErrFull is the error of a stream for which there is no place.
var ErrFull = errors.New("as many streams are open as may be at once")

// LoginFullError is the error of a stream whose login has as many as it may have.
type LoginFullError struct {
	Limit int
	First bool // the login got none in the last minute
}

func (e *LoginFullError) Error() string {
	return fmt.Sprintf("the login has %d streams open, as many as limits.streams_per_login allows", e.Limit)
}

// Places bounds the streams that are open: WebSockets, other connections that have switched protocols, and event
// streams. The zero Places has none. It is safe for concurrent use.
type Places struct {
	mu     sync.Mutex
	taken  int
	logins map[string]*holder // those with streams
}

type holder struct {
	taken int
	news  rate.Sometimes // bounds First
}

// Take takes a place for a stream, which its caller leaves once. At most limit streams are open at once, and perLogin
// of them of one login. A stream without a login has the empty one, which has no limit of its own. The error is
// ErrFull or a *LoginFullError.
func (p *Places) Take(login string, limit, perLogin int) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.logins[login]
	if h == nil {
		h = &holder{news: rate.Sometimes{Interval: time.Minute}}
	}
	if login != "" && h.taken >= perLogin {
		full := &LoginFullError{Limit: perLogin}
		h.news.Do(func() { full.First = true })
		return nil, full
	}
	if p.taken >= limit {
		return nil, ErrFull
	}
	if p.logins == nil {
		p.logins = map[string]*holder{}
	}
	p.logins[login] = h
	h.taken++
	p.taken++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if h.taken--; h.taken == 0 {
			delete(p.logins, login)
		}
	}, nil
}

// Taken returns how many places are taken.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// hasLogin reports whether a login has places.
func (p *Places) hasLogin(login string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins[login] != nil
}
