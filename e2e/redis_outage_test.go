package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// staleness is store.max_staleness by default.
	staleness = 2 * time.Second
	// outageAnswer is how soon a request has its 503.
	outageAnswer = 2 * time.Second
	// recovery is how soon all works again when Redis is back.
	recovery = 3 * time.Second
)

// within is until for something that docs/scaling.md gives a time for. On a busy
// machine it takes longer, so the log tells, and BenchmarkRedisOutage decides.
func within(t testing.TB, limit time.Duration, what string, come func() bool) {
	t.Helper()
	began := time.Now()
	until(t, what, come)
	t.Logf("%s: after %v, of %v", what, time.Since(began).Round(time.Millisecond), limit)
}

// wantOutage fails the test unless the answer is 503 with Retry-After. How soon
// it comes is told as within does.
func wantOutage(t testing.TB, what string, a answer, began time.Time) {
	t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%s: %d, Retry-After %q: %s; expected 503", what, a.status, a.header.Get("Retry-After"), a.body)
	}
	if took := time.Since(began); took > outageAnswer {
		t.Logf("%s: answered after %v, of %v", what, took, outageAnswer)
	}
}

// without checks all that an instance does while Redis is gone. s is a login
// that lives.
func (p *pair) without(t *testing.T, name string, g *instance, s signIn) {
	t.Helper()
	c := g.stranger()
	for kind, credential := range s.credentials() {
		began := time.Now()
		wantOutage(t, name+": "+kind, p.ask(t, g, c, credential...), began)
		began = time.Now()
		wantOutage(t, name+": logout by "+kind, g.do(c, "POST", "/logout", "", credential...), began)
	}
	began := time.Now()
	wantOutage(t, name+": login", g.do(c, "POST", "/login", right, "Content-Type", typeJSON), began)
	began = time.Now()
	refresh := `{"refresh_token":"` + s.refresh + `"}`
	wantOutage(t, name+": refresh", g.do(c, "POST", "/refresh", refresh, "Content-Type", typeJSON), began)
	p.free(t, name, g, c)
	if ready, err := http.Get(g.adm + "/readyz"); err != nil || ready.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s: /readyz: %v, %v", name, ready, err)
	} else {
		ready.Body.Close()
	}
}

// free are the routes that need no store.
func (p *pair) free(t *testing.T, name string, g *instance, c *http.Client) {
	t.Helper()
	if got := g.status(c, "GET", "/open"); got != http.StatusOK {
		t.Errorf("%s: the public route: %d", name, got)
	}
	if got := g.status(c, "GET", "/basic-resource", "Authorization", basicService); got != http.StatusOK {
		t.Errorf("%s: the route for Basic: %d", name, got)
	}
}

// ready reports whether both instances say that they are.
func (p *pair) ready() bool {
	for _, g := range p.both() {
		response, err := http.Get(g.adm + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return false
		}
	}
	return true
}

// works reports whether what is begun on A goes on on B, and ends there.
func (p *pair) works(atA, atB *http.Client) bool {
	s, status, err := p.a.trySignIn(atA, "alice", passwords["alice"])
	if err != nil || status != http.StatusOK {
		return false
	}
	for _, credential := range s.credentials() {
		if a, err := p.b.try(atB, "GET", "/secure-resource", "", credential...); err != nil || a.status != http.StatusOK {
			return false
		}
	}
	a, err := p.b.try(atB, "POST", "/logout", "", "Cookie", s.session)
	return err == nil && a.status == http.StatusOK
}

// TestRedisKilled: Redis is killed under load, and comes back with nothing.
// Nobody gets in meanwhile, nobody is told of a logout that did not happen,
// and it all begins again by itself.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	atA, atB := p.a.stranger(), p.b.stranger()
	s := p.a.signIn(atA, "alice")
	l := &outageLoad{t: t, p: p}
	l.begin(s, p.a.signIn(atA, "bob").session)
	until(t, "a load", func() bool { return l.answers.Load() > 500 })
	p.redis.Kill()
	killed := time.Now()
	l.phase.Store(redisKilled)
	var leaving sync.WaitGroup
	for name, g := range p.both() { // at once, with a login that lives and that they know well
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
	l.phase.Store(redisGone)
	for name, g := range p.both() {
		p.without(t, name, g, s)
	}
	l.phase.Store(redisBack)
	p.redis.Run(t)
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	l.ended.Store(true)
	l.workers.Wait()
	for _, credential := range s.credentials() { // Redis has forgotten the login
		p.refuses(t, p.a, atA, credential...)
		p.refuses(t, p.b, atB, credential...)
	}
	t.Logf("%d answers while Redis was killed and came back", l.answers.Load())
}

// What Redis has gone through, as far as the test knows.
const (
	redisThere  int32 = iota
	redisKilled       // what is cached may be good for a moment
	redisGone
	redisBack
)

// outageLoad is what people do when Redis goes: each worker asks for one thing
// again and again.
type outageLoad struct {
	t *testing.T
	p *pair

	phase   atomic.Int32
	ended   atomic.Bool
	answers atomic.Int64
	workers sync.WaitGroup
}

// allowed says whether a status is right for a request that began in one phase
// and was answered in another.
type allowed func(began, answered int32, status int) bool

// begin starts a worker on each instance for whatever there is. s is a login
// that nobody ends, and other a session that all of them end.
func (l *outageLoad) begin(s signIn, other string) {
	always := func(_, _ int32, status int) bool { return status == http.StatusOK }
	protected := func(began, _ int32, status int) bool {
		return status == http.StatusServiceUnavailable || began <= redisKilled && status == http.StatusOK ||
			began != redisThere && status == http.StatusUnauthorized // once Redis is back with nothing
	}
	// That a session has ended already may be cached, too.
	logout := func(began, answered int32, status int) bool {
		return status == http.StatusServiceUnavailable || (began <= redisKilled || answered == redisBack) && status == http.StatusOK
	}
	for name, g := range l.p.both() {
		for kind, credential := range s.credentials() {
			l.loop(name+": "+kind, g, "GET", "/secure-resource", credential, protected)
		}
		l.loop(name+": logout", g, "POST", "/logout", []string{"Cookie", other}, logout)
		l.loop(name+": public", g, "GET", "/open", nil, always)
		l.loop(name+": basic", g, "GET", "/basic-resource", []string{"Authorization", basicService}, always)
	}
}

// loop asks until the end. What is 200 has reached the upstream, except for
// logouts, and nothing else has.
func (l *outageLoad) loop(what string, g *instance, method, path string, headers []string, right allowed) {
	c, target, answered := g.stranger(), path+"?n="+newRequestID(), 0
	l.workers.Go(func() {
		if path != "/logout" {
			defer func() { l.p.reached(l.t, what, target, answered) }()
		}
		for !l.ended.Load() {
			phase, began := l.phase.Load(), time.Now()
			a, err := g.try(c, method, target, "", headers...)
			last := l.phase.Load()
			if err != nil || !right(phase, last, a.status) {
				l.t.Errorf("%s, in phase %d to %d: %d, %v", what, phase, last, a.status, err)
				return
			}
			switch a.status {
			case http.StatusOK:
				answered++
			case http.StatusServiceUnavailable:
				wantOutage(l.t, what, a, began)
			}
			l.answers.Add(1)
		}
	})
}

// TestRedisRestarted: Redis is killed right after a logout, and comes back
// with what it has kept of that.
func TestRedisRestarted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args      []string
		forgotten bool // the logout is
	}{
		"with all": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, false},
		// This is no wish: docs/scaling.md warns of it.
		"with an older state": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, startRedis(t, test.args...), "")
			atA, atB := p.a.stranger(), p.b.stranger()
			kept, ended := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
			for _, s := range []signIn{kept, ended} {
				for _, credential := range s.credentials() {
					p.opens(t, p.b, atB, credential...)
				}
			}
			p.redis.Do(t, "SAVE")
			if got := p.a.status(atA, "POST", "/logout", "Authorization", ended.access); got != http.StatusOK {
				t.Fatalf("logout: %d", got)
			}
			p.redis.Kill()
			p.redis.Run(t)
			within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
			within(t, recovery, "both are ready again", p.ready)
			for _, credential := range kept.credentials() {
				p.opens(t, p.a, atA, credential...)
				p.opens(t, p.b, atB, credential...)
			}
			check := p.refuses
			if test.forgotten {
				check = p.opens
			}
			for _, credential := range ended.credentials() {
				check(t, p.a, atA, credential...)
				check(t, p.b, atB, credential...)
			}
		})
	}
}

// TestRedisFrozen: Redis is there and says nothing. What is cached is good for
// store.max_staleness, and not longer.
func TestRedisFrozen(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	atA, atB := p.a.stranger(), p.b.stranger()
	kept, left := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
	for _, credential := range kept.credentials() {
		p.opens(t, p.a, atA, credential...)
		p.opens(t, p.b, atB, credential...)
	}
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
	p.redis.Signal(t, syscall.SIGCONT)
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	for _, credential := range kept.credentials() {
		p.opens(t, p.a, atA, credential...)
		p.opens(t, p.b, atB, credential...)
	}
	// Redis had got the logouts that were answered 503, and has done them now
	// or not; but both instances see the same.
	if a, b := p.a.status(atA, "GET", "/me", "Cookie", left.session), p.b.status(atB, "GET", "/me", "Cookie", left.session); a != b {
		t.Errorf("a logout that was answered 503: %d on A and %d on B", a, b)
	}
}

// untilOutage waits until nothing of a login is trusted any more, see trustedFor.
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

// trustedFor asks until a credential is refused, and fails the test if a request
// that began later than staleness after since was let through, or the answer is
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
			t.Logf("%s: trusted for %v", what, began.Sub(since).Round(time.Millisecond))
			wantOutage(t, what, a, began)
			return
		}
		answered++
		if trusted := began.Sub(since); trusted > staleness {
			t.Errorf("%s: trusted for %v, expected %v at most", what, trusted, staleness)
			return
		}
	}
}

// TestRedisCutOff: while B is cut off from Redis, a login that B knows well is
// ended on A. B never accepts it again once it is back, nor meanwhile for
// longer than it may.
func TestRedisCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*redisProxy){"closed": (*redisProxy).Cut, "silent": (*redisProxy).Swallow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			way := startProxy(t, redis.Address)
			p := startPair(t, redis, way.Address)
			atA, atB := p.a.stranger(), p.b.stranger()
			ended, kept := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
			for range 2 { // so that it is warm
				for _, s := range []signIn{ended, kept} {
					for _, credential := range s.credentials() {
						p.opens(t, p.b, atB, credential...)
					}
				}
			}
			cut(way)
			since := time.Now()
			if got := p.a.status(atA, "POST", "/logout", "Authorization", ended.access); got != http.StatusOK {
				t.Fatalf("the logout on A: %d", got)
			}
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
					switch got := p.ask(t, p.b, atB, credential...).status; got {
					case http.StatusUnauthorized:
						refused++
					case http.StatusServiceUnavailable:
					default:
						t.Fatalf("after the cut, the %s that was ended on A meanwhile: %d", kind, got)
					}
				}
				return refused == 2
			})
			within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
			for _, credential := range ended.credentials() {
				p.refuses(t, p.b, atB, credential...)
			}
			for _, credential := range kept.credentials() { // B's logouts never left it
				p.opens(t, p.b, atB, credential...)
			}
		})
	}
}

// TestRedisMissingAtStart: an instance that starts without Redis says what it
// misses, and where. It does what it can, lets in nobody whose login it cannot
// check, and goes on by itself when Redis is there.
func TestRedisMissingAtStart(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t, "--appendonly", "yes", "--appendfsync", "always"), "")
	atA, atB := p.a.stranger(), p.b.stranger()
	kept, ended := p.a.signIn(atA, "alice"), p.a.signIn(atA, "bob")
	if got := p.a.status(atA, "POST", "/logout", "Authorization", ended.access); got != http.StatusOK {
		t.Fatalf("logout: %d", got)
	}
	p.redis.Kill()
	p.b.kill()
	p.b.launch("/healthz")
	atB = p.b.stranger()
	p.without(t, "B", p.b, kept)
	_, hint, _ := strings.Cut(p.b.log.String(), "start it, or correct store.addresses")
	hint, _, _ = strings.Cut(hint, "\n")
	for what, said := range map[string]string{"the log": hint, "/readyz": p.readiness(t, p.b)} {
		if !strings.Contains(said, p.redis.Address) || !strings.Contains(said, "connection refused") {
			t.Errorf("%s does not say that nobody answers at %s: %s", what, p.redis.Address, said)
		}
	}
	p.redis.Run(t)
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	for _, credential := range kept.credentials() {
		p.opens(t, p.b, atB, credential...)
	}
	for _, credential := range ended.credentials() {
		p.refuses(t, p.b, atB, credential...)
	}
}

// readiness is what an instance says of it.
func (p *pair) readiness(t *testing.T, g *instance) string {
	t.Helper()
	response, err := http.Get(g.adm + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
