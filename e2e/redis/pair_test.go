package redis

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/e2e/world"
)

// pair is two gateways that share a Redis, and so logins and revocations.
type pair struct {
	a, b    *world.Instance
	up      *world.Recorder
	redis   *redistest.Server
	issuer  *world.Issuer // of startDelegatedPair
	clients map[*world.Instance]*http.Client
}

// shared is the configuration that instances of one service have in common.
const shared = world.People + `
token: {secret: "01234567890123456789012345678901", reuse_leeway: 2s}
routes:
  - {match: /secure-resource, upstream: app, auth: [session, bearer]}
  - {match: /basic-resource, upstream: app, auth: [basic]}
  - {match: /open, upstream: app, auth: [none]}
`

// patientRedis is world.OnRedis where cached values are valid for a day without
// contact: for tests of what costs no round trip.
func patientRedis(address string) string {
	return strings.Replace(world.OnRedis(address), "{", "{max_staleness: 24h, ", 1)
}

// preparePair returns two gateways with one public URL that do not run yet.
func preparePair(t testing.TB, redis *redistest.Server) *pair {
	t.Helper()
	p := &pair{a: world.Prepare(t), b: world.Prepare(t), up: world.Record(t), redis: redis,
		clients: map[*world.Instance]*http.Client{}}
	p.b.Public = p.a.Base
	return p
}

// startPair starts two gateways on a Redis. The second one connects to it at the
// address way, if that is not empty.
func startPair(t testing.TB, redis *redistest.Server, way string) *pair {
	t.Helper()
	p := preparePair(t, redis)
	p.a.Configure(shared + world.App(p.up.URL) + world.OnRedis(redis.Address))
	p.b.Configure(shared + world.App(p.up.URL) + world.OnRedis(cmp.Or(way, redis.Address)))
	p.run()
	return p
}

// ownKey returns a new key, for token.private_key of all instances.
func ownKey(t testing.TB) string {
	t.Helper()
	key := world.Must(x509.MarshalPKCS8PrivateKey(world.Must(rsa.GenerateKey(rand.Reader, 2048))(t)))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

func (p *pair) run() {
	p.a.T.Helper()
	p.a.Run()
	p.b.Run()
}

// both returns the instances by name.
func (p *pair) both() map[string]*world.Instance {
	return map[string]*world.Instance{"A": p.a, "B": p.b}
}

// client is a client without cookies that tests use for an instance again and
// again.
func (p *pair) client(g *world.Instance) *http.Client {
	g.T.Helper()
	if p.clients[g] == nil {
		p.clients[g] = g.Stranger()
	}
	return p.clients[g]
}

// relaunch kills an instance and starts it again until a path of the admin
// listener answers 200.
func (p *pair) relaunch(g *world.Instance, path string) {
	g.T.Helper()
	g.Kill()
	delete(p.clients, g)
	g.Launch(path)
}

// signIn signs a user in at A.
func (p *pair) signIn(user string) world.Login {
	p.a.T.Helper()
	return p.a.SignIn(p.client(p.a), user)
}

// signOut ends a login at A with one of its credentials.
func (p *pair) signOut(t testing.TB, credential ...string) {
	t.Helper()
	if got := p.a.Status(p.client(p.a), "POST", "/logout", credential...); got != http.StatusOK {
		t.Fatalf("logout: %d", got)
	}
}

// endSessions ends the logins of a user at an instance, as an operator.
func (p *pair) endSessions(t testing.TB, g *world.Instance, user string) {
	t.Helper()
	cmd := exec.Command(world.Program("authgate"), "sessions", "end", "--user", user)
	cmd.Dir = g.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// browser is a client with cookies that trusts both instances.
func (p *pair) browser(t testing.TB) *http.Client {
	t.Helper()
	c := p.a.Client()
	other, err := os.ReadFile(filepath.Join(p.b.Dir, p.b.CA))
	if err != nil || !c.Transport.(*http.Transport).TLSClientConfig.RootCAs.AppendCertsFromPEM(other) {
		t.Fatalf("no certificate in %s: %v", p.b.CA, err)
	}
	return c
}

// credentialsOf returns the headers that give access to /secure-resource.
func credentialsOf(s world.Login) map[string][]string {
	return map[string][]string{
		"session": {"Cookie", s.Session},
		"token":   {"Authorization", s.Access},
	}
}

// ask requests /secure-resource with a credential.
func (p *pair) ask(t testing.TB, g *world.Instance, credential ...string) world.Answer {
	t.Helper()
	return p.askFor(t, g, "/secure-resource", credential...)
}

// askFor requests a resource. The test fails unless exactly a request that is
// answered 200 reaches the upstream.
func (p *pair) askFor(t testing.TB, g *world.Instance, path string, credential ...string) world.Answer {
	t.Helper()
	target := path + "?n=" + world.NewRequestID()
	a := g.Do(p.client(g), "GET", target, "", credential...)
	p.reached(t, "with a "+credential[0], target, map[bool]int{true: 1}[a.Status == http.StatusOK])
	return a
}

// reached fails the test unless as many requests for target reached the upstream
// as were answered with 200.
func (p *pair) reached(t testing.TB, what, target string, answered int) {
	t.Helper()
	if reached := len(p.up.AskedFor(target)); reached != answered {
		t.Errorf("%s: %d requests reached the upstream, and %d were answered with 200", what, reached, answered)
	}
}

// opens fails the test unless a credential gives access to the upstream.
func (p *pair) opens(t testing.TB, g *world.Instance, credential ...string) {
	t.Helper()
	p.answers(t, g, http.StatusOK, credential...)
}

// refuses fails the test unless a credential is answered 401.
func (p *pair) refuses(t testing.TB, g *world.Instance, credential ...string) {
	t.Helper()
	p.answers(t, g, http.StatusUnauthorized, credential...)
}

func (p *pair) answers(t testing.TB, g *world.Instance, want int, credential ...string) {
	t.Helper()
	if a := p.ask(t, g, credential...); a.Status != want {
		t.Errorf("with a %s: %d %s, expected %d", credential[0], a.Status, a.Body, want)
	}
}

// wantAlive and wantEnded check both credentials of logins at both instances.
func (p *pair) wantAlive(t testing.TB, logins ...world.Login) { t.Helper(); p.each(t, p.opens, logins) }

func (p *pair) wantEnded(t testing.TB, logins ...world.Login) {
	t.Helper()
	p.each(t, p.refuses, logins)
}

func (p *pair) each(t testing.TB, check func(testing.TB, *world.Instance, ...string), logins []world.Login) {
	t.Helper()
	for _, s := range logins {
		for _, credential := range credentialsOf(s) {
			check(t, p.a, credential...)
			check(t, p.b, credential...)
		}
	}
}

// wantRefresh fails the test unless a refresh is answered with status.
func (p *pair) wantRefresh(t testing.TB, g *world.Instance, token string, status int) world.Login {
	t.Helper()
	next, got, err := g.TryRefresh(p.client(g), token)
	if err != nil || got != status {
		t.Fatalf("refresh: %d, %v; expected %d", got, err, status)
	}
	return next
}

// TestRedisSharesLogins: logins, logouts and the reuse of a refresh token on one
// instance count on the other.
func TestRedisSharesLogins(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t), "")
	t.Run("login and logout", func(t *testing.T) { loginHereLogoutThere(t, p) })
	t.Run("a refresh token, reused", func(t *testing.T) { reusedOnTheOther(t, p) })
}

// loginHereLogoutThere: the credentials of a login work on both instances, and
// end on both, whichever instance and credential the logout takes.
func loginHereLogoutThere(t *testing.T, p *pair) {
	for _, showing := range []string{"session", "token"} {
		for name, from := range p.both() {
			to := map[*world.Instance]*world.Instance{p.a: p.b, p.b: p.a}[from]
			s := from.SignIn(p.client(from), "alice")
			p.wantAlive(t, s, s) // cold, then warm
			if got := from.Status(p.client(from), "POST", "/logout", credentialsOf(s)[showing]...); got != http.StatusOK {
				t.Fatalf("logout by %s on %s: %d", showing, name, got)
			}
			world.Until(t, "the other instance to refuse", func() bool {
				return to.Status(p.client(to), "GET", "/me", "Cookie", s.Session) == http.StatusUnauthorized
			})
			p.wantEnded(t, s)
			p.wantRefresh(t, to, s.Refresh, http.StatusUnauthorized)
		}
	}
}

// reusedOnTheOther: a refresh token that A has exchanged comes to B later than
// reuse_leeway, and ends the login on both.
func reusedOnTheOther(t *testing.T, p *pair) {
	first, before := p.signIn("bob"), time.Now()
	second := p.wantRefresh(t, p.a, first.Refresh, http.StatusOK)
	p.opens(t, p.b, "Authorization", second.Access)
	world.Until(t, "the reuse to end the login", func() bool {
		p.wantRefresh(t, p.b, first.Refresh, http.StatusUnauthorized)
		return p.a.Status(p.client(p.a), "GET", "/me", "Authorization", second.Access) == http.StatusUnauthorized
	})
	// The leeway is 2 s by the clock of Redis, which each instance knows only to half a
	// round trip.
	if after := time.Since(before); after < time.Second {
		t.Errorf("the reuse ended the login after %v, within reuse_leeway", after)
	}
	p.wantEnded(t, first, world.Login{Session: first.Session, Access: second.Access})
	p.wantRefresh(t, p.a, second.Refresh, http.StatusUnauthorized)
}

// TestRedisRevocationReachesOthers: an instance that accepts a session or a token
// from its cache hears of its end by a push, as it confirms contact too seldom to
// hear of it otherwise. BenchmarkRedisRevocation measures how soon. Of parallel
// refreshes with one token one succeeds; a long leeway makes slow ones no reuse.
func TestRedisRevocationReachesOthers(t *testing.T) {
	t.Parallel()
	p := preparePair(t, world.StartRedis(t))
	for _, g := range p.both() {
		g.Configure(strings.Replace(shared, "reuse_leeway: 2s", "reuse_leeway: 1h",
			1) + world.App(p.up.URL) + patientRedis(p.redis.Address))
	}
	p.run()
	for _, kind := range []string{"session", "token"} {
		t.Run(kind, func(t *testing.T) { measureLogouts(t, p, kind, 50) })
	}
	t.Run("refreshes of one token", func(t *testing.T) { parallelRefreshes(t, p.a, p.b) })
}

// TestRedisInstancesDiffer: each part of the configuration that instances should
// have in common can differ, with no worse effect than docs/scaling.md names.
func TestRedisInstancesDiffer(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t), "")
	config := shared + world.App(p.up.URL) + world.OnRedis(p.redis.Address)
	differ := func(public, config string) {
		p.b.Public = public
		p.b.Configure(config)
		p.relaunch(p.b, "/readyz")
	}

	// token.secret, and public_url, which is the issuer: access tokens work only where
	// they were issued.
	const secret = "01234567890123456789012345678901"
	for public, config := range map[string]string{p.a.Base: strings.Replace(config, secret, "another "+secret, 1),
		p.b.Base: config} {
		differ(public, config)
		s := p.signIn("alice")
		p.opens(t, p.b, "Cookie", s.Session)
		p.refuses(t, p.b, "Authorization", s.Access)
		given := p.wantRefresh(t, p.b, s.Refresh, http.StatusOK)
		p.opens(t, p.b, "Authorization", given.Access)
		p.refuses(t, p.a, "Authorization", given.Access)
	}

	// accounts: a login counts where its account is known with the same password.
	differ(p.a.Base, strings.NewReplacer(world.WonderlandHash, world.BuilderHash, "{username: bob,",
		"{username: carol,").Replace(config))
	users := []world.Login{p.signIn("alice"), p.signIn("bob")}
	for _, s := range users {
		for _, credential := range credentialsOf(s) {
			p.refuses(t, p.b, credential...)
			p.opens(t, p.a, credential...)
		}
		p.wantRefresh(t, p.b, s.Refresh, http.StatusUnauthorized)
		p.wantRefresh(t, p.a, s.Refresh, http.StatusOK)
	}
	carol := p.b.SignInWith(p.client(p.b), "carol", world.Passwords["bob"])
	p.refuses(t, p.a, "Cookie", carol.Session)
	p.opens(t, p.b, "Cookie", carol.Session)
	p.a.Signal(syscall.SIGHUP) // a start or reload finds that the accounts were gone
	world.Until(t, "the reload", func() bool { return strings.Contains(p.a.Log.String(), `"msg":"reloaded"`) })
	for _, s := range users {
		for _, credential := range credentialsOf(s) {
			p.refuses(t, p.a, credential...)
		}
	}
}

// TestRedisDisabledOnOneInstance: a user who is disabled by a reload of A is out at B,
// which is not reloaded: with an open WebSocket and downloads, with each credential, and
// at the next sign-in. Another user is not.
func TestRedisDisabledOnOneInstance(t *testing.T) {
	t.Parallel()
	up, redis := world.ServeStreams(t), world.StartRedis(t)
	a, b := world.Prepare(t), world.Prepare(t)
	b.Public = a.Base
	config := world.People + "token: {secret: \"01234567890123456789012345678901\"}\n" + world.App(up.URL) +
		world.OnRedis(redis.Address) + "routes: [{match: /, upstream: app, auth: [session, bearer]}]\n"
	for _, g := range []*world.Instance{a, b} {
		g.Configure(config)
		g.Run()
	}
	alice, bob := a.SignIn(a.Stranger(), "alice"), b.SignIn(b.Stranger(), "bob")
	disabled := strings.Replace(config, "{username: alice,", "{username: alice, disabled: true,", 1)
	if disabled == config {
		t.Fatal("the configuration has no alice")
	}
	took := up.End(t, b, "Cookie", alice.Session, func() {
		a.Configure(disabled)
		a.Signal(syscall.SIGHUP)
	})
	t.Logf("the last stream on B ended %v after SIGHUP at A", took.Round(time.Millisecond))
	world.Until(t, "B to say what it has taken over", // A has ended the login, perhaps before that
		func() bool { return strings.Contains(b.Log.String(), `"withdrawn":["local:alice"]`) })
	for _, g := range []*world.Instance{a, b} {
		for _, credential := range credentialsOf(alice) {
			world.WantStatus(t, credential[0]+" of a disabled user", g.Do(g.Stranger(), "GET", "/me", "", credential...),
				http.StatusUnauthorized)
		}
		if _, status, err := g.TryRefresh(g.Stranger(), alice.Refresh); err != nil || status != http.StatusUnauthorized {
			t.Errorf("a refresh of a disabled user: %d, %v", status, err)
		}
		if _, status, err := g.TrySignIn(g.Stranger(), "alice", world.Passwords["alice"]); err != nil ||
			status != http.StatusUnauthorized {
			t.Errorf("a sign-in of a disabled user: %d, %v", status, err)
		}
		world.WantStatus(t, "another user", g.Do(g.Stranger(), "GET", "/me", "", "Cookie", bob.Session), http.StatusOK)
	}
}

// measureLogouts ends logins on A that B has in its cache, and returns the times
// until B refused a request, shortest first.
func measureLogouts(t testing.TB, p *pair, kind string, logouts int) []time.Duration {
	t.Helper()
	atB := p.client(p.b)
	var took []time.Duration
	for range logouts {
		credential := credentialsOf(p.signIn("alice"))[kind]
		p.opens(t, p.b, credential...)
		p.opens(t, p.b, credential...) // so that it is warm
		p.signOut(t, credential...)
		ended := time.Now()
		world.Until(t, "the other instance to refuse", func() bool {
			// More often than once in 10 ms, as world.Until does.
			for range 1000 {
				if p.b.Status(atB, "GET", "/secure-resource", credential...) == http.StatusUnauthorized {
					return true
				}
			}
			return false
		})
		took = append(took, time.Since(ended))
		p.refuses(t, p.b, credential...)
	}
	slices.Sort(took)
	return took
}
