package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRedisFull: while Redis has no memory left and evicts nothing, logins that
// are alive stay so on both instances, cold or warm. A logout ends the login,
// though one by a token is answered 503, as the token cannot be recorded. What
// else needs a new key is 503, and works again when there is room.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t, "--maxmemory-policy", "noeviction"), "")
	kept, bySession, byToken := p.signIn("alice"), p.signIn("bob"), p.signIn("bob")
	for _, credential := range kept.credentials() { // warm on A only
		p.opens(t, p.a, credential...)
	}
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "1mb")
	if used := redisInfo(t, p.redis, "memory", "used_memory"); used < 1<<20 {
		t.Fatalf("Redis uses %.0f bytes, and is not full", used)
	}
	for name, g := range p.both() {
		p.full(t, name, g, kept)
	}
	p.signOut(t, "Cookie", bySession.session)
	began := time.Now()
	wantOutage(t, "logout by token", p.a.do(p.client(p.a), "POST", "/logout", "", "Authorization", byToken.access), began)
	until(t, "B to hear of both logouts", func() bool {
		return p.b.status(p.client(p.b), "GET", "/me", "Cookie", bySession.session) != http.StatusOK &&
			p.b.status(p.client(p.b), "GET", "/me", "Cookie", byToken.session) != http.StatusOK
	})
	p.wantEnded(t, bySession, byToken)

	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantRefresh(t, p.b, kept.refresh, http.StatusOK) // the one that was answered 503
	p.wantEnded(t, bySession, byToken)
}

// full checks what an instance does while Redis is full. The login is alive.
func (p *pair) full(t *testing.T, name string, g *instance, kept signIn) {
	t.Helper()
	c := p.client(g)
	for _, credential := range kept.credentials() {
		p.opens(t, g, credential...)
	}
	began := time.Now()
	a := g.do(c, "POST", "/login", right, "Content-Type", typeJSON)
	wantOutage(t, name+": login", a, began)
	wantNothingGiven(t, a)
	began = time.Now()
	wantOutage(t, name+": refresh", g.do(c, "POST", "/refresh", `{"refresh_token":"`+kept.refresh+`"}`, "Content-Type", typeJSON), began)
	p.free(t, name, g)
	if _, said := g.ready(); !strings.Contains(said, "OOM command not allowed") {
		t.Errorf("%s: /readyz does not say that Redis is full: %s", name, said)
	}
}

// wantNothingGiven fails the test if a login that failed gives a credential.
func wantNothingGiven(t *testing.T, a answer) {
	t.Helper()
	if given, _ := tokens(a); cookieOf(a) != "" || given.access != "Bearer " || given.refresh != "" {
		t.Errorf("a login that failed gives something: %q %s", a.header["Set-Cookie"], a.body)
	}
}
