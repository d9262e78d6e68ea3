package redis

import (
	"net/http"
	"sync"
	"testing"

	"authgate/e2e/world"
)

const parallel = 50

// parallelRefreshes: of parallel refreshes with one token at gateways that share
// a store, one succeeds. Its tokens work at all of them.
func parallelRefreshes(t *testing.T, gateways ...*world.Instance) {
	var clients []*http.Client
	for _, g := range gateways {
		clients = append(clients, g.Stranger())
	}
	first := gateways[0].SignIn(clients[0], "alice")
	var mu sync.Mutex
	var winners []world.Login
	statuses := map[int]int{}
	world.Together(parallel, func(i int) {
		at := i % len(gateways)
		got, status, err := gateways[at].TryRefresh(clients[at], first.Refresh)
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
		if got := g.Status(clients[i], "GET", "/secure-resource", "Authorization", winners[0].Access); got != http.StatusOK {
			t.Errorf("the new access token: %d", got)
		}
	}
	last := len(gateways) - 1
	if _, got, err := gateways[last].TryRefresh(clients[last], winners[0].Refresh); err != nil || got != http.StatusOK {
		t.Errorf("the new refresh token: %d, %v", got, err)
	}
}
