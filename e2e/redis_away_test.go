package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRedisAccountRemoved: who is removed while Redis is away is out once it is back,
// and stays out.
func TestRedisAccountRemoved(t *testing.T) {
	t.Parallel()
	alice := person("alice", wonderlandHash, "")
	for name, meanwhile := range map[string]func(g *instance){
		"while it runs": func(*instance) {},
		"and it starts": func(g *instance) {
			g.kill()
			g.launch("/healthz")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			g := prepared(t)
			g.write("accounts.yaml", alice+person("bob", builderHash, ""))
			g.configure("accounts: {file: accounts.yaml}\nroutes: [{match: /, upstream: app, auth: [session]}]\n" +
				app(record(t).url) + onRedis(redis.Address))
			g.run()
			c := g.stranger()
			stays, removed := g.signIn(c, "alice"), g.signIn(c, "bob")
			redis.Kill()
			meanwhile(g)
			c = g.stranger()
			g.applies("accounts.yaml", alice, func() bool { return strings.Contains(g.log.String(), "until the store answers") })
			redis.Run(t)
			began := time.Now()
			until(t, "the removed account to be out", func() bool {
				return g.status(c, "GET", "/", "Cookie", removed.session) == http.StatusUnauthorized
			})
			t.Logf("out %v after Redis is back", time.Since(began).Round(time.Millisecond))
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("out after %v", took)
			}
			if _, status, err := g.trySignIn(c, "bob", "builder"); err != nil || status != http.StatusUnauthorized {
				t.Errorf("a new login: %d, %v", status, err)
			}
			if got := g.status(c, "GET", "/", "Cookie", stays.session); got != http.StatusOK {
				t.Errorf("who stays: %d", got)
			}
			if n := strings.Count(g.log.String(), "until the store answers"); n != 1 {
				t.Errorf("%d failures were logged\n%s", n, g.log)
			}
		})
	}
}

// TestRedisFreezes: in the very moment in which Redis says nothing more, all
// that needs it is answered in time.
func TestRedisFreezes(t *testing.T) {
	t.Parallel()
	p, _ := startDelegatedPair(t)
	g := p.a
	delegated := p.signInAtProvider(t, p.browser(t), g, g)
	s := g.signIn(g.stranger(), "alice")
	waiting := p.browser(t)
	callback := p.throughProvider(t, waiting, g)
	everything := s.session + "; " + delegated
	refresh := `{"refresh_token":"` + s.refresh + `"}`
	type question struct {
		name         string
		c            *http.Client
		method, path string
		body         string
		headers      []string
	}
	questions := []question{
		{"login", g.stranger(), "POST", "/login", right, []string{"Content-Type", typeJSON}},
		{"login again", g.stranger(), "POST", "/login", right, []string{"Content-Type", typeJSON, "Cookie", everything}},
		{"login at the provider", g.stranger(), "GET", "/login", "", nil},
		{"callback", waiting, "GET", callback, "", nil},
		{"refresh", g.stranger(), "POST", "/refresh", refresh, []string{"Content-Type", typeJSON}},
		{"logout", g.stranger(), "POST", "/logout", "", []string{"Cookie", everything, "Authorization", s.access}},
	}
	p.redis.Signal(t, syscall.SIGSTOP)
	defer p.redis.Signal(t, syscall.SIGCONT)
	many(len(questions), func(i int) {
		q := questions[i]
		began := time.Now()
		a, err := g.try(q.c, q.method, q.path, q.body, q.headers...)
		if err != nil {
			t.Errorf("%s: %v", q.name, err)
			return
		}
		t.Logf("%s: %d after %v", q.name, a.status, time.Since(began).Round(time.Millisecond))
		wantOutage(t, q.name, a, began)
	})
}

// TestRedisFrozenAtStart: an instance starts and stops beside a Redis that says
// nothing, and goes on by itself when it does.
func TestRedisFrozenAtStart(t *testing.T) {
	t.Parallel()
	p := startPair(t, startRedis(t), "")
	kept := p.a.signIn(p.a.stranger(), "alice")
	p.redis.Signal(t, syscall.SIGSTOP)
	p.b.kill()
	p.b.launch("/healthz")
	p.without(t, "B", p.b, kept)
	p.b.signal(syscall.SIGTERM)
	p.b.ends(10 * time.Second)
	p.b.launch("/healthz")
	atA, atB := p.a.stranger(), p.b.stranger()
	p.redis.Signal(t, syscall.SIGCONT)
	within(t, recovery, "logins work again", func() bool { return p.works(atA, atB) })
	within(t, recovery, "both are ready again", p.ready)
	for _, credential := range kept.credentials() {
		p.opens(t, p.b, atB, credential...)
	}
}
