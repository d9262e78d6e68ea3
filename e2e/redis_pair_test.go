package e2e

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is two gateways that share a Redis, and so logins and revocations.
type pair struct {
	a, b  *instance
	up    *recorder
	redis *redisServer
}

// shared is what instances of one service have in common. A refresh token may
// be used again for so long.
const shared = people + `
token: {secret: "01234567890123456789012345678901", reuse_leeway: 2s}
routes:
  - {match: /secure-resource, upstream: app, auth: [session, bearer]}
  - {match: /basic-resource, upstream: app, auth: [basic]}
  - {match: /open, upstream: app, auth: [none]}
`

// onRedis is the part of a configuration that says where the store is.
func onRedis(address string) string {
	return fmt.Sprintf("store: {driver: redis, addresses: [%q], encryption_key: abcdefghijabcdefghijabcdefghij01}\n", address)
}

// patientRedis is onRedis where what is cached is good for a day without contact:
// for tests of what costs no round trip, or needs no looking for.
func patientRedis(address string) string {
	return strings.Replace(onRedis(address), "{", "{max_staleness: 24h, ", 1)
}

// startPair starts two gateways on a Redis of their own. The second one gets
// to it by way of the address, which is the Redis's own if empty.
func startPair(t testing.TB, redis *redisServer, way string) *pair {
	t.Helper()
	return startPairOn(t, redis, way, shared, onRedis)
}

// startPairOn is startPair with another configuration, and another one of the
// store.
func startPairOn(t testing.TB, redis *redisServer, way, shared string, onRedis func(address string) string) *pair {
	t.Helper()
	if way == "" {
		way = redis.Address
	}
	p := &pair{a: prepared(t), b: prepared(t), up: record(t), redis: redis}
	p.b.public = p.a.base
	config := shared + app(p.up.url)
	p.a.configure(config + onRedis(redis.Address))
	p.b.configure(config + onRedis(way))
	p.a.run()
	p.b.run()
	return p
}

// onRedis is the usual configuration of the store.
func (p *pair) onRedis() string { return onRedis(p.redis.Address) }

// both are the instances by name.
func (p *pair) both() map[string]*instance { return map[string]*instance{"A": p.a, "B": p.b} }

// browser is a client that trusts both, whose certificates are their own.
func (p *pair) browser(t testing.TB) *http.Client {
	t.Helper()
	c := p.a.client()
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs = trusting(t, p.a, p.b)
	return c
}

// trusting are the authorities of instances.
func trusting(t testing.TB, instances ...*instance) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	for _, g := range instances {
		pem, err := os.ReadFile(filepath.Join(g.dir, g.ca))
		if err != nil {
			t.Fatal(err)
		}
		roots.AppendCertsFromPEM(pem)
	}
	return roots
}

// credentials are what opens /secure-resource, as headers.
func (s signIn) credentials() map[string][]string {
	return map[string][]string{
		"session": {"Cookie", s.session},
		"token":   {"Authorization", s.access},
	}
}

// ask asks for /secure-resource with a credential. The test fails unless the
// upstream is reached with an answer of 200, and with no other.
func (p *pair) ask(t testing.TB, g *instance, c *http.Client, credential ...string) answer {
	t.Helper()
	target := "/secure-resource?n=" + newRequestID()
	a, err := g.try(c, "GET", target, "", credential...)
	if err != nil {
		t.Errorf("with a %s: %v", credential[0], err)
	}
	p.reached(t, "with a "+credential[0], target, map[bool]int{true: 1}[a.status == http.StatusOK])
	return a
}

// reached fails the test unless so many requests for target, which were
// answered with 200, have reached the upstream, and no others.
func (p *pair) reached(t testing.TB, what, target string, answered int) {
	t.Helper()
	if reached := len(p.up.askedFor(target)); reached != answered {
		t.Errorf("%s: %d requests reached the upstream, and %d were answered with 200", what, reached, answered)
	}
}

// opens fails the test unless a credential opens the way to the upstream.
func (p *pair) opens(t testing.TB, g *instance, c *http.Client, credential ...string) {
	t.Helper()
	if a := p.ask(t, g, c, credential...); a.status != http.StatusOK {
		t.Errorf("with a %s that lives: %d %s", credential[0], a.status, a.body)
	}
}

// refuses fails the test if it does, or if the answer is not 401.
func (p *pair) refuses(t testing.TB, g *instance, c *http.Client, credential ...string) {
	t.Helper()
	if a := p.ask(t, g, c, credential...); a.status != http.StatusUnauthorized {
		t.Errorf("with a %s that has ended: %d %s", credential[0], a.status, a.body)
	}
}

// TestRedisSharesLogins: whatever one instance does, the other knows.
func TestRedisSharesLogins(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	for name, story := range map[string]func(*testing.T, *pair){
		"login and logout": loginHereLogoutThere,
		"refreshes of one token": func(t *testing.T, _ *pair) {
			// With a leeway that no refresh meets by being slow.
			p := startPairOn(t, p.redis, "", strings.Replace(shared, "reuse_leeway: 2s", "reuse_leeway: 1h", 1), onRedis)
			parallelRefreshes(t, p.a, p.b)
		},
		"a refresh token, reused": reusedOnTheOther,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, p)
		})
	}
}

// loginHereLogoutThere: all that a login gives works on both, and ends on
// both, whichever is asked and whichever credential is shown to it.
func loginHereLogoutThere(t *testing.T, p *pair) {
	atA, atB := p.a.stranger(), p.b.stranger()
	for _, way := range []struct {
		from, to     *instance
		fromC, toC   *http.Client
		showing, why string
	}{
		{p.a, p.b, atA, atB, "session", "from A to B"},
		{p.b, p.a, atB, atA, "session", "from B to A"},
		{p.a, p.b, atA, atB, "token", "from A to B"},
		{p.b, p.a, atB, atA, "token", "from B to A"},
	} {
		s := way.from.signIn(way.fromC, "alice")
		for range 2 { // cold, then warm
			for _, credential := range s.credentials() {
				p.opens(t, way.from, way.fromC, credential...)
				p.opens(t, way.to, way.toC, credential...)
			}
		}
		if got := way.from.status(way.fromC, "POST", "/logout", s.credentials()[way.showing]...); got != http.StatusOK {
			t.Fatalf("%s, logout by %s: %d", way.why, way.showing, got)
		}
		until(t, "the other instance to refuse", func() bool {
			return way.to.status(way.toC, "GET", "/me", "Cookie", s.session) == http.StatusUnauthorized
		})
		for _, credential := range s.credentials() {
			p.refuses(t, way.from, way.fromC, credential...)
			p.refuses(t, way.to, way.toC, credential...)
		}
		if _, got, err := way.to.tryRefresh(way.toC, s.refresh); err != nil || got != http.StatusUnauthorized {
			t.Errorf("%s: refresh after the logout: %d, %v", way.why, got, err)
		}
	}
}

// reusedOnTheOther: a token that A has exchanged comes to B later than
// reuse_leeway, from a thief or after one, and ends the login on both.
func reusedOnTheOther(t *testing.T, p *pair) {
	atA, atB := p.a.stranger(), p.b.stranger()
	first, before := p.a.signIn(atA, "bob"), time.Now()
	second, status, err := p.a.tryRefresh(atA, first.refresh)
	if err != nil || status != http.StatusOK {
		t.Fatalf("refresh: %d, %v", status, err)
	}
	p.opens(t, p.b, atB, "Authorization", second.access)
	until(t, "the reuse to end the login", func() bool {
		if _, got, err := p.b.tryRefresh(atB, first.refresh); err != nil || got != http.StatusUnauthorized {
			t.Fatalf("a used refresh token: %d, %v", got, err)
		}
		return p.a.status(atA, "GET", "/me", "Authorization", second.access) == http.StatusUnauthorized
	})
	if after := time.Since(before); after < 2*time.Second {
		t.Errorf("the reuse ended the login after %v, within reuse_leeway", after)
	}
	for _, credential := range [][]string{{"Cookie", first.session}, {"Authorization", first.access}, {"Authorization", second.access}} {
		p.refuses(t, p.a, atA, credential...)
		p.refuses(t, p.b, atB, credential...)
	}
	if _, got, err := p.a.tryRefresh(atA, second.refresh); err != nil || got != http.StatusUnauthorized {
		t.Errorf("the newest refresh token: %d, %v", got, err)
	}
}

// TestRedisRevocationReachesOthers: an instance that has just accepted a session
// or a token from its cache hears of its end. It confirms contact so seldom that
// it learns of it in no other way than by a push. BenchmarkRedisRevocation
// measures how soon.
func TestRedisRevocationReachesOthers(t *testing.T) {
	t.Parallel()
	p := startPairOn(t, startRedis(t), "", shared, patientRedis)
	for _, kind := range []string{"session", "token"} {
		t.Run(kind, func(t *testing.T) { measureLogouts(t, p, kind, 50) })
	}
}

// measureLogouts ends logins on A that B has in its cache, and returns how long
// it took each time until B refused a request, in order of length.
func measureLogouts(t testing.TB, p *pair, kind string, logouts int) []time.Duration {
	t.Helper()
	atA, atB := p.a.stranger(), p.b.stranger()
	var took []time.Duration
	for range logouts {
		credential := p.a.signIn(atA, "alice").credentials()[kind]
		for range 2 { // so that it is warm
			if got := p.b.status(atB, "GET", "/secure-resource", credential...); got != http.StatusOK {
				t.Fatalf("before the logout: %d", got)
			}
		}
		if got := p.a.status(atA, "POST", "/logout", credential...); got != http.StatusOK {
			t.Fatalf("the logout: %d", got)
		}
		ended := time.Now()
		until(t, "the other instance to refuse", func() bool {
			// Not once in 10 ms, as until would ask.
			for range 1000 {
				if p.b.status(atB, "GET", "/secure-resource", credential...) == http.StatusUnauthorized {
					return true
				}
			}
			return false
		})
		took = append(took, time.Since(ended))
		p.refuses(t, p.b, atB, credential...)
	}
	slices.Sort(took)
	return took
}
