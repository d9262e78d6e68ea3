package e2e

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scrape reads the metrics: series like name{a="b",c="d"} and their values.
func (g *instance) scrape(t testing.TB) map[string]float64 {
	t.Helper()
	response := must(http.Get(g.adm + "/metrics"))(t)
	defer response.Body.Close()
	all := map[string]float64{}
	for line := range strings.Lines(string(must(io.ReadAll(response.Body))(t))) {
		if value := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") {
			all[line[:value]] = must(strconv.ParseFloat(strings.TrimSpace(line[value:]), 64))(t)
		}
	}
	return all
}

// TestMetricsAreBounded: no value that a client chooses adds a series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	g := start(t, inputs+app(record(t).url))
	c := g.stranger11()
	word := func() string { return fmt.Sprintf("w%d", rand.Uint64()) }
	vary := func() {
		g.do(c, word(), "/"+word()+"?"+word(), "")
		g.do(c, word(), "/basic", "", "Authorization", basicOf(word()+":"+word()), word(), word())
		g.do(c, "GET", "/secure/"+word(), "", "Authorization", "Bearer "+word(), "X-Request-Id", word())
		g.do(c, "GET", "/secure/"+word(), "", "Authorization", word()+" "+word(), "Cookie", word()+"="+word())
		g.do(c, "GET", "/secure/"+word(), "", "Cookie", "session_id="+word(), "User-Agent", word())
		g.do(c, "POST", "/login", fmt.Sprintf(`{"username":%q,"password":%q}`, word(), word()), "Content-Type", typeJSON)
		g.do(c, "POST", "/login?mechanism="+word(), right, "Content-Type", typeJSON)
		g.do(c, "POST", "/login", word(), "Content-Type", word()+"/"+word())
		g.do(c, "POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, word()), "Content-Type", typeJSON)
		g.do(c, word(), "/logout", "")
		g.raw(t, "GET /secure/ HTTP/1.1\nHost: "+word()+".example.org\nX-Auth-User: "+word()+"\nX-Forwarded-For: "+word()+"\n\n")
		g.plain(t, "127.0.0.1", word()+" /"+word()+" HTTP/1.1\nHost: "+word()+"\n\n")
	}
	var series [][]string // after each of two rounds
	for _, rounds := range []int{1, 10} {
		for range rounds {
			vary()
		}
		// A request counts when its answer is complete, which may be a moment later.
		until(t, "the requests to be counted", func() bool { return len(g.entriesOf("request")) == 12*(1+rounds*len(series)) })
		series = append(series, slices.DeleteFunc(slices.Sorted(maps.Keys(g.scrape(t))), func(s string) bool { return !strings.HasPrefix(s, "authgate_") }))
	}
	if !slices.Equal(series[0], series[1]) {
		t.Errorf("there were %d series, and now there are %d:\n%s", len(series[0]), len(series[1]), strings.Join(series[1], "\n"))
	}
}
