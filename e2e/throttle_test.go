package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
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

// basic requests /basic with Basic credentials from an address.
func (g *instance) basic(c *http.Client, address, credential string) answer {
	g.t.Helper()
	return g.do(c, "GET", "/basic", "", from(address, "Authorization", basicOf(credential))...)
}

// wantThrottled checks that an answer is 429 with a sensible Retry-After.
func wantThrottled(t *testing.T, a answer) {
	t.Helper()
	wantProblem(t, a, http.StatusTooManyRequests)
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 300 {
		t.Errorf("Retry-After %q, expected 1 to 300 seconds", a.header.Get("Retry-After"))
	}
	if got := a.header.Values("Set-Cookie"); len(got) > 0 {
		t.Errorf("a throttled login sets a cookie: %q", got)
	}
}

func wantStatus(t *testing.T, what string, a answer, want int) {
	t.Helper()
	if a.status != want {
		t.Errorf("%s: %d %s, expected %d", what, a.status, a.body, want)
	}
}

// TestThrottle: ten failed logins from an address close it, and ten failed
// logins on an account close the account, at every place that takes passwords.
// Logins that live go on, and so do clients that signed in before from where
// they are.
func TestThrottle(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	t.Run("address", func(t *testing.T) { throttleAddress(t, g, c) })
	t.Run("account", func(t *testing.T) { throttleAccount(t, g, c) })
}

func throttleAddress(t *testing.T, g *instance, c *http.Client) {
	const address = "192.0.2.7"
	before := g.login(c, address, "bob", "builder")
	wantStatus(t, "login before", before, http.StatusOK)
	for i := range 5 { // at both places that take passwords
		wantStatus(t, "login", g.login(c, address, fmt.Sprintf("unknown%d", i), "wrong"), http.StatusUnauthorized)
		wantStatus(t, "Basic", g.basic(c, address, fmt.Sprintf("unknown%d:wrong", i)), http.StatusUnauthorized)
	}
	wantThrottled(t, g.login(c, address, "alice", "wonderland"))
	for _, spelling := range []string{address, "::ffff:" + address, "192.0.2.99, " + address} { // the client wrote the first of two
		wantThrottled(t, g.basic(c, spelling, "service:s3rvice"))
	}
	wantStatus(t, "session from before", g.do(c, "GET", "/secure", "", from(address, "Cookie", cookieOf(before))...), http.StatusOK)
	wantStatus(t, "login from elsewhere", g.login(c, "192.0.2.8", "alice", "wonderland"), http.StatusOK)
	wantStatus(t, "Basic from elsewhere", g.basic(c, "192.0.2.8", "service:s3rvice"), http.StatusOK)
}

func throttleAccount(t *testing.T, g *instance, c *http.Client) {
	before := g.login(c, "192.0.2.1", "alice", "wonderland")
	wantStatus(t, "login before", before, http.StatusOK)
	s, err := tokens(before)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	statuses := map[int]int{}
	spellings := []string{"alice", "Alice", "ALICE", " alice", "alice ", `\talice`, `aLiCe\n`} // of one account
	many(parallel, func(i int) {
		body := fmt.Sprintf(`{"username":"%s","password":"wrong"}`, spellings[i%len(spellings)])
		a, err := g.try(c, "POST", "/login", body, from(fmt.Sprintf("198.51.100.%d", i), "Content-Type", typeJSON)...)
		mu.Lock()
		defer mu.Unlock()
		if statuses[a.status]++; err != nil {
			t.Error(err)
		}
	})
	if statuses[http.StatusUnauthorized] != 10 || statuses[http.StatusTooManyRequests] != parallel-10 {
		t.Errorf("statuses %v of parallel logins, expected 10 times 401 and %d times 429", statuses, parallel-10)
	}
	wantThrottled(t, g.login(c, "192.0.2.2", "ALICE ", "wonderland"))
	wantThrottled(t, g.basic(c, "192.0.2.3", "alice:wonderland"))
	wantThrottled(t, g.do(c, "POST", "/login", "", from("192.0.2.4", "Authorization", basicOf("alice:wonderland"))...))
	wantThrottled(t, g.do(c, "POST", "/login", "username=alice&password=wonderland", from("192.0.2.5", "Content-Type", typeForm)...))

	wantStatus(t, "login where alice signed in before", g.login(c, "192.0.2.1", "alice", "wonderland"), http.StatusOK)
	wantStatus(t, "session from before", g.do(c, "GET", "/secure", "", from("192.0.2.1", "Cookie", cookieOf(before))...), http.StatusOK)
	wantStatus(t, "token from before", g.do(c, "GET", "/secure", "", from("192.0.2.1", "Authorization", s.access)...), http.StatusOK)
	refresh := fmt.Sprintf(`{"refresh_token":%q}`, s.refresh)
	wantStatus(t, "refresh", g.do(c, "POST", "/refresh", refresh, from("192.0.2.1", "Content-Type", typeJSON)...), http.StatusOK)
	wantStatus(t, "another account", g.login(c, "198.51.100.1", "bob", "builder"), http.StatusOK)
	wantStatus(t, "shared credentials", g.basic(c, "198.51.100.1", "service:s3rvice"), http.StatusOK)
}
