package redis

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
)

// startFactorPair starts two gateways on a Redis that share a file of accounts, and nothing
// else.
func startFactorPair(t *testing.T) *pair {
	t.Helper()
	p := preparePair(t, world.StartRedis(t))
	file := filepath.Join(t.TempDir(), "accounts.yaml")
	world.NoError(t, os.WriteFile(file, []byte(world.Person("alice", world.WonderlandHash, ", roles: [user]")), 0o600))
	for _, g := range p.both() {
		g.Configure(world.App(p.up.URL) + fmt.Sprintf(`
accounts: {file: %q}
store: {driver: redis, addresses: [%q]}
token: {secret: "01234567890123456789012345678901"}
limits: {login_failures: 1000}
policies: {vault: {factors: 2}}
routes: [{match: /secure-resource, upstream: app, auth: [session], policy: vault}]
`, file, p.redis.Address))
	}
	p.run()
	return p
}

// passwordAnd signs alice in with her password and a code, which may be empty.
func passwordAnd(t testing.TB, g *world.Instance, code string) world.Answer {
	t.Helper()
	a, err := g.Try(g.Stranger(), "POST", "/login",
		fmt.Sprintf(`{"username":"alice","password":"wonderland","code":%q}`, code), "Content-Type", world.TypeJSON)
	if err != nil {
		t.Error(err)
	}
	return a
}

// codeAt returns the code that an app shows after so many steps of 30 seconds.
func codeAt(t testing.TB, secret string, steps time.Duration) string {
	t.Helper()
	return world.Must(authenticator.Code(secret, time.Now().Add(steps*30*time.Second)))(t)
}

// TestRedisFactors: what a user adds to the account at one instance is needed at the other,
// and each code serves once at both of them together. Who removes all that the instances
// have but the accounts opens no account to its password.
func TestRedisFactors(t *testing.T) {
	t.Parallel()
	p := startFactorPair(t)
	secret := p.a.AddTOTP("alice")
	added := time.Now()
	world.Until(t, "the factor at the other instance",
		func() bool { return passwordAnd(t, p.b, "").Status == http.StatusUnauthorized })
	t.Logf("the other instance knows the factor after %v", time.Since(added).Round(time.Millisecond))
	if a := passwordAnd(t, p.b, ""); !strings.Contains(a.Body, `"factors":["totp"]`) || world.CookieOf(a) != "" {
		t.Errorf("the password alone: %v %s", a.Header, a.Body)
	}

	code := codeAt(t, secret, 1) // the current one is used
	var admitted atomic.Pointer[world.Answer]
	var count atomic.Int64
	world.Together(8, func(i int) {
		g := []*world.Instance{p.a, p.b}[i%2]
		if a := passwordAnd(t, g, code); a.Status == http.StatusOK {
			count.Add(1)
			admitted.Store(&a)
		} else if a.Status != http.StatusUnauthorized {
			t.Errorf("a code at both instances: %d %s", a.Status, a.Body)
		}
	})
	if count.Load() != 1 {
		t.Fatalf("a code served %d times", count.Load())
	}
	for _, g := range p.both() {
		p.opens(t, g, "Cookie", world.CookieOf(*admitted.Load()))
		world.WantStatus(t, "a used code", passwordAnd(t, g, code), http.StatusUnauthorized)
	}

	for _, g := range p.both() {
		g.Kill()
		world.NoError(t, os.RemoveAll(filepath.Join(g.Dir, "data")))
	}
	p.redis.Do(t, "FLUSHALL")
	clear(p.clients) // the certificates are new
	p.run()
	for _, g := range p.both() {
		if a := passwordAnd(t, g, ""); a.Status != http.StatusUnauthorized ||
			!strings.Contains(a.Body, `"factors":["totp"]`) {
			t.Errorf("the password alone, after the loss: %d %s", a.Status, a.Body)
		}
		world.WantStatus(t, "a wrong code, after the loss", passwordAnd(t, g, "000000"), http.StatusUnauthorized)
	}
	p.up.All()
	in := passwordAnd(t, p.a, codeAt(t, secret, 1))
	world.WantStatus(t, "a code, after the loss", in, http.StatusOK)
	p.opens(t, p.b, "Cookie", world.CookieOf(in))
}
