package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/role"
)

// comparison is one row: a server and the server that it is compared with.
type comparison struct {
	task    task
	subject string
	other   string
	start   [2]lab.Starter // of the subject and of the other
	goal    float64        // the ratio to reach; 0: none
	most    float64        // a ratio above this fails the run; 0: any is allowed
	noise   float64        // a ratio further than this from 1 fails the run; 0: any is allowed
	rate    float64        // requests per second of a core to reach; 0: any will do
}

// name is what -only matches.
func (c comparison) name() string { return c.task.name + ": " + c.subject }

// floor is the other of most comparisons, and older that of all with -older.
const (
	floor = "floor"
	older = "the older one"
)

// noDearer is the goal for tokens that should cost the same, on a machine with noise.
const noDearer = 1.05

// noWorse is the highest allowed cost of authgate, as a multiple of an older one.
const noWorse = 1.02

// label names the subject in the table, and its counterpart unless that is the
// floor.
func (c comparison) label() string {
	if c.other == floor {
		return c.subject
	}
	return c.subject + ", over " + c.other
}

// task is the request to the two servers of a comparison.
type task struct {
	name     string
	load     load.Load // nil: idle connections
	resource string
	// size is the length of large answers, which are counted in bytes. 0: answers are
	// counted in requests.
	size    int64
	posted  int64    // the length of the request's body
	headers []string // beside the credential
	decided bool     // requests are answered without the upstream
	flat    int64    // by how many bytes the memory of authgate may rise; 0: by any
}

// small is the resource with a small answer.
const small = "resource"

// sameOrigin has the headers by which a browser tells where a request comes from that changes something.
func sameOrigin() []string { return []string{"Sec-Fetch-Site: same-origin"} }

func get(name string, by load.Load) task { return task{name: name, load: by, resource: small} }

func post(name string, by load.Load) task {
	return task{name: name, load: by, resource: small, posted: load.PostedBytes, headers: sameOrigin()}
}

// rows describes the comparisons. It starts no server and puts no load on any.
type rows struct {
	options
	lab   *lab.Lab
	loads load.Generator
}

// comparisons returns the comparisons, in the order of the table.
func (r rows) comparisons() []comparison {
	onRedis := r.over("session on SQLite", r.lab.Authgate(lab.Session()),
		get("GET HTTP/1.1", r.loads.Get(r.connections)), "session on Redis", r.lab.OnRedis)
	onRedis.goal, onRedis.most = r.maxRedis, r.maxRedis
	all := slices.Concat(r.smallRequests(), r.fewRequests(), r.large(), r.streamed(), r.overHTTP3(), r.decisions(),
		[]comparison{onRedis, r.calls()})
	if r.older == "" {
		return all
	}
	return slices.DeleteFunc(all, func(c comparison) bool { return c.other != older })
}

// over returns a row that may cost as much as authgate may.
func (r rows) over(other string, beside lab.Starter, t task, subject string, start lab.Starter) comparison {
	return comparison{task: t, subject: subject, other: other, start: [2]lab.Starter{start, beside}, most: r.maxRatio}
}

// plain returns a row of a server that may cost anything, over the floor.
func (r rows) plain(t task, subject string, start lab.Starter) comparison {
	return comparison{task: t, subject: subject, other: floor, start: [2]lab.Starter{start, r.lab.Bare}}
}

// authgate returns a row of authgate over the floor, or over an older authgate.
func (r rows) authgate(t task, m lab.Mechanism, goal float64) comparison {
	if r.older != "" {
		c := r.over(older, r.lab.With(r.older).Authgate(m), t, m.Name, r.lab.Authgate(m))
		c.goal = noWorse
		return c
	}
	c := r.over(floor, r.lab.Bare, t, m.Name, r.lab.Authgate(m))
	c.goal = goal
	return c
}

// itself returns the row of the floor, over itself.
func (r rows) itself(t task) comparison {
	c := r.plain(t, floor, r.lab.Bare)
	c.noise = r.maxNoise
	return c
}

// otherProxies returns the rows of nginx and HAProxy.
func (r rows) otherProxies(t task) []comparison {
	proxies := lab.Proxies{Lab: r.lab}
	return []comparison{r.plain(t, "nginx", proxies.Nginx), r.plain(t, "HAProxy", proxies.HAProxy)}
}

// aimed is a task, and the ratios to reach with RS256 and with each other mechanism.
type aimed struct {
	task
	goal, rs256 float64
}

// mechanisms returns the rows of the mechanisms for a task, after one that compares the floor with itself.
func (r rows) mechanisms(t aimed) []comparison {
	all := []comparison{r.itself(t.task)}
	for _, m := range lab.Mechanisms() {
		goal := t.goal
		if m.Algorithm == "RS256" {
			goal = t.rs256
		}
		all = append(all, r.authgate(t.task, m, goal))
	}
	return all
}

// smallRequests returns the rows with many requests in progress. An application that takes 5 ms
// leaves 75 of them when 15,000 a second come. This one takes no time.
func (r rows) smallRequests() []comparison {
	var all []comparison
	busy := 4 * r.connections
	for _, t := range []aimed{
		{get("GET HTTP/1.1", r.loads.Get(busy)), 0.80, 0.82},
		{post("POST 1 KiB HTTP/1.1", r.loads.Post(busy)), 0.90, 0.90},
		{get("GET HTTP/2", r.loads.GetHTTP2(busy, load.Streams)), 0.80, 0.80},
		{post("POST 1 KiB HTTP/2", r.loads.PostHTTP2(busy, load.Streams)), 0.90, 0.90},
	} {
		all = append(all, r.mechanisms(t)...)
		if t.posted == 0 {
			all = append(all, r.authgate(t.task, lab.Session().Logged(), 0))
		}
		all = append(all, r.otherProxies(t.task)...)
	}
	return all
}

// fewRequests returns the rows with few requests in progress, where work that a server does
// once for several of them weighs more.
func (r rows) fewRequests() []comparison {
	var all []comparison
	for _, t := range []aimed{
		{get("GET HTTP/1.1, 16 at a time", r.loads.Get(r.connections)), 0.80, 0.82},
		{post("POST 1 KiB HTTP/1.1, 16 at a time", r.loads.Post(r.connections)), 0.72, 0.72},
		{get("GET HTTP/2, 32 at a time", r.loads.GetHTTP2(2*r.connections, 8)), 0.63, 0.66},
		{post("POST 1 KiB HTTP/2, 32 at a time", r.loads.PostHTTP2(2*r.connections, 8)), 0.63, 0.63},
	} {
		all = append(all, r.mechanisms(t)...)
	}
	return all
}

// large returns the rows of large answers and of idle connections. Large answers come on few
// connections, so that those of 100 MiB end within the time.
func (r rows) large() []comparison {
	var all []comparison
	for _, t := range []aimed{
		{task: task{name: "1 MiB HTTP/1.1", load: r.loads.Get(4), resource: "1MiB", size: 1 << 20}, goal: 1.02},
		{task: task{name: "100 MiB HTTP/1.1", load: r.loads.Get(2), resource: "100MiB", size: 100 << 20}, goal: 0.95},
		{task: get(fmt.Sprintf("%d idle HTTP/1.1", idleConnections), nil), goal: 0.65},
	} {
		all = append(all, r.authgate(t.task, lab.Session(), t.goal))
		all = append(all, r.otherProxies(t.task)...)
	}
	// No message comes on these. Nginx and HAProxy pass WebSockets with other configurations.
	sockets := task{name: fmt.Sprintf("%d idle WebSockets", idleConnections),
		resource: role.SocketResource, headers: sameOrigin()}
	events := task{name: fmt.Sprintf("%d idle event streams", idleConnections), resource: role.QuietResource}
	return append(all, r.authgate(sockets, lab.Session(), 1), r.authgate(events, lab.Session(), 1))
}

// twoGiB is the length of the bodies that must not need more memory.
const twoGiB = 2 << 30

// streamed returns the rows of large bodies and streams.
func (r rows) streamed() []comparison {
	var all []comparison
	for _, t := range []task{
		{name: "2 GiB down HTTP/1.1", load: r.loads.Traffic("download", 1, twoGiB), size: 1 << 20, flat: 8 << 20},
		{name: "2 GiB up HTTP/1.1", load: r.loads.Traffic("upload", 1, twoGiB), size: 1 << 20, flat: 8 << 20,
			resource: role.UploadResource, headers: sameOrigin()},
		{name: "WebSocket messages", load: r.loads.Traffic("websocket", r.connections, 0),
			resource: role.SocketResource, headers: sameOrigin()},
		{name: "server-sent events", load: r.loads.Traffic("events", r.connections, 0), resource: role.EventsResource},
		// More, because Go begins goroutines with the average stack: with few streams the
		// idle goroutines of a server decide whether those of its streams must grow.
		{name: "gRPC messages", load: r.loads.Traffic("grpc", 4*r.connections, 0),
			resource: role.GRPCResource, headers: sameOrigin()},
	} {
		c := r.authgate(t, lab.Session(), 1.05)
		if t.resource == role.GRPCResource && c.other == floor {
			c.start[1] = r.lab.BareHTTP2
		}
		all = append(all, c)
	}
	return all
}

// overHTTP3 returns the rows of HTTP/3, over Caddy as a plain proxy. Net/http has no floor for it.
func (r rows) overHTTP3() []comparison {
	var all []comparison
	for _, t := range []task{
		get("GET HTTP/3", r.loads.Traffic("http3", r.connections, 0)),
		post("POST 1 KiB HTTP/3", r.loads.Traffic("http3 post", r.connections, 0)),
	} {
		c := r.authgate(t, lab.Session().OverHTTP3(), 1)
		if c.other == floor {
			c.other, c.start[1] = "Caddy", lab.Proxies{Lab: r.lab}.Caddy
		}
		all = append(all, c)
	}
	return all
}

// decisionsPerSecond is how many decisions one core should make for other proxies.
const decisionsPerSecond = 20_000

// decisions returns the rows of forward authentication: authgate beside oauth2-proxy, which
// decrypts a cookie for each request. Both are asked directly, then by nginx. Only their
// own time counts, not that of nginx.
func (r rows) decisions() []comparison {
	direct := task{
		name: "forward authentication", load: r.loads.Get(r.connections), headers: lab.Question(), decided: true,
	}
	asked := get("forward authentication by nginx", r.loads.Get(r.connections))
	behindNginx := lab.Proxies{Lab: r.lab}.BehindNginx
	all := []comparison{
		r.over("oauth2-proxy", r.lab.OAuth2Proxy, direct, "session", r.lab.Verify),
		r.over("oauth2-proxy", behindNginx(r.lab.OAuth2Proxy), asked, "session", behindNginx(r.lab.Verify)),
	}
	for i := range all {
		all[i].rate = decisionsPerSecond
	}
	return all
}

// calls returns the row of calls of tools that a policy decides on, beside a route that passes them on.
func (r rows) calls() comparison {
	t := task{name: "POST 2 KiB HTTP/1.1, 16 at a time", load: r.loads.Calls(r.connections), resource: small,
		posted: load.CalledBytes, headers: []string{"Content-Type: application/json"}}
	byTool := lab.Calls(true)
	c := r.over("a route without", r.lab.ForKind(lab.Calls(false)), t, byTool.Name, r.lab.ForKind(byTool))
	c.goal, c.most = 1.15, 1.3
	return c
}

// peers returns the rows of docs/comparison.md: what a request of a signed-in user costs
// with other programs, each with TLS, over the same floor. They are measured only if -only
// names them. Where a proxy asks a gate, both count.
func (r rows) peers() []comparison {
	t := get("peers", r.loads.Get(r.connections))
	proxies := lab.Proxies{Lab: r.lab}
	authgate := r.authgate(t, lab.Session(), 1)
	authgate.subject = "authgate"
	return []comparison{
		r.itself(t),
		authgate,
		r.plain(t, "oauth2-proxy", r.lab.OAuth2ProxyInFront),
		r.plain(t, "nginx, no sign-in", proxies.Nginx),
		r.plain(t, "HAProxy, no sign-in", proxies.HAProxy),
		r.plain(t, "Caddy, no sign-in", proxies.Caddy),
		r.plain(t, "nginx asks authgate", proxies.NginxAsks(r.lab.Verify)),
		r.plain(t, "nginx asks an empty handler", proxies.NginxAsks(r.lab.EmptyHandler)),
		r.plain(t, "nginx asks oauth2-proxy", proxies.NginxAsks(r.lab.OAuth2Proxy)),
		r.plain(t, "Caddy asks authgate", proxies.CaddyAsks(r.lab.Verify)),
		r.plain(t, "Caddy asks oauth2-proxy", proxies.CaddyAsks(r.lab.OAuth2Proxy)),
	}
}

// issuers returns the rows of the authorization server beside oidc-provider: a program gets a token
// of its own, asks about one, and renews those of a user. They are measured only if -only names them.
func (r rows) issuers() []comparison {
	var all []comparison
	servers := lab.Issuers{Lab: r.lab}
	for _, row := range []struct {
		name  string
		load  load.Load
		start [2]lab.Starter
	}{
		{"oauth, client credentials", r.loads.Forms(r.connections), servers.Granting()},
		{"oauth, introspection", r.loads.Forms(r.connections), servers.Introspecting()},
		{"oauth, refresh", r.loads.Refreshes(r.connections), servers.Refreshing(r.connections)},
	} {
		t := task{name: row.name, load: row.load, headers: lab.BehindTLS(), decided: true}
		all = append(all, comparison{task: t, subject: "authgate", other: "oidc-provider", start: row.start})
	}
	return all
}

// kinds returns the rows of kinds of traffic, which are measured only if -only names them.
func (r rows) kinds() []comparison {
	var all []comparison
	for _, k := range lab.Kinds() {
		all = append(all, r.plain(get("kinds, GET HTTP/1.1", r.loads.Get(4*r.connections)), k.Name, r.lab.ForKind(k)))
	}
	return all
}

// callers returns the rows of tokens of programs, over the token of a login. They are measured only if -only
// names them.
func (r rows) callers() []comparison {
	var all []comparison
	own, t := lab.User(), get("callers, GET HTTP/1.1", r.loads.Get(4*r.connections))
	for _, c := range lab.Callers() {
		row := r.over(own.Name, r.lab.ForCaller(own), t, c.Name, r.lab.ForCaller(c))
		row.goal = noDearer
		all = append(all, row)
	}
	return all
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
