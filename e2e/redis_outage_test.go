package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// staleness is the default of store.max_staleness.
	staleness = 2 * time.Second
	// outageAnswer is the time in which a request gets its 503.
	outageAnswer = 2 * time.Second
	// recovery is the time in which everything works again when Redis is back.
	recovery = 3 * time.Second
)

// within is until for what docs/scaling.md gives a time for. A busy machine takes
// longer, so this logs the time, and BenchmarkRedisOutage fails over it.
func within(t testing.TB, limit time.Duration, what string, come func() bool) {
	t.Helper()
	began := time.Now()
	until(t, what, come)
	t.Logf("%s: after %v, of %v", what, time.Since(began).Round(time.Millisecond), limit)
}

// wantOutage fails the test unless the answer is 503 with Retry-After. It logs a
// late one, as within does.
func wantOutage(t testing.TB, what string, a answer, began time.Time) {
	t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%s: %d, Retry-After %q: %s; expected 503", what, a.status, a.header.Get("Retry-After"), a.body)
	}
	if took := time.Since(began); took > outageAnswer {
		t.Logf("%s: answered after %v, of %v", what, took, outageAnswer)
	}
}

// without checks all that an instance does while Redis is gone. The login s is
// alive.
func (p *pair) without(t *testing.T, name string, g *instance, s signIn) {
	t.Helper()
	c := p.client(g)
	for kind, credential := range s.credentials() {
		began := time.Now()
		wantOutage(t, name+": "+kind, p.ask(t, g, c, credential...), began)
		began = time.Now()
		wantOutage(t, name+": logout by "+kind, g.do(c, "POST", "/logout", "", credential...), began)
	}
	began := time.Now()
	a := g.do(c, "POST", "/login", right, "Content-Type", typeJSON)
	wantOutage(t, name+": login", a, began)
	wantNothingGiven(t, a)
	began = time.Now()
	refresh := `{"refresh_token":"` + s.refresh + `"}`
	wantOutage(t, name+": refresh", g.do(c, "POST", "/refresh", refresh, "Content-Type", typeJSON), began)
	p.free(t, name, g)
	if status, body := g.ready(); status != http.StatusServiceUnavailable {
		t.Errorf("%s: /readyz: %d %s", name, status, body)
	}
}

// free checks the routes that need no store.
func (p *pair) free(t *testing.T, name string, g *instance) {
	t.Helper()
	if got := g.status(p.client(g), "GET", "/open"); got != http.StatusOK {
		t.Errorf("%s: the public route: %d", name, got)
	}
	if got := g.status(p.client(g), "GET", "/basic-resource", "Authorization", basicService); got != http.StatusOK {
		t.Errorf("%s: the route for Basic: %d", name, got)
	}
}

// ready reports whether both instances are ready.
func (p *pair) ready() bool {
	for _, g := range p.both() {
		if status, _, err := g.readiness(); err != nil || status != http.StatusOK {
			return false
		}
	}
	return true
}

// works reports whether a login on A works on B and can be ended there.
func (p *pair) works() bool {
	s, status, err := p.a.trySignIn(p.client(p.a), "alice", passwords["alice"])
	if err != nil || status != http.StatusOK {
		return false
	}
	for _, credential := range s.credentials() {
		if a, err := p.b.try(p.client(p.b), "GET", "/secure-resource", "", credential...); err != nil || a.status != http.StatusOK {
			return false
		}
	}
	a, err := p.b.try(p.client(p.b), "POST", "/logout", "", "Cookie", s.session)
	return err == nil && a.status == http.StatusOK
}

// recovers waits until logins work and both instances are ready again.
func (p *pair) recovers(t testing.TB) {
	t.Helper()
	within(t, recovery, "logins work again", p.works)
	within(t, recovery, "both are ready again", p.ready)
}

// TestRedisKilled: Redis is killed and comes back empty. While it is gone no
// credential works, no logout is confirmed that did not happen, and everything
// works again when it is back. Package chaos kills it under load.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	s := p.signIn("alice")
	p.wantAlive(t, s, s)
	p.redis.Kill()
	killed := time.Now()
	var leaving sync.WaitGroup
	for name, g := range p.both() { // at once, with a login that is alive and in their caches
		c := g.stranger()
		leaving.Go(func() {
			began := time.Now()
			a, err := g.try(c, "POST", "/logout", "", "Cookie", s.session)
			if err != nil {
				t.Error(err)
			}
			wantOutage(t, name+": logout", a, began)
		})
	}
	p.untilOutage(t, s, killed)
	leaving.Wait()
	for name, g := range p.both() {
		p.without(t, name, g, s)
	}
	p.redis.Run(t)
	p.recovers(t)
	p.wantEnded(t, s) // Redis has lost the login
}

// TestRedisRestarted: when Redis comes back with an older state, a logout since
// then is undone. docs/scaling.md warns of that; TestRedisMissingAtStart has a
// Redis that keeps all writes.
func TestRedisRestarted(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.redis.Do(t, "SAVE")
	p.signOut(t, "Authorization", ended.access)
	p.redis.Kill()
	p.redis.Run(t)
	p.recovers(t)
	p.wantAlive(t, kept, ended)
}

// TestRedisFrozen: when Redis stops answering, cached values are valid for
// store.max_staleness and not longer. An instance starts and stops beside a Redis
// that does not answer. Everything works again when Redis answers.
func TestRedisFrozen(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	kept, left := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept)
	p.redis.Freeze(t)
	frozen := time.Now()
	p.untilOutage(t, kept, frozen)
	if t.Failed() {
		p.redis.Signal(t, syscall.SIGCONT)
		return
	}
	for name, g := range p.both() {
		p.without(t, name, g, left)
	}
	p.relaunch(p.b, "/healthz")
	p.without(t, "B, started without Redis", p.b, left)
	p.b.signal(syscall.SIGTERM)
	p.b.ends(patience)
	p.relaunch(p.b, "/healthz")
	p.redis.Signal(t, syscall.SIGCONT)
	p.recovers(t)
	p.wantAlive(t, kept)
	// Redis got the logouts that were answered 503, and has done them now or not;
	// but both instances see the same.
	a, b := p.a.status(p.client(p.a), "GET", "/me", "Cookie", left.session), p.b.status(p.client(p.b), "GET", "/me", "Cookie", left.session)
	if a != b {
		t.Errorf("after a logout that was answered 503: %d on A and %d on B", a, b)
	}
}

// untilOutage waits until no instance accepts a login any more, see trustedFor.
func (p *pair) untilOutage(t *testing.T, s signIn, since time.Time) {
	t.Helper()
	var asking sync.WaitGroup
	for name, g := range p.both() {
		for kind, credential := range s.credentials() {
			asking.Go(func() { p.trustedFor(t, g, name+": "+kind, since, credential) })
		}
	}
	asking.Wait()
}

// trustedFor sends requests until a credential is refused, and fails the test if
// one that began later than staleness after since was accepted, or the answer is
// not 503. The bound is exact: since is after the last contact with Redis, and
// the instance goes by its own clock.
func (p *pair) trustedFor(t *testing.T, g *instance, what string, since time.Time, credential []string) {
	c, target, answered := g.stranger(), "/secure-resource?n="+newRequestID(), 0
	defer func() { p.reached(t, what, target, answered) }()
	for {
		began := time.Now()
		a, err := g.try(c, "GET", target, "", credential...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if a.status != http.StatusOK {
			t.Logf("%s: accepted for %v", what, began.Sub(since).Round(time.Millisecond))
			wantOutage(t, what, a, began)
			return
		}
		answered++
		if trusted := began.Sub(since); trusted > staleness {
			t.Errorf("%s: accepted for %v, expected %v at most", what, trusted, staleness)
			return
		}
	}
}

// TestRedisCutOff: while B is cut off from Redis, a login that B has in its cache
// is ended on A. B accepts it for no longer than it may, and not once it is back.
func TestRedisCutOff(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	way := startProxy(t, redis.Address)
	p := startPair(t, redis, way.Address)
	for name, cut := range map[string]func(*redisProxy){"closed": (*redisProxy).Cut, "silent": (*redisProxy).Swallow} {
		t.Run(name, func(t *testing.T) {
			ended, kept := p.signIn("alice"), p.signIn("bob")
			p.wantAlive(t, ended, kept, ended, kept) // so that they are warm
			cut(way)
			since := time.Now()
			p.signOut(t, "Authorization", ended.access)
			var asking sync.WaitGroup
			for kind, credential := range ended.credentials() {
				asking.Go(func() { p.trustedFor(t, p.b, kind, since, credential) })
			}
			asking.Wait()
			p.without(t, "B", p.b, kept)

			way.Mend()
			within(t, recovery, "B knows of the logout", func() bool {
				refused := 0
				for kind, credential := range ended.credentials() {
					switch got := p.ask(t, p.b, p.client(p.b), credential...).status; got {
					case http.StatusUnauthorized:
						refused++
					case http.StatusServiceUnavailable:
					default:
						t.Fatalf("after the cut, the %s that was ended on A meanwhile: %d", kind, got)
					}
				}
				return refused == 2
			})
			p.recovers(t)
			p.wantEnded(t, ended)
			p.wantAlive(t, kept) // B's logouts did not reach Redis
		})
	}
}

// TestRedisMissingAtStart: an instance that starts without Redis says what is
// missing and where, serves what needs no store, and works when Redis is there.
// Redis keeps all writes, so logins are what they were.
func TestRedisMissingAtStart(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t, "--appendonly", "yes", "--appendfsync", "always"), "")
	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Authorization", ended.access)
	p.redis.Kill()
	p.relaunch(p.b, "/healthz")
	p.without(t, "B", p.b, kept)
	_, hint, _ := strings.Cut(p.b.log.String(), "start it, or correct store.addresses")
	hint, _, _ = strings.Cut(hint, "\n")
	_, ready := p.b.ready()
	for what, said := range map[string]string{"the log": hint, "/readyz": ready} {
		if !strings.Contains(said, p.redis.Address) || !strings.Contains(said, "connection refused") {
			t.Errorf("%s does not say that nothing answers at %s: %s", what, p.redis.Address, said)
		}
	}
	p.redis.Run(t)
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)
}

// TestRedisAccountRemoved: an account that is removed while Redis is away is out
// once Redis is back, at an instance that runs all the time and at one that
// starts meanwhile. Each logs the failure once.
func TestRedisAccountRemoved(t *testing.T) {
	t.Parallel()
	alice := person("alice", wonderlandHash, "")
	p := preparePair(t, startRedis(t, "--appendonly", "yes", "--appendfsync", "always"))
	for _, g := range p.both() {
		g.write("accounts.yaml", alice+person("bob", builderHash, ""))
		g.configure(app(p.up.url) + p.onRedis() + `
token: {secret: "01234567890123456789012345678901"}
accounts: {file: accounts.yaml}
routes: [{match: /secure-resource, upstream: app, auth: [session, bearer]}]
`)
	}
	p.run()
	stays, removed := p.signIn("alice"), p.signIn("bob")
	p.redis.Kill()
	p.relaunch(p.b, "/healthz")
	const failure = "until the store answers"
	for _, g := range p.both() {
		g.applies("accounts.yaml", alice, func() bool { return strings.Contains(g.log.String(), failure) })
	}
	p.redis.Run(t)
	began := time.Now()
	for name, g := range p.both() {
		within(t, 10*time.Second, name+" refuses the removed account", func() bool {
			return g.status(p.client(g), "GET", "/secure-resource", "Cookie", removed.session) == http.StatusUnauthorized
		})
		// The session may have ended because the other instance removed the account.
		within(t, 10*time.Second, name+" refuses a login of the removed account", func() bool {
			_, status, err := g.trySignIn(p.client(g), "bob", "builder")
			return err == nil && status == http.StatusUnauthorized
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s refuses the removed account after %v", name, took)
		}
		if n := strings.Count(g.log.String(), failure); n != 1 {
			t.Errorf("%s logs %d failures\n%s", name, n, g.log)
		}
	}
	p.wantAlive(t, stays)
}

// TestRedisFar: one of two instances is half a second away from Redis. Its
// answers are right or 503. TestStoreTime in package gateway proves the bound on
// the time, which this test logs.
func TestRedisFar(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	p := startPair(t, redis, startFarProxy(t, redis.Address, 500*time.Millisecond).Address)
	one, two, three := p.signIn("alice"), p.signIn("alice"), p.signIn("alice")
	for _, q := range []struct {
		what, path, body string
		headers          []string
		ends             *signIn // with 200
	}{
		{"login", "/login", right, []string{"Content-Type", typeJSON}, nil},
		{"login in place of another one", "/login", right, []string{"Content-Type", typeJSON, "Cookie", one.session}, &one},
		{"refresh", "/refresh", `{"refresh_token":"` + two.refresh + `"}`, []string{"Content-Type", typeJSON}, nil},
		{"logout", "/logout", "", []string{"Cookie", two.session}, &two},
		{"logout of all", "/logout", "", []string{"Cookie", three.session, "Authorization", three.access}, &three},
	} {
		began := time.Now()
		a := p.b.do(p.client(p.b), "POST", q.path, q.body, q.headers...)
		t.Logf("%s: %d after %v", q.what, a.status, time.Since(began).Round(time.Millisecond))
		if a.status != http.StatusOK {
			wantOutage(t, q.what, a, began)
		} else if q.ends != nil {
			p.refuses(t, p.a, "Cookie", q.ends.session)
		}
	}
}
