package wire

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// TestNextAnnouncesRefusals: the refusals that a policy brings are those that its next announced, by route and
// outcome, for the same requests on a gateway that runs.
func TestNextAnnouncesRefusals(t *testing.T) {
	t.Parallel()
	config := func(policies string) string {
		return world.People + world.App(world.Record(t).URL) + policies + `
routes:
  - {match: /app/, name: app, upstream: app, auth: [session], policy: some}
  - {match: /safe/, name: safe, upstream: app, auth: [session], policy: {all: [some, {roles: [user]}]}}
  - {match: /wiki/, name: wiki, upstream: app, auth: [session, none], policy: reads}
  - {match: /same/, name: same, upstream: app, auth: [session], policy: {roles: [user]}}
`
	}
	g := world.Start(t, config(`
policies:
  some: {roles: [user], next: {roles: [admin]}}
  reads: {any: [{methods: [GET]}, {roles: [user]}], next: {roles: [user], max_age: 1h}}
`))
	c := g.Stranger()
	alice, bob := g.SignIn(c, "alice").Session, g.SignIn(c, "bob").Session
	// answers returns how often each route answers with each status.
	answers := func() map[string]float64 {
		counts := map[string]float64{}
		for i, cookie := range []string{alice, bob, bob, ""} {
			for _, route := range []string{"app", "safe", "wiki", "same"} {
				var header []string
				if cookie != "" {
					header = []string{"Cookie", cookie}
				}
				a := g.Do(c, "GET", fmt.Sprintf("/%s/%d", route, i), "", header...)
				counts[fmt.Sprint(route, " ", a.Status)]++
			}
		}
		return counts
	}
	before := answers()
	announced := map[string]float64{}
	for _, route := range []string{"app", "safe", "wiki", "same"} {
		for outcome, status := range map[string]int{
			"forbid": http.StatusForbidden, "sign-in": http.StatusUnauthorized, "step-up": http.StatusUnauthorized,
		} {
			series := fmt.Sprintf(`authgate_policy_next_total{next=%q,now="allow",route=%q}`, outcome, route)
			announced[fmt.Sprint(route, " ", status)] += g.Scrape(t)[series]
		}
	}
	if announced["app 403"] != 2 || announced["safe 403"] != 2 || announced["wiki 401"] != 1 {
		t.Fatalf("announced is %v", announced)
	}

	g.Configure(config(`
policies:
  some: {roles: [admin]}
  reads: {roles: [user], max_age: 1h}
`))
	g.Signal(syscall.SIGHUP)
	world.Until(t, "the reload", func() bool { return len(g.Log.Records(t, "reloaded")) == 1 })
	after := answers()
	for key, n := range announced {
		if came := after[key] - before[key]; came != n {
			t.Errorf("%s: %v refusals came, and %v were announced", key, came, n)
		}
	}
}
