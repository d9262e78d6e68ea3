package wire

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestMetricsAreBounded: no value that a client chooses adds a series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	g := world.Start(t, inputs+world.App(world.Record(t).URL))
	c := g.Stranger11()
	word := func() string { return fmt.Sprintf("w%d", rand.Uint64()) }
	vary := func() {
		g.Do(c, word(), "/"+word()+"?"+word(), "")
		g.Do(c, word(), "/basic", "", "Authorization", world.BasicOf(word()+":"+word()), word(), word())
		g.Do(c, "GET", "/secure/"+word(), "", "Authorization", "Bearer "+word(), "X-Request-Id", word())
		g.Do(c, "GET", "/secure/"+word(), "", "Authorization", word()+" "+word(), "Cookie", word()+"="+word())
		g.Do(c, "GET", "/secure/"+word(), "", "Cookie", "session_id="+word(), "User-Agent", word())
		g.Do(c, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":%q}`, word(), word()), "Content-Type",
			world.TypeJSON)
		g.Do(c, "POST", "/login?mechanism="+word(), world.AliceJSON, "Content-Type", world.TypeJSON)
		g.Do(c, "POST", "/login", word(), "Content-Type", word()+"/"+word())
		g.Do(c, "POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, word()), "Content-Type", world.TypeJSON)
		g.Do(c, word(), "/logout", "")
		g.Raw(t, "GET /secure/ HTTP/1.1\nHost: "+word()+".example.org\nX-Auth-User: "+word()+
			"\nX-Forwarded-For: "+word()+"\n\n")
		g.Plain(t, "127.0.0.1", word()+" /"+word()+" HTTP/1.1\nHost: "+word()+"\n\n")
	}
	var series [][]string // after each of two rounds
	for _, rounds := range []int{1, 10} {
		for range rounds {
			vary()
		}
		// A request counts when its answer is complete, which may be a moment later.
		world.Until(t, "the requests to be counted",
			func() bool { return len(g.Log.Records(t, "request")) == 12*(1+rounds*len(series)) })
		series = append(series, slices.DeleteFunc(slices.Sorted(maps.Keys(g.Scrape(t))),
			func(s string) bool { return !strings.HasPrefix(s, "authgate_") }))
	}
	if !slices.Equal(series[0], series[1]) {
		t.Errorf("there were %d series, and now there are %d:\n%s", len(series[0]), len(series[1]),
			strings.Join(series[1], "\n"))
	}
}
