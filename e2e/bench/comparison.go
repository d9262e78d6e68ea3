package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// comparison is one row: a server and the server that it is compared with.
type comparison struct {
	task    task
	subject string
	other   string
	start   [2]starter // of the subject and of the other
	goal    float64    // the ratio to reach; 0: none
	most    float64    // a ratio above this fails the run; 0: any is allowed
	noise   float64    // a ratio further than this from 1 fails the run; 0: any is allowed
	rate    float64    // requests per second of a core to reach; 0: any will do
}

// name is what -only matches.
func (c comparison) name() string { return c.task.name + ": " + c.subject }

// label names the subject in the table, and what it is compared with unless that is
// the floor.
func (c comparison) label() string {
	if c.other == "floor" {
		return c.subject
	}
	return c.subject + ", over " + c.other
}

// task is what the two servers of a comparison are asked for.
type task struct {
	name     string
	load     load // nil: idle connections
	resource string
	// size is the length of large answers, which are counted in bytes. 0: answers are
	// counted in requests.
	size    int64
	posted  int64    // the length of the request's body
	headers []string // beside the credential
	decided bool     // requests are answered without the upstream
	flat    int64    // by how many bytes the memory of authgate may rise; 0: by any
}

// goals are the ratios to reach.
type goals struct{ password, rs256 float64 }

// comparisons returns what is measured, in the order of the table.
func (l *lab) comparisons() []comparison {
	var all []comparison
	get := func(name string, load load) task { return task{name: name, load: load, resource: "resource"} }
	// A browser says where a request that changes something comes from.
	post := func(name string, load load) task {
		return task{name: name, load: load, resource: "resource", posted: postedBytes, headers: []string{"Sec-Fetch-Site: same-origin"}}
	}
	// An application that takes 5 ms leaves 75 requests in progress when 15,000 a second
	// come. This one takes no time.
	busy := 4 * l.connections
	for _, t := range []struct {
		task
		goals
	}{
		{get("GET HTTP/1.1", http1{l, l.script, busy}), goals{0.80, 0.82}},
		{post("POST 1 KiB HTTP/1.1", http1{l, l.postScript, busy}), goals{0.90, 0.90}},
		{get("GET HTTP/2", http2{l, "", busy, streams}), goals{0.80, 0.80}},
		{post("POST 1 KiB HTTP/2", http2{l, l.posted, busy, streams}), goals{0.90, 0.90}},
	} {
		all = append(all, l.beside(t.task, t.goals)...)
		if t.posted == 0 {
			all = append(all, comparison{task: t.task, subject: logged(session()).name, most: l.maxRatio, start: [2]starter{l.authgateFor(logged(session())), l.startBare}})
		}
		all = append(all, l.plain(t.task)...)
	}
	// With few requests at a time, what a server does once for several of them weighs more.
	for _, t := range []struct {
		task
		goals
	}{
		{get("GET HTTP/1.1, 16 at a time", http1{l, l.script, l.connections}), goals{0.80, 0.82}},
		{post("POST 1 KiB HTTP/1.1, 16 at a time", http1{l, l.postScript, l.connections}), goals{0.72, 0.72}},
		{get("GET HTTP/2, 32 at a time", http2{l, "", 2 * l.connections, 8}), goals{0.63, 0.66}},
		{post("POST 1 KiB HTTP/2, 32 at a time", http2{l, l.posted, 2 * l.connections, 8}), goals{0.63, 0.63}},
	} {
		all = append(all, l.beside(t.task, t.goals)...)
	}
	// Fewer connections, so that answers of 100 MiB end within the time.
	for _, t := range []struct {
		task
		goal float64
	}{
		{task{name: "1 MiB HTTP/1.1", load: http1{l, l.script, 4}, resource: "1MiB", size: 1 << 20}, 1.02},
		{task{name: "100 MiB HTTP/1.1", load: http1{l, l.script, 2}, resource: "100MiB", size: 100 << 20}, 0.95},
		{task{name: fmt.Sprintf("%d idle HTTP/1.1", idleConnections), resource: "resource"}, 0.65},
	} {
		all = append(all, comparison{task: t.task, subject: "session", goal: t.goal, most: l.maxRatio, start: [2]starter{l.authgateFor(session()), l.startBare}})
		all = append(all, l.plain(t.task)...)
	}
	all = append(all, l.restingSockets())
	all = append(all, l.streamed()...)
	all = append(all, l.overHTTP3()...)
	all = append(all, l.decisions()...)
	all = append(all, comparison{
		task: get("GET HTTP/1.1", http1{l, l.script, l.connections}), subject: "session on Redis", other: "session on SQLite",
		goal: l.maxRedis, most: l.maxRedis, start: [2]starter{l.startOnRedis, l.authgateFor(session())},
	})
	for i := range all {
		if all[i].other == "" {
			all[i].other = "floor"
		}
	}
	return all
}

// restingSockets returns the row of WebSockets on which no message comes. Nginx and HAProxy pass them with other
// configurations.
func (l *lab) restingSockets() comparison {
	t := task{name: fmt.Sprintf("%d idle WebSockets", idleConnections), resource: socketResource,
		headers: []string{"Sec-Fetch-Site: same-origin"}}
	return comparison{task: t, subject: "session", goal: 1, most: l.maxRatio,
		start: [2]starter{l.authgateFor(session()), l.startBare}}
}

// beside returns the rows of the mechanisms for a task, after one that compares the floor with itself.
func (l *lab) beside(t task, g goals) []comparison {
	all := []comparison{{task: t, subject: "floor", noise: l.maxNoise, start: [2]starter{l.startBare, l.startBare}}}
	for _, m := range mechanisms() {
		goal := g.password
		if m.algorithm == "RS256" {
			goal = g.rs256
		}
		all = append(all, comparison{task: t, subject: m.name, goal: goal, most: l.maxRatio,
			start: [2]starter{l.authgateFor(m), l.startBare}})
	}
	return all
}

// twoGiB is the length of the bodies that must not need more memory.
const twoGiB = 2 << 30

// streamed returns the rows of large bodies and streams.
func (l *lab) streamed() []comparison {
	same := []string{"Sec-Fetch-Site: same-origin"}
	var all []comparison
	for _, t := range []task{
		{name: "2 GiB down HTTP/1.1", load: traffic{l, "download", 1, twoGiB}, size: 1 << 20, flat: 8 << 20},
		{name: "2 GiB up HTTP/1.1", load: traffic{l, "upload", 1, twoGiB}, resource: uploadResource, size: 1 << 20, headers: same, flat: 8 << 20},
		{name: "WebSocket messages", load: traffic{l, "websocket", l.connections, 0}, resource: socketResource, headers: same},
		{name: "server-sent events", load: traffic{l, "events", l.connections, 0}, resource: eventsResource},
		// More, because Go begins goroutines with the average stack: with few streams the
		// idle goroutines of a server decide whether those of its streams must grow.
		{name: "gRPC messages", load: traffic{l, "grpc", 4 * l.connections, 0}, resource: grpcResource, headers: same},
	} {
		bare := l.startBare
		if t.resource == grpcResource {
			bare = l.startBareHTTP2
		}
		all = append(all, comparison{task: t, subject: "session", goal: 1.05, most: l.maxRatio, start: [2]starter{l.authgateFor(session()), bare}})
	}
	return all
}

// plain returns the rows of nginx and HAProxy.
func (l *lab) plain(t task) []comparison {
	return []comparison{
		{task: t, subject: "nginx", start: [2]starter{l.startNginx, l.startBare}},
		{task: t, subject: "HAProxy", start: [2]starter{l.startHAProxy, l.startBare}},
	}
}

// choose returns the comparisons whose name only matches.
func choose(all []comparison, only *regexp.Regexp) ([]comparison, error) {
	var chosen []comparison
	var names []string
	for _, c := range all {
		names = append(names, c.name())
		if only.MatchString(c.name()) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only matches no row; there are:\n%s", strings.Join(names, "\n"))
	}
	return chosen, nil
}

// round measures a comparison once, on fresh servers.
func (l *lab) round(ctx context.Context, c comparison, n int) (pair, error) {
	var sides [2]*server
	for i, start := range c.start {
		s, err := start(ctx, i)
		if err != nil {
			return pair{}, err
		}
		defer s.stop()
		sides[i] = s
	}
	sides[1].imitate(sides[0])
	measure := l.measure
	if c.task.load == nil {
		measure = l.measureIdle
	}
	if err := checkBoth(ctx, sides); err != nil {
		return pair{}, err
	}
	p, err := measure(ctx, n, sides, c.task)
	if err != nil {
		return pair{}, err
	}
	return p, checkBoth(ctx, sides)
}

func checkBoth(ctx context.Context, sides [2]*server) error {
	for _, s := range sides {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return nil
}
