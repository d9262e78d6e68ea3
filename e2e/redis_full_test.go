package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRedisFull: Redis has no memory left and evicts nothing. Who is signed in
// stays so, on both and cold or warm, and a logout ends the login, though by a
// token it is 503, as that cannot be noted. What else needs a new key is 503,
// and all goes on when there is room again.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t, "--maxmemory-policy", "noeviction"), "")
	atA, atB := p.a.stranger(), p.b.stranger()
	kept, bySession, byToken := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob"), p.a.signIn(atA, "bob")
	for _, credential := range kept.credentials() { // warm on A alone
		p.opens(t, p.a, atA, credential...)
	}
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "1mb")
	if used := redisInfo(t, p.redis, "memory", "used_memory"); used < 1<<20 {
		t.Fatalf("Redis uses %.0f bytes, and is not full", used)
	}
	for name, g := range p.both() {
		p.full(t, name, g, kept)
	}
	if got := p.a.status(atA, "POST", "/logout", "Cookie", bySession.session); got != http.StatusOK {
		t.Errorf("logout by session: %d", got)
	}
	began := time.Now()
	wantOutage(t, "logout by token", p.a.do(atA, "POST", "/logout", "", "Authorization", byToken.access), began)
	refused := func() {
		t.Helper()
		for _, s := range []signIn{bySession, byToken} {
			for _, credential := range s.credentials() {
				p.refuses(t, p.a, atA, credential...)
				p.refuses(t, p.b, atB, credential...)
			}
		}
	}
	until(t, "B to know of both", func() bool {
		return p.b.status(atB, "GET", "/me", "Cookie", bySession.session) != http.StatusOK &&
			p.b.status(atB, "GET", "/me", "Cookie", byToken.session) != http.StatusOK
	})
	refused()

	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	for _, credential := range kept.credentials() {
		p.opens(t, p.a, atA, credential...)
		p.opens(t, p.b, atB, credential...)
	}
	if _, got, err := p.b.tryRefresh(atB, kept.refresh); err != nil || got != http.StatusOK {
		t.Errorf("a refresh that was answered 503, again: %d, %v", got, err)
	}
	refused()
}

// full checks what an instance does while Redis is full. The login lives.
func (p *pair) full(t *testing.T, name string, g *instance, kept signIn) {
	t.Helper()
	c := g.stranger()
	for _, credential := range kept.credentials() {
		p.opens(t, g, c, credential...)
	}
	began := time.Now()
	a := g.do(c, "POST", "/login", right, "Content-Type", typeJSON)
	wantOutage(t, name+": login", a, began)
	if given, _ := tokens(a); cookieOf(a) != "" || given.access != "Bearer " || given.refresh != "" {
		t.Errorf("%s: a login that failed gives something: %q %s", name, a.header["Set-Cookie"], a.body)
	}
	began = time.Now()
	wantOutage(t, name+": refresh", g.do(c, "POST", "/refresh", `{"refresh_token":"`+kept.refresh+`"}`, "Content-Type", typeJSON), began)
	p.free(t, name, g, c)
	if said := p.readiness(t, g); !strings.Contains(said, "OOM command not allowed") {
		t.Errorf("%s: /readyz does not say that Redis is full: %s", name, said)
	}
}
