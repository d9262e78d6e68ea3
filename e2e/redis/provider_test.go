package redis

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// startDelegatedPair is startPair with a provider, which knows the address of A
// only, as it would know that of the service.
func startDelegatedPair(t *testing.T, onRedis func(address string) string) *pair {
	t.Helper()
	p := preparePair(t, world.StartRedis(t))
	p.issuer = world.StartIssuer(t, nil, "", p.a, p.b)
	for _, g := range p.both() {
		g.Configure(p.delegated() + onRedis(p.redis.Address))
	}
	p.run()
	return p
}

// delegated is the configuration of such a pair without the store.
func (p *pair) delegated() string {
	return shared + "  - {match: /delegated-resource, upstream: app, auth: [oidc]}\n" +
		world.App(p.up.URL) + p.issuer.Entry("")
}

// signInAtProvider begins a delegated login on one instance and finishes it on
// another. It returns the session as a Cookie header.
func (p *pair) signInAtProvider(t *testing.T, c *http.Client, begun, finished *world.Instance) string {
	t.Helper()
	a := finished.Do(c, "GET", p.throughProvider(t, c, begun), "")
	if a.Status != http.StatusFound || a.Header.Get("Location") != "/" {
		t.Fatalf("the callback: %d to %q: %s", a.Status, a.Header.Get("Location"), a.Body)
	}
	return "session=" + world.CookieNamed(t, a, "session").Value
}

// throughProvider begins a delegated login on an instance and returns the path to
// which the provider sends the browser back.
func (p *pair) throughProvider(t *testing.T, c *http.Client, begun *world.Instance) (callback string) {
	t.Helper()
	authorization := begun.Do(c, "GET", "/login", "").Header.Get("Location")
	return strings.TrimPrefix(p.issuer.SignIn(c, authorization, "alice"), p.a.Base)
}

// TestRedisDelegated: a login at a provider begins on A, ends on B, works on both,
// and ends on both by a logout token that A gets. Then the instances have
// different keys, and then Redis stops answering.
func TestRedisDelegated(t *testing.T) {
	t.Parallel()
	p := startDelegatedPair(t, world.OnRedis)
	c := p.browser(t)
	session := p.signInAtProvider(t, c, p.a, p.b)
	for range 2 { // cold, then warm
		p.wantDelegated(t, session, http.StatusOK)
	}
	p.issuer.Do(c, "GET", "/logout", "")
	for name, g := range p.both() {
		world.Until(t, name+" to refuse", func() bool { return p.askDelegated(t, g, session) != http.StatusOK })
	}
	p.wantDelegated(t, session, http.StatusUnauthorized)
	p.delegatedKeysDiffer(t)
	p.freezes(t)
}

// wantDelegated checks a delegated session at both instances.
func (p *pair) wantDelegated(t *testing.T, session string, want int) {
	t.Helper()
	for name, g := range p.both() {
		if got := p.askDelegated(t, g, session); got != want {
			t.Errorf("the session on %s: %d, expected %d", name, got, want)
		}
	}
}

// askDelegated requests /delegated-resource.
func (p *pair) askDelegated(t *testing.T, g *world.Instance, session string) int {
	t.Helper()
	return p.askFor(t, g, "/delegated-resource", "Cookie", session).Status
}

// delegatedKeysDiffer: an instance with another store.encryption_key cannot
// finish what the other one has begun at a provider, nor sign out there from the
// other's logins.
func (p *pair) delegatedKeysDiffer(t *testing.T) {
	t.Helper()
	p.b.Configure(strings.Replace(p.delegated()+world.OnRedis(p.redis.Address), world.EncryptionKey,
		"another "+world.EncryptionKey, 1))
	p.relaunch(p.b, "/readyz")
	c := p.browser(t)
	for name, way := range map[string][2]*world.Instance{"from A to B": {p.a, p.b}, "from B to A": {p.b, p.a}} {
		a := way[1].Do(c, "GET", p.throughProvider(t, c, way[0]), "")
		if a.Status != http.StatusBadRequest || len(a.Header["Set-Cookie"]) > 0 {
			t.Errorf("a login %s: %d, %q: %s", name, a.Status, a.Header["Set-Cookie"], a.Body)
		}
	}
	session := p.signInAtProvider(t, c, p.a, p.a)
	p.wantDelegated(t, session, http.StatusOK)
	if got := p.b.Status(p.client(p.b), "GET", "/logout", "Cookie", session); got != http.StatusFound {
		t.Errorf("logout: %d", got)
	}
	const unable = "signing out at the provider failed; the session here has ended"
	world.Until(t, "B to log that it cannot sign out at the provider",
		func() bool { return strings.Contains(p.b.Log.String(), unable) })
	world.Until(t, "A to know of the logout",
		func() bool { return p.askDelegated(t, p.a, session) == http.StatusUnauthorized })
}

// freezes: at the moment at which Redis stops answering, everything that needs it
// gets its 503.
func (p *pair) freezes(t *testing.T) {
	t.Helper()
	g := p.a
	delegated := p.signInAtProvider(t, p.browser(t), g, g)
	s := p.signIn("alice")
	waiting := p.browser(t)
	callback := p.throughProvider(t, waiting, g)
	everything := []string{"Content-Type", world.TypeJSON, "Cookie", s.Session + "; " + delegated}
	requests := append(changesOf(s)[:2], change{"login again", "/login", world.AliceJSON, everything},
		change{"logout", "/logout", "", append(everything, "Authorization", s.Access)})
	pages := map[string]*http.Client{"/login": g.Stranger(), callback: waiting}
	p.redis.Freeze(t)
	defer p.redis.Signal(t, syscall.SIGCONT)
	var asking sync.WaitGroup
	asks := func(c *http.Client, method, path, body string, headers ...string) {
		asking.Go(func() {
			a, err := g.Try(c, method, path, body, headers...)
			if err != nil {
				t.Error(err)
			}
			wantOutage(t, method+" "+path, a)
		})
	}
	for path, c := range pages {
		asks(c, "GET", path, "")
	}
	for _, r := range requests {
		asks(p.client(g), "POST", r.path, r.body, r.headers...)
	}
	asking.Wait()
}
