package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/upstream/provider"
)

// startDelegatedPair is startPair with a provider, which knows the address of
// A alone, as it would know that of the service.
func startDelegatedPair(t *testing.T) (p *pair, issuer string) {
	t.Helper()
	return startDelegatedPairOn(t, onRedis)
}

// startDelegatedPairOn is startDelegatedPair with another configuration of the
// store.
func startDelegatedPairOn(t *testing.T, onRedis func(address string) string) (p *pair, issuer string) {
	t.Helper()
	startDemoProvider(t, func(at string) (provider.Client, *http.Client) {
		issuer = at
		p = &pair{a: prepared(t), b: prepared(t), up: record(t), redis: startRedis(t)}
		p.b.public = p.a.base
		for _, g := range p.both() {
			g.write("crowd.yaml", crowd())
			g.configure(strings.Replace(p.delegated(issuer), p.onRedis(), onRedis(p.redis.Address), 1))
			g.run()
		}
		return provider.Client{
			ID: "pair", Secret: "s3cret", RedirectURIs: []string{p.a.base + "/callback"},
			BackchannelLogoutURI: p.a.base + "/backchannel-logout/demo",
		}, p.a.stranger()
	}, nil)
	return p, issuer
}

// delegated is the configuration of such a pair.
func (p *pair) delegated(issuer string) string {
	return strings.Replace(shared, "accounts:\n", "accounts:\n  file: crowd.yaml\n", 1) + "  - {match: /delegated-resource, upstream: app, auth: [oidc]}\n" + app(p.up.url) + p.onRedis() +
		"providers: [{name: demo, issuer: '" + issuer + "', client_id: pair, client_secret: s3cret}]\n"
}

// crowdSize is how many more accounts such a pair has, so that no account has
// many logins.
const crowdSize = 250

// crowd is the file of these accounts, crowd-0 and so on, with the password of
// alice.
func crowd() string {
	var all strings.Builder
	for i := range crowdSize {
		all.WriteString(person(fmt.Sprint("crowd-", i), wonderlandHash, ""))
	}
	return all.String()
}

// signInAtProvider begins a delegated login on one instance, and finishes it
// on another. It returns the session as a Cookie header.
func (p *pair) signInAtProvider(t *testing.T, c *http.Client, begun, finished *instance) string {
	t.Helper()
	a := finished.do(c, "GET", p.throughProvider(t, c, begun), "")
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Fatalf("the callback: %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	session := sessionOf(a)
	if session == "" {
		t.Fatal("there is no session")
	}
	return session
}

// sessionOf is the delegated session that an answer sets, as a Cookie header.
func sessionOf(a answer) string {
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Name == "session" && cookie.Value != "" {
			return "session=" + cookie.Value
		}
	}
	return ""
}

// throughProvider begins a delegated login on an instance. It returns where
// the provider sends the browser back to.
func (p *pair) throughProvider(t *testing.T, c *http.Client, begun *instance) (callback string) {
	t.Helper()
	authorization := begun.do(c, "GET", "/login", "").header.Get("Location")
	form := url.Values{"username": {"alice"}, "password": {passwords["alice"]}}
	response, err := c.PostForm(strings.Replace(authorization, "/authorize?", "/signin?", 1), form)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	callback, ours := strings.CutPrefix(response.Header.Get("Location"), p.a.base)
	if !ours {
		t.Fatalf("the provider: %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
	return callback
}

// TestRedisDelegated: a login at a provider is begun on A, finished on B, good
// on both, and ended on both by a logout token that A gets.
func TestRedisDelegated(t *testing.T) {
	t.Parallel()
	p, issuer := startDelegatedPair(t)
	c, strangers := p.browser(t), map[*instance]*http.Client{p.a: p.a.stranger(), p.b: p.b.stranger()}
	session := p.signInAtProvider(t, c, p.a, p.b)
	ask := func(g *instance) int { return p.askDelegated(t, g, strangers[g], session) }
	for range 2 { // cold, then warm
		for name, g := range p.both() {
			if got := ask(g); got != http.StatusOK {
				t.Fatalf("the session on %s: %d", name, got)
			}
		}
	}
	response, err := c.Get(issuer + "/logout") // waits until A has been told
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for name, g := range p.both() {
		until(t, name+" to refuse", func() bool { return ask(g) != http.StatusOK })
		if got := ask(g); got != http.StatusUnauthorized {
			t.Errorf("the session on %s after the logout at the provider: %d", name, got)
		}
	}
}

// askDelegated asks for /delegated-resource. The test fails unless the
// upstream is reached with an answer of 200, and with no other.
func (p *pair) askDelegated(t *testing.T, g *instance, c *http.Client, session string) int {
	t.Helper()
	target := "/delegated-resource?n=" + newRequestID()
	got := g.status(c, "GET", target, "Cookie", session)
	p.reached(t, "a delegated session", target, map[bool]int{true: 1}[got == http.StatusOK])
	return got
}

// TestRedisEncryptionKeysDiffer: an instance that has another
// store.encryption_key cannot finish what the other one has begun at a
// provider, nor speak for its logins there.
func TestRedisEncryptionKeysDiffer(t *testing.T) {
	t.Parallel()
	p, issuer := startDelegatedPair(t)
	const key = "abcdefghijabcdefghijabcdefghij01"
	p.b.kill()
	p.b.configure(strings.Replace(p.delegated(issuer), key, "another "+key, 1))
	p.b.run()
	c, atA, atB := p.browser(t), p.a.stranger(), p.b.stranger()
	for name, way := range map[string][2]*instance{"from A to B": {p.a, p.b}, "from B to A": {p.b, p.a}} {
		a := way[1].do(c, "GET", p.throughProvider(t, c, way[0]), "")
		if a.status != http.StatusBadRequest || sessionOf(a) != "" {
			t.Errorf("a login %s: %d, session %q: %s", name, a.status, sessionOf(a), a.body)
		}
	}
	session := p.signInAtProvider(t, c, p.a, p.a)
	for _, at := range []struct {
		g *instance
		c *http.Client
	}{{p.a, atA}, {p.b, atB}} {
		if got := p.askDelegated(t, at.g, at.c, session); got != http.StatusOK {
			t.Errorf("a session: %d", got)
		}
	}
	if got := p.b.status(atB, "GET", "/logout", "Cookie", session); got != http.StatusFound {
		t.Errorf("logout: %d", got)
	}
	const unable = "signing out at the provider failed; the session here has ended"
	until(t, "B to say that it cannot sign out at the provider", func() bool { return strings.Contains(p.b.log.String(), unable) })
	until(t, "A to know of the logout", func() bool { return p.askDelegated(t, p.a, atA, session) == http.StatusUnauthorized })
}
