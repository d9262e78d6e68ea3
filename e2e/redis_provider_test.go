package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authgate/upstream/provider"
)

// startDelegatedPair is startPair with a provider, which knows the address of A
// only, as it would know that of the service.
func startDelegatedPair(t *testing.T, onRedis func(address string) string) (p *pair, issuer string) {
	t.Helper()
	startDemoProvider(t, func(at string) (provider.Client, *http.Client) {
		issuer = at
		p = preparePair(t, startRedis(t))
		for _, g := range p.both() {
			g.configure(p.delegated(issuer) + onRedis(p.redis.Address))
		}
		p.run()
		return provider.Client{
			ID: "pair", Secret: "s3cret", RedirectURIs: []string{p.a.base + "/callback"},
			BackchannelLogoutURI: p.a.base + "/backchannel-logout/demo",
		}, p.a.stranger()
	}, nil)
	return p, issuer
}

// delegated is the configuration of such a pair without the store.
func (p *pair) delegated(issuer string) string {
	return shared + "  - {match: /delegated-resource, upstream: app, auth: [oidc]}\n" +
		app(p.up.url) + "providers: [{name: demo, issuer: '" + issuer + "', client_id: pair, client_secret: s3cret}]\n"
}

// signInAtProvider begins a delegated login on one instance and finishes it on
// another. It returns the session as a Cookie header.
func (p *pair) signInAtProvider(t *testing.T, c *http.Client, begun, finished *instance) string {
	t.Helper()
	a := finished.do(c, "GET", p.throughProvider(t, c, begun), "")
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Fatalf("the callback: %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	return "session=" + cookieNamed(t, a, "session").Value
}

// throughProvider begins a delegated login on an instance and returns the path to
// which the provider sends the browser back.
func (p *pair) throughProvider(t *testing.T, c *http.Client, begun *instance) (callback string) {
	t.Helper()
	authorization := begun.do(c, "GET", "/login", "").header.Get("Location")
	form := url.Values{"username": {"alice"}, "password": {passwords["alice"]}}
	response := must(c.PostForm(strings.Replace(authorization, "/authorize?", "/signin?", 1), form))(t)
	response.Body.Close()
	callback, ours := strings.CutPrefix(response.Header.Get("Location"), p.a.base)
	if !ours {
		t.Fatalf("the provider: %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
	return callback
}

// TestRedisDelegated: a login at a provider begins on A, ends on B, works on both,
// and ends on both by a logout token that A gets. Then the instances have
// different keys, and then Redis stops answering.
func TestRedisDelegated(t *testing.T) {
	t.Parallel()
	p, issuer := startDelegatedPair(t, onRedis)
	c := p.browser(t)
	session := p.signInAtProvider(t, c, p.a, p.b)
	for range 2 { // cold, then warm
		p.wantDelegated(t, session, http.StatusOK)
	}
	must(c.Get(issuer + "/logout"))(t).Body.Close() // waits until A has been told
	for name, g := range p.both() {
		until(t, name+" to refuse", func() bool { return p.askDelegated(t, g, session) != http.StatusOK })
	}
	p.wantDelegated(t, session, http.StatusUnauthorized)
	p.delegatedKeysDiffer(t, issuer)
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
func (p *pair) askDelegated(t *testing.T, g *instance, session string) int {
	t.Helper()
	return p.askFor(t, g, "/delegated-resource", "Cookie", session).status
}

// delegatedKeysDiffer: an instance with another store.encryption_key cannot
// finish what the other one has begun at a provider, nor sign out there from the
// other's logins.
func (p *pair) delegatedKeysDiffer(t *testing.T, issuer string) {
	t.Helper()
	p.b.configure(strings.Replace(p.delegated(issuer)+onRedis(p.redis.Address), encryptionKey, "another "+encryptionKey, 1))
	p.relaunch(p.b, "/readyz")
	c := p.browser(t)
	for name, way := range map[string][2]*instance{"from A to B": {p.a, p.b}, "from B to A": {p.b, p.a}} {
		a := way[1].do(c, "GET", p.throughProvider(t, c, way[0]), "")
		if a.status != http.StatusBadRequest || len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("a login %s: %d, %q: %s", name, a.status, a.header["Set-Cookie"], a.body)
		}
	}
	session := p.signInAtProvider(t, c, p.a, p.a)
	p.wantDelegated(t, session, http.StatusOK)
	if got := p.b.status(p.client(p.b), "GET", "/logout", "Cookie", session); got != http.StatusFound {
		t.Errorf("logout: %d", got)
	}
	const unable = "signing out at the provider failed; the session here has ended"
	until(t, "B to log that it cannot sign out at the provider", func() bool { return strings.Contains(p.b.log.String(), unable) })
	until(t, "A to know of the logout", func() bool { return p.askDelegated(t, p.a, session) == http.StatusUnauthorized })
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
	everything := []string{"Content-Type", typeJSON, "Cookie", s.session + "; " + delegated}
	requests := append(s.changes()[:2], change{"login again", "/login", right, everything}, change{"logout", "/logout", "", append(everything, "Authorization", s.access)})
	pages := map[string]*http.Client{"/login": g.stranger(), callback: waiting}
	p.redis.Freeze(t)
	defer p.redis.Signal(t, syscall.SIGCONT)
	var asking sync.WaitGroup
	asks := func(c *http.Client, method, path, body string, headers ...string) {
		asking.Go(func() {
			a, err := g.try(c, method, path, body, headers...)
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
