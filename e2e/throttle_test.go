package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
)

// throttled is a gateway behind a proxy that reports the clients' addresses,
// for which the gateway counts failed logins.
func throttled(t *testing.T, more string) (*instance, *http.Client) {
	t.Helper()
	g := startBehindProxy(t, "[127.0.0.1]", people+more+`
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
`+app(record(t).url))
	return g, g.stranger()
}

// from returns the headers of a request that the proxy forwards for a client.
func from(address string, more ...string) []string {
	return append([]string{"X-Forwarded-Proto", "https", "X-Forwarded-For", address}, more...)
}

// login tries to sign in from an address.
func (g *instance) login(c *http.Client, address, user, password string) answer {
	g.t.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, user, password)
	return g.do(c, "POST", "/login", body, from(address, "Content-Type", typeJSON)...)
}

// wantThrottled checks that an answer is 429 with a sensible Retry-After.
func wantThrottled(t *testing.T, a answer) {
	t.Helper()
	wantProblem(t, a, http.StatusTooManyRequests)
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 300 || cookieOf(a) != "" {
		t.Errorf("Retry-After %q and the cookie %q, expected 1 to 300 seconds and none", a.header.Get("Retry-After"), cookieOf(a))
	}
}

func wantStatus(t *testing.T, what string, a answer, want int) {
	t.Helper()
	if a.status != want {
		t.Errorf("%s: %d %s, expected %d", what, a.status, a.body, want)
	}
}

// TestThrottle: ten failed logins, by Basic and at /login, close the address that the
// proxy reports, and ten on an account close the account. Logins that live go on, and
// the owner can sign in at the address of before.
func TestThrottle(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	basic := func(address, credential string) answer {
		return g.do(c, "GET", "/basic", "", from(address, "Authorization", basicOf(credential))...)
	}
	before := g.login(c, "192.0.2.1", "alice", "wonderland")
	wantStatus(t, "login before", before, http.StatusOK)
	for i := range 5 {
		wantStatus(t, "login", g.login(c, "192.0.2.7", fmt.Sprintf("unknown%d", i), "wrong"), http.StatusUnauthorized)
		wantStatus(t, "Basic", basic("192.0.2.7", fmt.Sprintf("unknown%d:wrong", i)), http.StatusUnauthorized)
		wantStatus(t, "login of alice", g.login(c, fmt.Sprintf("198.51.100.%d", i), "alice", "wrong"), http.StatusUnauthorized)
		wantStatus(t, "Basic of alice", basic(fmt.Sprintf("203.0.113.%d", i), "ALICE:wrong"), http.StatusUnauthorized)
	}
	for _, spelling := range []string{"192.0.2.7", "::ffff:192.0.2.7", "192.0.2.99, 192.0.2.7"} { // the client wrote the first of two
		wantThrottled(t, g.login(c, spelling, "bob", "builder"))
		wantThrottled(t, basic(spelling, "service:s3rvice"))
	}
	wantThrottled(t, g.login(c, "192.0.2.2", "Alice ", "wonderland"))
	wantThrottled(t, basic("192.0.2.3", "alice:wonderland"))
	wantThrottled(t, g.do(c, "POST", "/login", "username=alice&password=wonderland", from("192.0.2.5", "Content-Type", typeForm)...))

	wantStatus(t, "login from elsewhere", g.login(c, "192.0.2.8", "bob", "builder"), http.StatusOK)
	wantStatus(t, "Basic from elsewhere", basic("192.0.2.8", "service:s3rvice"), http.StatusOK)
	wantStatus(t, "login where alice signed in before", g.login(c, "192.0.2.1", "alice", "wonderland"), http.StatusOK)
	wantStatus(t, "session from before", g.do(c, "GET", "/secure", "", from("192.0.2.7", "Cookie", cookieOf(before))...), http.StatusOK)
}
