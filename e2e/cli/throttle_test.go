package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"authgate/e2e/world"
)

// throttled is a gateway behind a proxy that reports the clients' addresses,
// for which the gateway counts failed logins.
func throttled(t *testing.T, more string) (*world.Instance, *http.Client) {
	t.Helper()
	g := world.StartBehindProxy(t, "[127.0.0.1]", world.People+more+`
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
`+world.App(world.Record(t).URL))
	return g, g.Stranger()
}

// from returns the headers of a request that the proxy forwards for a client.
func from(address string, more ...string) []string {
	return append([]string{"X-Forwarded-Proto", "https", "X-Forwarded-For", address}, more...)
}

// signInFrom tries to sign in from an address.
func signInFrom(g *world.Instance, c *http.Client, address, user, password string) world.Answer {
	g.T.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, user, password)
	return g.Do(c, "POST", "/login", body, from(address, "Content-Type", world.TypeJSON)...)
}

// wantThrottled checks that an answer is 429 with a sensible Retry-After.
func wantThrottled(t *testing.T, a world.Answer) {
	t.Helper()
	world.WantProblem(t, a, http.StatusTooManyRequests)
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || after < 1 || after > 300 || world.CookieOf(a) != "" {
		t.Errorf("Retry-After %q and the cookie %q, expected 1 to 300 seconds and none", a.Header.Get("Retry-After"), world.CookieOf(a))
	}
}

// TestThrottle: ten failed logins, by Basic and at /login, close the address that the
// proxy reports, and ten on an account close the account. Logins that live go on, and
// the owner can sign in at the address of before.
func TestThrottle(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	basic := func(address, credential string) world.Answer {
		return g.Do(c, "GET", "/basic", "", from(address, "Authorization", world.BasicOf(credential))...)
	}
	before := signInFrom(g, c, "192.0.2.1", "alice", "wonderland")
	world.WantStatus(t, "login before", before, http.StatusOK)
	for i := range 5 {
		world.WantStatus(t, "login", signInFrom(g, c, "192.0.2.7", fmt.Sprintf("unknown%d", i), "wrong"), http.StatusUnauthorized)
		world.WantStatus(t, "Basic", basic("192.0.2.7", fmt.Sprintf("unknown%d:wrong", i)), http.StatusUnauthorized)
		world.WantStatus(t, "login of alice", signInFrom(g, c, fmt.Sprintf("198.51.100.%d", i), "alice", "wrong"), http.StatusUnauthorized)
		world.WantStatus(t, "Basic of alice", basic(fmt.Sprintf("203.0.113.%d", i), "ALICE:wrong"), http.StatusUnauthorized)
	}
	for _, spelling := range []string{"192.0.2.7", "::ffff:192.0.2.7", "192.0.2.99, 192.0.2.7"} { // the client wrote the first of two
		wantThrottled(t, signInFrom(g, c, spelling, "bob", "builder"))
		wantThrottled(t, basic(spelling, "service:s3rvice"))
	}
	wantThrottled(t, signInFrom(g, c, "192.0.2.2", "Alice ", "wonderland"))
	wantThrottled(t, basic("192.0.2.3", "alice:wonderland"))
	wantThrottled(t, g.Do(c, "POST", "/login", "username=alice&password=wonderland", from("192.0.2.5", "Content-Type", world.TypeForm)...))

	world.WantStatus(t, "login from elsewhere", signInFrom(g, c, "192.0.2.8", "bob", "builder"), http.StatusOK)
	world.WantStatus(t, "Basic from elsewhere", basic("192.0.2.8", "service:s3rvice"), http.StatusOK)
	world.WantStatus(t, "login where alice signed in before", signInFrom(g, c, "192.0.2.1", "alice", "wonderland"), http.StatusOK)
	world.WantStatus(t, "session from before", g.Do(c, "GET", "/secure", "", from("192.0.2.7", "Cookie", world.CookieOf(before))...), http.StatusOK)
}
