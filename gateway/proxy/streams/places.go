package streams

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrFull is the error of a stream for which there is no place.
var ErrFull = errors.New("as many streams are open as may be at once")

// tellEvery is how often a LoginFullError is news.
const tellEvery = time.Minute

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
	told  time.Time // of the last First
}

// Place is the place of one stream. The zero Place is of none.
type Place struct {
	places *Places
	login  string
}

// Take returns a place for a stream, which its caller leaves. At most limit streams are open at once, and perLogin of
// them of one login. A stream without a login has the empty one, which has no limit of its own. The error is ErrFull
// or a *LoginFullError.
func (p *Places) Take(login string, limit, perLogin int) (Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.logins[login]
	if h == nil {
		h = &holder{}
	}
	if login != "" && h.taken >= perLogin {
		now := time.Now()
		first := now.Sub(h.told) >= tellEvery
		if first {
			h.told = now
		}
		return Place{}, &LoginFullError{Limit: perLogin, First: first}
	}
	if p.taken >= limit {
		return Place{}, ErrFull
	}
	if p.logins == nil {
		p.logins = map[string]*holder{}
	}
	p.logins[login] = h
	h.taken++
	p.taken++
	return Place{p, login}, nil
}

// Taken returns how many places are taken.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// HasLogin reports whether a login has streams.
func (p *Places) HasLogin(login string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins[login] != nil
}

// IsTaken reports whether the place is one.
func (p Place) IsTaken() bool { return p.places != nil }

// Leave gives the place back, once.
func (p Place) Leave() {
	if p.places == nil {
		return
	}
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	p.places.taken--
	if h := p.places.logins[p.login]; h.taken > 1 {
		h.taken--
	} else {
		delete(p.places.logins, p.login)
	}
}
