package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"authgate/gateway/password"
)

// TestLoginFlood: logins that come from everywhere at once, each on a name and
// from an address of its own so that no counter stops them, take neither the
// processors nor the memory from those who are signed in.
func TestLoginFlood(t *testing.T) {
	t.Parallel()
	hash, err := password.New("wonderland") // what hash-password makes: 19 MiB and some work
	if err != nil {
		t.Fatal(err)
	}
	up := record(t)
	g := startBehindProxy(t, "[127.0.0.1]", fmt.Sprintf("accounts: {users: [{username: alice, password_hash: %q}]}\n", hash)+
		"routes: [{match: /secure, upstream: app, auth: [session]}]\n"+app(up.url))
	c := g.stranger()
	session := cookieOf(g.login(c, "192.0.2.1", "alice", "wonderland"))
	ask := func() {
		if a := g.do(c, "GET", "/secure", "", from("192.0.2.1", "Cookie", session)...); a.status != http.StatusOK {
			t.Errorf("a client that is signed in gets %d %s", a.status, a.body)
		}
	}
	ask()

	const at = 400
	var refused, checked atomic.Int64
	over := make(chan struct{})
	guesser := g.stranger()
	var flood sync.WaitGroup
	for i := range at {
		flood.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				who, address := fmt.Sprintf("unknown-%d-%d", i, n), fmt.Sprintf("10.%d.%d.%d", i/200, i%200, n%250)
				a, err := g.try(guesser, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":"guess"}`, who), from(address, "Content-Type", typeJSON)...)
				if err != nil {
					continue // the gateway has ended, or the login has waited for long enough
				}
				switch a.status {
				case http.StatusServiceUnavailable:
					refused.Add(1)
				case http.StatusUnauthorized:
					checked.Add(1)
				default:
					t.Errorf("a login of the flood gets %d", a.status)
				}
			}
		})
	}
	// How many passwords are checked while one request waits is the same on
	// any machine, and so is how many logins it takes to fill all places.
	asked, behind := 0, int64(0)
	until(t, "a flood", func() bool {
		before := checked.Load()
		ask()
		asked++
		behind = max(behind, checked.Load()-before)
		return asked >= 50 && refused.Load() >= at && checked.Load() >= 20
	})
	memory := g.scrape(t)["process_resident_memory_bytes{}"]
	close(over)
	g.kill() // or the last logins would wait for their turn
	flood.Wait()
	t.Logf("%d requests of a client that is signed in, each behind %d password checks at most; %d logins checked, %d refused; %.0f MiB",
		asked, behind, checked.Load(), refused.Load(), memory/(1<<20))
	if behind > maxHashQueue/2 {
		t.Errorf("a client that is signed in waits for %d password checks", behind)
	}
	// All that wait, with the memory of a hash each, would be more than twice that.
	if memory > maxHashQueue*19<<20/2 {
		t.Errorf("the gateway takes %.0f MiB", memory/(1<<20))
	}
}

// maxHashQueue is how many logins wait for a password check at most.
const maxHashQueue = 256
