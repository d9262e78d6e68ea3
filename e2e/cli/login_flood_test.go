package cli

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"
)

// maxHashQueue is the limit on logins that wait for a password check.
const maxHashQueue = 256

// TestLoginFlood: a flood of logins, each with its own name and address so that
// no counter stops them, takes neither the processors nor the memory from
// clients that are signed in.
func TestLoginFlood(t *testing.T) {
	t.Parallel()
	g := world.StartBehindProxy(t, "[127.0.0.1]",
		fmt.Sprintf("accounts: {users: [{username: alice, password_hash: %q}]}\n", costlyHash(t, "wonderland"))+
			"routes: [{match: /secure, upstream: app, auth: [session]}]\n"+world.App(world.Record(t).URL))
	c, guesser := g.Stranger(), g.Stranger()
	session := world.CookieOf(signInFrom(g, c, "192.0.2.1", "alice", "wonderland"))

	const guessers = 2 * maxHashQueue
	var refused, checked atomic.Int64
	over := make(chan struct{})
	var flood sync.WaitGroup
	guess := func(i, n int) (again bool) {
		who, address := fmt.Sprintf("unknown-%d-%d", i, n), fmt.Sprintf("10.%d.%d.%d", i/200, i%200, n%250)
		a, err := g.Try(guesser, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":"guess"}`, who),
			from(address, "Content-Type", world.TypeJSON)...)
		switch {
		case err != nil: // the gateway has ended, or the login waited too long
		case a.Status == http.StatusServiceUnavailable:
			refused.Add(1)
		case a.Status == http.StatusUnauthorized:
			checked.Add(1)
		default:
			t.Errorf("a login of the flood gets %d", a.Status)
		}
		return a.Status != http.StatusServiceUnavailable
	}
	for i := range guessers {
		flood.Go(func() {
			// Those that wait keep the queue full. The others would only compete with them
			// for the processors.
			for n := 0; guess(i, n); n++ {
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	// The number of passwords that are checked while one request waits does not
	// depend on the machine, nor does the number of logins that fill the queue.
	asked, behind := 0, int64(0)
	world.Until(t, "a flood", func() bool {
		before := checked.Load()
		world.WantStatus(t, "a client that is signed in",
			g.Do(c, "GET", "/secure", "", from("192.0.2.1", "Cookie", session)...), http.StatusOK)
		asked++
		behind = max(behind, checked.Load()-before)
		return asked >= 50 && refused.Load() >= maxHashQueue/4 && checked.Load() >= 20
	})
	memory := g.Scrape(t)["process_resident_memory_bytes"]
	close(over)
	g.Kill() // otherwise the last logins wait for their turn
	flood.Wait()
	if behind > maxHashQueue/2 {
		t.Errorf("a client that is signed in waits for %d password checks", behind)
	}
	// If each login that waits held the memory of a hash, it would be twice that.
	if memory > maxHashQueue*19<<20/2 {
		t.Errorf("the gateway takes %.0f MiB", memory/(1<<20))
	}
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
