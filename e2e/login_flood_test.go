package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	ask := func() (took time.Duration) {
		began := time.Now()
		if a := g.do(c, "GET", "/secure", "", from("192.0.2.1", "Cookie", session)...); a.status != http.StatusOK {
			t.Errorf("who is signed in gets %d %s", a.status, a.body)
		}
		return time.Since(began)
	}
	ask()

	const at, most = 400, 3 * time.Second
	var refused, tried atomic.Int64
	over := make(chan struct{})
	guesser := g.stranger()
	guesser.Timeout = time.Second
	var flood sync.WaitGroup
	for i := range at {
		flood.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				who, address := fmt.Sprintf("nobody-%d-%d", i, n), fmt.Sprintf("10.%d.%d.%d", i/200, i%200, n%250)
				a, err := g.try(guesser, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":"guess"}`, who), from(address, "Content-Type", typeJSON)...)
				if err != nil {
					continue // it has waited for long enough
				}
				tried.Add(1)
				switch a.status {
				case http.StatusServiceUnavailable:
					refused.Add(1)
				case http.StatusUnauthorized:
				default:
					t.Errorf("a login of the flood gets %d", a.status)
				}
			}
		})
	}
	var times []time.Duration
	for began := time.Now(); time.Since(began) < most; {
		times = append(times, ask())
	}
	memory := g.scrape(t)["process_resident_memory_bytes{}"]
	close(over)
	flood.Wait()
	slices.Sort(times)
	half, all := times[len(times)/2], times[len(times)-1]
	t.Logf("%d requests of who is signed in, half within %v, all within %v; %d logins, %d refused; %.0f MiB",
		len(times), half, all, tried.Load(), refused.Load(), memory/(1<<20))
	if all > 10*time.Second { // as long as a login of the flood would wait
		t.Errorf("who is signed in waits for up to %v", all)
	}
	// All that wait, with the memory of a hash each, would be more than twice that.
	if memory > 256*19<<20/2 {
		t.Errorf("the gateway takes %.0f MiB", memory/(1<<20))
	}
	if refused.Load() == 0 {
		t.Error("no login was refused, so that this was no flood")
	}
}
