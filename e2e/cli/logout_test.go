package cli

import (
	"net/http"
	"testing"

	"authgate/e2e/world"
)

// TestLogoutIsOneWrite signs out. In the store of a single instance, a logout is one transaction.
func TestLogoutIsOneWrite(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Prepare(t)
	g.Configure(world.People + "routes: [{match: /secure, upstream: app, auth: [session]}]\n" + world.App(up.URL))
	g.Run()
	alice := g.SignIn(g.Stranger(), "alice")
	count := func(operation string) float64 {
		return g.Scrape(t)[`authgate_store_duration_seconds_count{operation="`+operation+`"}`]
	}
	swaps, deletes := count("swap"), count("delete")
	world.WantStatus(t, "logout", g.Do(g.Stranger(), "POST", "/logout", "", "Cookie", alice.Session), http.StatusOK)
	if swaps, deletes = count("swap")-swaps, count("delete")-deletes; swaps != 1 || deletes != 0 {
		t.Errorf("a logout makes %v swaps and %v deletes, want one swap alone", swaps, deletes)
	}
}
