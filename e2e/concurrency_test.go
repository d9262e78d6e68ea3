package e2e

import (
	"net/http"
	"sync"
	"testing"
)

// many calls do in n goroutines that begin together.
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

// parallelRefreshes: of parallel refreshes with one token at gateways that share
// a store, one succeeds. Its tokens work at all of them.
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
			t.Errorf("the new access token: %d", got)
		}
	}
	last := len(gateways) - 1
	if _, got, err := gateways[last].tryRefresh(clients[last], winners[0].refresh); err != nil || got != http.StatusOK {
		t.Errorf("the new refresh token: %d, %v", got, err)
	}
}
