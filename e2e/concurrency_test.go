package e2e

import (
	"net/http"
	"sync"
	"testing"
)

// many does something in so many goroutines that begin together.
func many(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			do(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

const parallel = 50

// secure has one route, for sessions and tokens.
const secure = people + "routes: [{match: /secure-resource, upstream: app, auth: [session, bearer]}]\n"

func TestParallelCalls(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "memory"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			g := start(t, secure+app(record(t).url)+"store: {driver: "+driver+"}\n")
			t.Run("refreshes of one token", func(t *testing.T) { parallelRefreshes(t, g) })
			t.Run("logouts of one session", func(t *testing.T) { parallelLogouts(t, g) })
		})
	}
}

// parallelRefreshes: of many refreshes with one token, spread over gateways
// that share a store, one succeeds, and what it gave works on all of them.
func parallelRefreshes(t *testing.T, gateways ...*instance) {
	var clients []*http.Client
	for _, g := range gateways {
		clients = append(clients, g.stranger())
	}
	first := gateways[0].signIn(clients[0], "alice")
	var mu sync.Mutex
	var winners []signIn
	statuses := map[int]int{}
	many(parallel, func(i int) {
		at := i % len(gateways)
		got, status, err := gateways[at].tryRefresh(clients[at], first.refresh)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		if statuses[status]++; status == http.StatusOK {
			winners = append(winners, got)
		}
	})
	if len(winners) != 1 || statuses[http.StatusUnauthorized] != parallel-1 {
		t.Fatalf("statuses %v, expected one 200 and %d times 401", statuses, parallel-1)
	}
	for i, g := range gateways {
		if got := g.status(clients[i], "GET", "/secure-resource", "Authorization", winners[0].access); got != http.StatusOK {
			t.Errorf("the access token of the one that succeeded: %d", got)
		}
	}
	last := len(gateways) - 1
	if _, got, err := gateways[last].tryRefresh(clients[last], winners[0].refresh); err != nil || got != http.StatusOK {
		t.Errorf("the refresh token of the one that succeeded: %d, %v", got, err)
	}
}

// parallelLogouts all succeed: those that come late find nothing to end.
func parallelLogouts(t *testing.T, g *instance) {
	c := g.stranger()
	s := g.signIn(c, "bob")
	many(parallel, func(int) {
		if a, err := g.try(c, "POST", "/logout", "", "Cookie", s.session); err != nil || a.status != http.StatusOK {
			t.Errorf("logout: %d, %v", a.status, err)
		}
	})
	for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
		if got := g.status(c, "GET", "/secure-resource", credential...); got != http.StatusUnauthorized {
			t.Errorf("%s after the logout: %d", credential[0], got)
		}
	}
	if _, got, err := g.tryRefresh(c, s.refresh); err != nil || got != http.StatusUnauthorized {
		t.Errorf("refresh after the logout: %d, %v", got, err)
	}
}
