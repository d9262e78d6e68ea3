package redis

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// staleness is the default of store.max_staleness.
const staleness = 2 * time.Second

// wantOutage fails the test unless the answer is 503 with Retry-After and gives
// nothing. BenchmarkRedisOutage measures how soon such an answer comes.
func wantOutage(t testing.TB, what string, a world.Answer) {
	t.Helper()
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || len(a.Header["Set-Cookie"]) > 0 ||
		strings.Contains(a.Body, "_token") {
		t.Errorf("%s: %d, expected 503, %v: %s", what, a.Status, a.Header, a.Body)
	}
}

// change is a POST request that needs the store.
type change struct {
	what, path, body string
	headers          []string
}

// changesOf are requests with a login that is alive.
func changesOf(s world.Login) []change {
	return []change{
		{"login", "/login", world.AliceJSON, []string{"Content-Type", world.TypeJSON}},
		{"refresh", "/refresh", `{"refresh_token":"` + s.Refresh + `"}`, []string{"Content-Type", world.TypeJSON}},
		{"logout-by-session", "/logout", "", []string{"Cookie", s.Session}},
		{"logout-by-token", "/logout", "", []string{"Authorization", s.Access}},
	}
}

// without checks all that an instance does while Redis is gone. The login s is
// alive.
func (p *pair) without(t *testing.T, name string, g *world.Instance, s world.Login) {
	t.Helper()
	for kind, credential := range credentialsOf(s) {
		wantOutage(t, name+": "+kind, p.ask(t, g, credential...))
	}
	for _, r := range changesOf(s) {
		wantOutage(t, name+": "+r.what, g.Do(p.client(g), "POST", r.path, r.body, r.headers...))
	}
	p.free(t, name, g)
	if status, body := g.Ready(); status != http.StatusServiceUnavailable {
		t.Errorf("%s: /readyz: %d %s", name, status, body)
	}
}

// free checks the routes that need no store.
func (p *pair) free(t *testing.T, name string, g *world.Instance) {
	t.Helper()
	for path, authorization := range map[string]string{"/open": "", "/basic-resource": world.BasicService} {
		if got := g.Status(p.client(g), "GET", path, "Authorization", authorization); got != http.StatusOK {
			t.Errorf("%s: %s: %d", name, path, got)
		}
	}
}

// ready reports whether both instances are ready.
func (p *pair) ready() bool {
	for _, g := range p.both() {
		if status, _, err := g.Readiness(); err != nil || status != http.StatusOK {
			return false
		}
	}
	return true
}

// works reports whether a login on A works on B and can be ended there.
func (p *pair) works() bool {
	s, status, err := p.a.TrySignIn(p.client(p.a), "alice", world.Passwords["alice"])
	if err != nil || status != http.StatusOK {
		return false
	}
	for _, credential := range credentialsOf(s) {
		if a, err := p.b.Try(p.client(p.b), "GET", "/secure-resource", "", credential...); err != nil ||
			a.Status != http.StatusOK {
			return false
		}
	}
	a, err := p.b.Try(p.client(p.b), "POST", "/logout", "", "Cookie", s.Session)
	return err == nil && a.Status == http.StatusOK
}

// recovers waits until logins work and both instances are ready again.
func (p *pair) recovers(t testing.TB) {
	t.Helper()
	world.Until(t, "logins that work again", func() bool { return p.works() && p.ready() })
}

// untilOutage sends requests with the credentials of a login until they are refused
// with 503. The test fails if a request that began later than staleness after since
// was accepted. The bound is exact: since is after the last contact with Redis, and
// an instance goes by its own clock.
func (p *pair) untilOutage(t *testing.T, s world.Login, since time.Time, instances ...*world.Instance) {
	t.Helper()
	var asking sync.WaitGroup
	for _, g := range instances {
		for kind, credential := range credentialsOf(s) {
			c, target := g.Stranger(), "/secure-resource?n="+world.NewRequestID()
			asking.Go(func() {
				answered := 0
				defer func() { p.reached(t, kind, target, answered) }()
				for {
					began := time.Now()
					a, err := g.Try(c, "GET", target, "", credential...)
					switch {
					case err != nil:
						t.Errorf("%s: %v", kind, err)
						return
					case a.Status != http.StatusOK:
						wantOutage(t, kind, a)
						return
					case began.Sub(since) > staleness:
						t.Errorf("%s: accepted for %v, expected %v at most", kind, began.Sub(since), staleness)
						return
					}
					answered++
				}
			})
		}
	}
	asking.Wait()
}

// TestRedisKilled: Redis is killed. While it is gone no credential works, and no
// logout is confirmed that did not happen. When it comes back empty, logins are
// lost. When it comes back with an older state, a logout since then is undone, of
// which docs/scaling.md warns. Package chaos kills Redis under load.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t), "")
	s := p.signIn("alice")
	p.wantAlive(t, s, s)
	p.redis.Kill()
	killed := time.Now()
	for name, g := range p.both() { // at once, with a login that is alive and in their caches
		wantOutage(t, name+": logout", g.Do(p.client(g), "POST", "/logout", "", "Cookie", s.Session))
	}
	p.untilOutage(t, s, killed, p.a, p.b)
	for name, g := range p.both() {
		p.without(t, name, g, s)
	}
	p.redis.Run(t)
	p.recovers(t)
	p.wantEnded(t, s)

	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.redis.Do(t, "SAVE")
	p.signOut(t, "Authorization", ended.Access)
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
	p := startPair(t, world.StartRedis(t), "")
	kept, left := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept)
	p.redis.Freeze(t)
	p.untilOutage(t, kept, time.Now(), p.a, p.b)
	for name, g := range p.both() {
		p.without(t, name, g, left)
	}
	p.relaunch(p.b, "/healthz")
	p.without(t, "B, started without Redis", p.b, left)
	p.b.Signal(syscall.SIGTERM)
	p.b.Ends(world.Patience)
	p.relaunch(p.b, "/healthz")
	p.redis.Signal(t, syscall.SIGCONT)
	p.recovers(t)
	p.wantAlive(t, kept)
	// Redis got the logouts that were answered 503, and has done them now or not;
	// but both instances see the same.
	a, b := p.a.Status(p.client(p.a), "GET", "/me", "Cookie", left.Session), p.b.Status(p.client(p.b), "GET", "/me",
		"Cookie", left.Session)
	if a != b {
		t.Errorf("after a logout that was answered 503: %d on A and %d on B", a, b)
	}
}

// TestRedisCutOff: while B is cut off from Redis, a login that B has in its cache
// is ended on A. B accepts it for no longer than it may, and not once it is back.
func TestRedisCutOff(t *testing.T) {
	t.Parallel()
	redis := world.StartRedis(t)
	way := redistest.StartProxy(t, redis.Address)
	p := startPair(t, redis, way.Address)
	for name, cut := range map[string]func(*redistest.Proxy){"closed": (*redistest.Proxy).Cut,
		"silent": (*redistest.Proxy).Swallow} {
		t.Run(name, func(t *testing.T) {
			ended, kept := p.signIn("alice"), p.signIn("bob")
			p.wantAlive(t, ended, kept, ended, kept) // so that they are warm
			cut(way)
			since := time.Now()
			p.signOut(t, "Authorization", ended.Access)
			p.untilOutage(t, ended, since, p.b)
			p.without(t, "B", p.b, kept)

			way.Mend()
			for kind, credential := range credentialsOf(ended) {
				world.Until(t, "B to know of the logout", func() bool {
					a := p.ask(t, p.b, credential...)
					if a.Status != http.StatusUnauthorized {
						wantOutage(t, kind, a)
					}
					return a.Status == http.StatusUnauthorized || t.Failed()
				})
			}
			p.recovers(t)
			p.wantEnded(t, ended)
			p.wantAlive(t, kept) // B's logouts did not reach Redis
		})
	}
}

// TestRedisWrongPassword: an instance that Redis refuses says that the password is wrong, and not the
// address, and serves what needs no store.
func TestRedisWrongPassword(t *testing.T) {
	t.Parallel()
	p := preparePair(t, world.StartRedis(t, "--requirepass", "a-password-of-redis"))
	wrong := strings.Replace(world.OnRedis(p.redis.Address), "driver: redis",
		"driver: redis, password: another-password", 1)
	p.a.Configure(shared + world.App(p.up.URL) + wrong)
	p.a.Launch("/healthz")
	p.free(t, "A", p.a)
	_, hint, _ := strings.Cut(p.a.Log.String(), "requests that need a login are refused until Redis can be used")
	hint, _, _ = strings.Cut(hint, "\n")
	_, ready := p.a.Ready()
	for what, said := range map[string]string{"the log": hint, "/readyz": ready} {
		if !strings.Contains(said, "store.password") || strings.Contains(said, "store.addresses") ||
			strings.Contains(said, "another-password") {
			t.Errorf("%s does not say that the password is wrong: %s", what, said)
		}
	}
}

// TestRedisMissingAtStart: an instance that starts without Redis says what is
// missing and where, serves what needs no store, and works when Redis is there.
// Redis keeps all writes, so logins are what they were.
func TestRedisMissingAtStart(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always"), "")
	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Authorization", ended.Access)
	p.redis.Kill()
	p.relaunch(p.b, "/healthz")
	p.without(t, "B", p.b, kept)
	_, hint, _ := strings.Cut(p.b.Log.String(), "requests that need a login are refused until Redis can be used")
	hint, _, _ = strings.Cut(hint, "\n")
	_, ready := p.b.Ready()
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

// TestRedisFull: while Redis has no memory left and evicts nothing, logins that
// are alive stay so on both instances, cold or warm. A logout ends the login,
// though one by a token is answered 503, as the token cannot be recorded. What
// else needs a new key is 503, and works again when there is room.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t, "--maxmemory-policy", "noeviction"), "")
	kept, bySession, byToken := p.signIn("alice"), p.signIn("bob"), p.signIn("bob")
	for _, credential := range credentialsOf(kept) { // warm on A only
		p.opens(t, p.a, credential...)
	}
	const limit = 1 << 16 // bytes; a server uses more without a key
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", strconv.Itoa(limit))
	if used := redisTells(t, p.redis, "memory")["used_memory"]; used < limit {
		t.Fatalf("Redis uses %.0f bytes, and is not full", used)
	}
	p.wantAlive(t, kept)
	for name, g := range p.both() {
		for _, r := range changesOf(kept)[:2] { // login and refresh
			wantOutage(t, name+": "+r.what, g.Do(p.client(g), "POST", r.path, r.body, r.headers...))
		}
		p.free(t, name, g)
		if _, said := g.Ready(); !strings.Contains(said, "OOM command not allowed") {
			t.Errorf("%s: /readyz does not say that Redis is full: %s", name, said)
		}
	}
	p.signOut(t, "Cookie", bySession.Session)
	wantOutage(t, "logout by token", p.a.Do(p.client(p.a), "POST", "/logout", "", "Authorization", byToken.Access))
	for _, s := range []world.Login{bySession, byToken} {
		world.Until(t, "B to hear of the logout", func() bool {
			return p.b.Status(p.client(p.b), "GET", "/me", "Cookie", s.Session) != http.StatusOK
		})
	}
	p.wantEnded(t, bySession, byToken)

	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantRefresh(t, p.b, kept.Refresh, http.StatusOK) // the one that was answered 503
	p.wantEnded(t, bySession, byToken)
}

// TestRedisFailover: when the master is killed, Sentinels promote its replica.
// Logins stay what they were, alive or ended. Then an instance is killed, and the
// other one goes on with its logins. Redis and the Sentinels demand different
// passwords.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	const password, sentinelPassword = "of Redis alone", "of the Sentinels alone"
	servers := startSentinels(t, password, sentinelPassword)
	for _, s := range servers.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">"+sentinelPassword, "&*", "+@all")
	}
	p := preparePair(t, servers.Master)
	for _, g := range p.both() {
		g.Write("sentinel-password", sentinelPassword+"\n")
		g.Configure(shared + world.App(p.up.URL) + fmt.Sprintf("store: {driver: redis, sentinel_master: gate, addresses: "+
			"['%s'], password: %q, "+
			"sentinel_username: watcher, sentinel_password_file: sentinel-password}\n", strings.Join(servers.Addresses(),
			"', '"), password))
	}
	p.run()
	kept, ended := p.signIn("alice"), p.signIn("bob")
	p.wantAlive(t, kept, ended)
	p.signOut(t, "Authorization", ended.Access)
	servers.Master.Do(t, "SET", "last", "write")
	world.Until(t, "the replica to have all writes",
		func() bool { return servers.Replica.Do(t, "GET", "last") == "write" })

	servers.Master.Kill()
	servers.Replica.Leads(t)
	p.recovers(t)
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)

	p.a.Kill()
	for _, credential := range credentialsOf(kept) {
		p.opens(t, p.b, credential...)
	}
	p.wantRefresh(t, p.b, kept.Refresh, http.StatusOK)
	p.relaunch(p.a, "/readyz")
	p.wantAlive(t, kept)
	p.wantEnded(t, ended)
}
