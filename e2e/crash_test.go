package e2e

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	crashRounds  = 20
	crashWorkers = 6
)

// TestCrash kills the gateway under load at random moments. After the next start it
// knows everything that it had answered with 200.
func TestCrash(t *testing.T) {
	t.Parallel()
	g := prepared(t)
	g.configure(secure + app(record(t).url))
	g.run()
	var ended []*promise // of all rounds
	for round := range crashRounds {
		l := &load{t: t, g: g, c: g.stranger(), last: 10 + rand.Int64N(70)}
		many(crashWorkers, func(int) { l.work() })
		g.kill()
		g.run()
		c := g.stranger()
		many(crashWorkers, func(worker int) {
			for i := worker; i < len(l.promises); i += crashWorkers {
				l.promises[i].check(t, g, c)
			}
		})
		if t.Failed() {
			t.Fatalf("round %d, killed at the answer %d of %d", round, l.last, l.answers.Load())
		}
		for _, p := range l.promises {
			if p.ended {
				ended = append(ended, p)
			}
		}
		c.CloseIdleConnections()
	}
	if len(ended) < crashRounds {
		t.Fatalf("only %d logouts in %d rounds", len(ended), crashRounds)
	}
	c := g.stranger()
	for _, p := range ended { // after all crashes
		p.check(t, g, c)
	}
}

// load is the requests during which the gateway is killed.
type load struct {
	t    *testing.T
	g    *instance
	c    *http.Client
	last int64 // the gateway is killed after this answer

	answers  atomic.Int64
	mu       sync.Mutex
	promises []*promise
}

// promise is a login and what the gateway has confirmed of it. Under load only the
// worker that made it uses it.
type promise struct {
	signIn             // the newest credentials
	accesses  []string // all access tokens
	used      []string // refresh tokens that were exchanged
	ended     bool     // by a logout
	leaving   bool     // a logout had no answer, so the login may have ended or not
	refreshes bool     // a refresh had no answer, so its token may be used or not
}

// work signs in, refreshes and signs out until there is no answer.
func (l *load) work() {
	for {
		s, status, err := l.g.trySignIn(l.c, "alice", passwords["alice"])
		if !l.answered(status, err) {
			return
		}
		p := &promise{signIn: s, accesses: []string{s.access}}
		l.mu.Lock()
		l.promises = append(l.promises, p)
		l.mu.Unlock()
		for range rand.IntN(3) {
			if !l.refresh(p) {
				return
			}
		}
		switch rand.IntN(3) {
		case 0:
			if !l.logout(p, "Cookie", p.session) {
				return
			}
		case 1:
			if !l.logout(p, "Authorization", p.access) {
				return
			}
		}
	}
}

// answered counts an answer, which must be 200. At the last one it kills the gateway
// at once, before the gateway can write anything else to the disk.
func (l *load) answered(status int, err error) bool {
	if err != nil {
		return false // the gateway has ended
	}
	if status != http.StatusOK {
		l.t.Errorf("status %d under load", status)
		return false
	}
	if l.answers.Add(1) == l.last {
		l.g.kill()
	}
	return true
}

func (l *load) refresh(p *promise) bool {
	got, status, err := l.g.tryRefresh(l.c, p.refresh)
	p.refreshes = err != nil
	if !l.answered(status, err) {
		return false
	}
	p.used = append(p.used, p.refresh)
	p.accesses = append(p.accesses, got.access)
	p.access, p.refresh = got.access, got.refresh
	return true
}

func (l *load) logout(p *promise, header, credential string) bool {
	a, err := l.g.try(l.c, "POST", "/logout", "", header, credential)
	p.leaving = err != nil
	if !l.answered(a.status, err) {
		return false
	}
	p.ended = true
	return true
}

// check fails the test unless the gateway does what it has confirmed.
func (p *promise) check(t *testing.T, g *instance, c *http.Client) {
	want, state := http.StatusOK, "live"
	if p.ended {
		want, state = http.StatusUnauthorized, "ended"
	}
	expect := func(what string, got, want int, err error) {
		if err != nil || got != want {
			t.Errorf("%s of a login that is %s: %d, %v; expected %d", what, state, got, err, want)
		}
	}
	if !p.leaving {
		a, err := g.try(c, "GET", "/me", "", "Cookie", p.session)
		expect("session", a.status, want, err)
		for _, access := range p.accesses {
			a, err := g.try(c, "GET", "/secure-resource", "", "Authorization", access)
			expect("access token", a.status, want, err)
		}
	}
	if !p.leaving && !p.refreshes {
		_, status, err := g.tryRefresh(c, p.refresh)
		expect("refresh token", status, want, err)
	}
	for _, token := range p.used {
		_, status, err := g.tryRefresh(c, token)
		expect("used refresh token", status, http.StatusUnauthorized, err)
	}
}
