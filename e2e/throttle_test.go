package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// throttled is a gateway behind a proxy that says which addresses clients
// have, and counts failed logins for each of them.
func throttled(t *testing.T, more string) (*instance, *http.Client) {
	t.Helper()
	g := startBehindProxy(t, "[127.0.0.1]", people+more+`
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
`+app(record(t).url))
	return g, g.stranger()
}

// from are the headers of a request that the proxy passes on for a client.
func from(address string, more ...string) []string {
	return append([]string{"X-Forwarded-Proto", "https", "X-Forwarded-For", address}, more...)
}

// login tries to sign in from an address.
func (g *instance) login(c *http.Client, address, user, password string) answer {
	g.t.Helper()
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, user, password)
	return g.do(c, "POST", "/login", body, from(address, "Content-Type", typeJSON)...)
}

// basic asks with Basic credentials from an address.
func (g *instance) basic(c *http.Client, address, credential string) answer {
	g.t.Helper()
	return g.do(c, "GET", "/basic", "", from(address, "Authorization", basicOf(credential))...)
}

// wantThrottled checks a 429 and when it invites to try again.
func wantThrottled(t *testing.T, a answer) {
	t.Helper()
	wantProblem(t, a, http.StatusTooManyRequests)
	if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 1 || after > 300 {
		t.Errorf("Retry-After %q, expected 1 to 300 seconds", a.header.Get("Retry-After"))
	}
	if got := a.header.Values("Set-Cookie"); len(got) > 0 {
		t.Errorf("it sets a cookie: %q", got)
	}
}

func wantStatus(t *testing.T, what string, a answer, want int) {
	t.Helper()
	if a.status != want {
		t.Errorf("%s: %d %s, expected %d", what, a.status, a.body, want)
	}
}

// TestThrottledAccount: ten failures on an account, from wherever, close it to
// all clients but those that are signed in or have signed in where they are.
func TestThrottledAccount(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	first := g.login(c, "192.0.2.1", "alice", "wonderland")
	wantStatus(t, "login before", first, http.StatusOK)
	s, err := tokens(first)
	if err != nil {
		t.Fatal(err)
	}
	// One account, however its name is written.
	for i, name := range []string{"alice", "Alice", "ALICE", " alice", "alice ", "\talice", "aLiCe\n", "alice", "  ALICE  ", "alice"} {
		wantStatus(t, fmt.Sprintf("wrong password %d", i+1), g.login(c, fmt.Sprintf("198.51.100.%d", i), name, "wrong"), http.StatusUnauthorized)
	}
	wantStatus(t, "login of who has signed in there", g.login(c, "192.0.2.1", "alice", "wonderland"), http.StatusOK)
	wantThrottled(t, g.login(c, "192.0.2.2", "alice", "wonderland"))
	wantThrottled(t, g.login(c, "192.0.2.2", "alice", "wrong"))
	wantThrottled(t, g.login(c, "192.0.2.3", "ALICE ", "wonderland"))
	wantThrottled(t, g.basic(c, "192.0.2.3", "alice:wonderland"))
	wantThrottled(t, g.do(c, "POST", "/login", "", from("192.0.2.4", "Authorization", basicOf("alice:wonderland"))...))
	form := g.do(c, "POST", "/login", "username=alice&password=wonderland", from("192.0.2.5", "Content-Type", typeForm)...)
	wantThrottled(t, form)

	wantStatus(t, "another account", g.login(c, "198.51.100.1", "bob", "builder"), http.StatusOK)
	wantStatus(t, "shared credentials", g.basic(c, "198.51.100.1", "service:s3rvice"), http.StatusOK)
	wantStatus(t, "the session from before", g.do(c, "GET", "/secure", "", from("192.0.2.1", "Cookie", cookieOf(first))...), http.StatusOK)
	wantStatus(t, "the token from before", g.do(c, "GET", "/secure", "", from("192.0.2.1", "Authorization", s.access)...), http.StatusOK)
	refresh := fmt.Sprintf(`{"refresh_token":%q}`, s.refresh)
	wantStatus(t, "refresh", g.do(c, "POST", "/refresh", refresh, from("192.0.2.1", "Content-Type", typeJSON)...), http.StatusOK)
}

// TestThrottledAddress: ten failures from an address, on whichever accounts,
// close it to all logins.
func TestThrottledAddress(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	const address = "192.0.2.7"
	first := g.login(c, address, "bob", "builder")
	wantStatus(t, "login before", first, http.StatusOK)
	for i := range 5 { // at both places where passwords are tried
		wantStatus(t, "login", g.login(c, address, fmt.Sprintf("nobody%d", i), "wrong"), http.StatusUnauthorized)
		wantStatus(t, "Basic", g.basic(c, address, fmt.Sprintf("nobody%d:wrong", i)), http.StatusUnauthorized)
	}
	wantThrottled(t, g.login(c, address, "alice", "wonderland"))
	wantThrottled(t, g.basic(c, address, "service:s3rvice"))
	wantThrottled(t, g.basic(c, "::ffff:"+address, "service:s3rvice"))
	wantStatus(t, "the session from before", g.do(c, "GET", "/secure", "", from(address, "Cookie", cookieOf(first))...), http.StatusOK)
	wantStatus(t, "login from elsewhere", g.login(c, "192.0.2.8", "alice", "wonderland"), http.StatusOK)
	wantStatus(t, "Basic from elsewhere", g.basic(c, "192.0.2.8", "service:s3rvice"), http.StatusOK)
	// What a client says of itself is not its address.
	wantThrottled(t, g.basic(c, "192.0.2.99, "+address, "service:s3rvice"))
}

// TestThrottledCredentials: shared credentials that are remembered as good are
// closed too, to clients that have not presented them before.
func TestThrottledCredentials(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	address := func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }
	for i := range 9 {
		wantStatus(t, "wrong", g.basic(c, address(i), "service:wrong"), http.StatusUnauthorized)
	}
	wantStatus(t, "right", g.basic(c, "192.0.2.1", "service:s3rvice"), http.StatusOK)
	wantStatus(t, "wrong for the tenth time", g.login(c, address(9), "Service", "wrong"), http.StatusUnauthorized)
	wantThrottled(t, g.basic(c, "192.0.2.2", "service:s3rvice"))
	wantStatus(t, "right where it was before", g.basic(c, "192.0.2.1", "service:s3rvice"), http.StatusOK)
}

// TestThrottleSparesKnownClients: a monitoring system that presents the right
// credentials with each scrape goes on whatever others do, on its account or
// from its address, as behind a balancer that hides the addresses of clients.
func TestThrottleSparesKnownClients(t *testing.T) {
	t.Parallel()
	const balancer = "192.0.2.1"
	for name, wrong := range map[string]func(i int) (address, credential string){
		"from its address": func(i int) (string, string) { return balancer, fmt.Sprintf("client-%d:wrong", i%3) },
		"on its account":   func(i int) (string, string) { return fmt.Sprintf("198.51.100.%d", i), "service:wrong" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, c := throttled(t, "")
			scrape := func() {
				t.Helper()
				wantStatus(t, "scrape", g.basic(c, balancer, "service:s3rvice"), http.StatusOK)
			}
			scrape()
			wantStatus(t, "login", g.login(c, balancer, "alice", "wonderland"), http.StatusOK)
			for i := range 10 {
				address, credential := wrong(i)
				wantStatus(t, "wrong", g.basic(c, address, credential), http.StatusUnauthorized)
				scrape()
			}
			address, credential := wrong(10)
			wantThrottled(t, g.basic(c, address, credential))
			scrape()
			wantStatus(t, "another login", g.login(c, balancer, "alice", "wonderland"), http.StatusOK)

			// Its own failures close it.
			for range 10 {
				wantStatus(t, "wrong", g.login(c, balancer, "alice", "wrong"), http.StatusUnauthorized)
				scrape()
			}
			wantThrottled(t, g.login(c, balancer, "alice", "wonderland"))
			scrape()
		})
	}
}

// TestThrottleWindow: it ends by itself.
func TestThrottleWindow(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "limits: {login_failures: 2, login_window: 1s}\n")
	for range 2 {
		wantStatus(t, "wrong", g.login(c, "192.0.2.1", "alice", "wrong"), http.StatusUnauthorized)
	}
	a := g.login(c, "192.0.2.1", "alice", "wonderland")
	wantThrottled(t, a)
	if got := a.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %s", got)
	}
	until(t, "the end of the window", func() bool {
		return g.login(c, "192.0.2.1", "alice", "wonderland").status == http.StatusOK
	})
}

// TestThrottledParallel: attempts side by side are not more attempts.
func TestThrottledParallel(t *testing.T) {
	t.Parallel()
	g, c := throttled(t, "")
	var mu sync.Mutex
	statuses := map[int]int{}
	many(parallel, func(i int) {
		body := `{"username":"alice","password":"wrong"}`
		a, err := g.try(c, "POST", "/login", body, from(fmt.Sprintf("198.51.100.%d", i), "Content-Type", typeJSON)...)
		mu.Lock()
		defer mu.Unlock()
		if statuses[a.status]++; err != nil {
			t.Error(err)
		}
	})
	if statuses[http.StatusUnauthorized] != 10 || statuses[http.StatusTooManyRequests] != parallel-10 {
		t.Errorf("statuses %v, expected 10 times 401 and %d times 429", statuses, parallel-10)
	}
}
