package policy_test

import (
	"strconv"
	"strings"
	"testing"

	"authgate/policy"
)

// session is a list of mechanisms for tests that need any.
var session = []policy.Mechanism{policy.Session}

func routes(patterns ...string) []policy.Route {
	rs := make([]policy.Route, len(patterns))
	for i, p := range patterns {
		rs[i] = policy.Route{Pattern: p, Mechanisms: session}
	}
	return rs
}

func TestMatch(t *testing.T) {
	t.Parallel()
	patterns := []string{
		"/secret-resource", // 0
		"GET /read",        // 1
		"/app/",            // 2
		"/app/admin",       // 3
		"/users/{id}",      // 4
		"Example.ORG./",    // 5
		"[2001:DB8:0::1]/", // 6
		"/docs/{rest...}",  // 7
		"/end/{$}",         // 8
		"/caf%C3%A9",       // 9
		"/100%25",          // 10
		"DELETE\t/read",    // 11
		"GET /with space",  // 12
		"/q%3F",            // 13
		"api.example.org/", // 14
		"POST api.example.org/write",
	}
	table := newTable(t, routes(patterns...)...)
	for i, route := range table.Routes() {
		if route.Pattern != patterns[i] {
			t.Errorf("route %d has the pattern %q, want %q", i, route.Pattern, patterns[i])
		}
	}
	const none = -1
	tests := []struct {
		method, host, target string
		want                 int
	}{
		{"GET", "h", "/secret-resource", 0},
		{"GET", "h", "/secret%2Dresource", 0},
		{"GET", "h", "/%73ecret-resource?a=b", 0},
		{"GET", "h", "/Secret-resource", none},
		{"GET", "h", "/secret-resource/", none},
		{"GET", "h", "/secret-resource;x", none},
		{"GET", "h", "/secret%252Dresource", none},
		{"POST", "h", "/secret-resource", 0},
		{"PROPFIND", "h", "/secret-resource", 0},
		{"CONNECT", "h", "/secret-resource", none},
		{"", "h", "/secret-resource", none},
		{"GET", "h", "/read", 1},
		{"HEAD", "h", "/read", 1},
		{"DELETE", "h", "/read", 11},
		{"POST", "h", "/read", none},
		{"get", "h", "/read", none},
		{"GET", "h", "/app/", 2},
		{"GET", "h", "/app/x/y", 2},
		{"GET", "h", "/app/admin", 3},
		{"GET", "h", "/app/admin/x", 2},
		{"GET", "h", "/app", 2},
		{"POST", "h", "/%61pp?q=1", 2},
		{"GET", "h", "/apple", none},
		{"GET", "h", "/users/7", 4},
		{"GET", "h", "/users/a%20b", 4},
		{"GET", "h", "/users/", none},
		{"GET", "h", "/users/7/x", none},
		{"GET", "EXAMPLE.org.:8443", "/anything", 5},
		{"GET", "example.org", "/secret-resource", 5},
		{"GET", "sub.example.org", "/anything", none},
		{"GET", "[2001:db8::1]:8443", "/", 6},
		{"GET", "h", "/docs/a/b", 7},
		{"GET", "h", "/docs", 7},
		{"GET", "h", "/end/", 8},
		{"GET", "h", "/end", 8},
		{"GET", "h", "/end/x", none},
		{"GET", "h", "/café", 9},
		{"GET", "h", "/caf%c3%a9", 9},
		{"GET", "h", "/100%25", 10},
		{"GET", "h", "/with%20space", 12},
		{"GET", "h", "/q%3F", 13},
		{"GET", "h", "/q?", none},
		{"POST", "api.example.org", "/write", 15},
		{"GET", "api.example.org", "/write", 14},
		{"GET", "h", "/", none},
	}
	for _, tt := range tests {
		got, ok := table.Match(request(t, tt.method, tt.host, tt.target))
		want := policy.Match{}
		if tt.want != none {
			want = policy.Match{Index: tt.want, Route: table.Routes()[tt.want]}
		}
		if ok != (tt.want != none) || got != want {
			t.Errorf("%s %s%s: got %+v, %t; want %+v", tt.method, tt.host, tt.target, got, ok, want)
		}
	}
}

// A request with a path that ParseTarget does not make matches nothing.
func TestMatchNeedsCanonicalRequest(t *testing.T) {
	t.Parallel()
	table := newTable(t, routes("/", "/a/")...)
	for _, decoded := range []string{"", "a", "*", "//a", "/a/../b", "/."} {
		req := &policy.Request{Method: "GET", Host: "h", Path: policy.Path{Raw: decoded, Decoded: decoded}}
		if m, ok := table.Match(req); ok {
			t.Errorf("%q: %+v, want no match", decoded, m)
		}
	}
	if m, ok := new(policy.Table).Match(request(t, "GET", "h", "/")); ok {
		t.Errorf("zero table: %+v, want no match", m)
	}
}

func TestNewTableErrors(t *testing.T) {
	t.Parallel()
	met, err := compile(t, nil).Policy("policy", []policy.Ref{inline(policy.Spec{Methods: []string{"GET"}})})
	if err != nil {
		t.Fatal(err)
	}
	auth := func(ms ...policy.Mechanism) []policy.Route {
		return []policy.Route{{Pattern: "/", Mechanisms: ms}}
	}
	tests := []struct {
		name   string
		routes []policy.Route
		want   []string
	}{
		{"no routes", nil, nil},
		{"no auth", auth(), []string{"routes[0].auth: no mechanism is accepted"}},
		{"public", auth(policy.None), nil},
		{"none beside another", auth(policy.Basic, policy.None), []string{"routes[0].auth: cannot be combined with another"}},
		{"unknown mechanisms", auth("Basic", "", "bearer"),
			[]string{`routes[0].auth[0]: "Basic" is not a mechanism`, `routes[0].auth[1]: "" is not a mechanism`}},
		{"duplicates", auth(policy.Basic, policy.Session, policy.Basic), []string{`routes[0].auth[2]: "basic" is listed twice`}},
		{"none twice", auth(policy.None, policy.None), []string{`routes[0].auth[1]: "none" is listed twice`}},
		{"a policy on a public route", []policy.Route{{Pattern: "/", Mechanisms: []policy.Mechanism{policy.None}, Policy: met}},
			[]string{"routes[0].policy: a public route has no identities"}},
		{"names", []policy.Route{
			{Name: "a", Pattern: "/1", Mechanisms: session}, {Name: "b", Pattern: "/2", Mechanisms: session},
			{Name: "a", Pattern: "/3", Mechanisms: session}, {Name: "/4", Pattern: "/5", Mechanisms: session}, {Pattern: "/4", Mechanisms: session},
		}, []string{`routes[2].name: routes[0] already has the name "a"`, `routes[4].name: routes[3] already has the name "/4"`}},
		{"everything at once", []policy.Route{{Name: "a", Pattern: "/"}, {Name: "a", Pattern: "x"}},
			[]string{"routes[0].auth: no mechanism", "routes[1].match: has no path", "routes[1].name: already", "routes[1].auth: no mechanism"}},
		{"a pattern twice", routes("/a", "/a"), []string{`routes[1].match: conflicts with "/a" of routes[0]: /a matches the same requests as /a`}},
		{"one pattern in two spellings", routes("Example.org/a", "/b", "example.org./a"),
			[]string{`routes[2].match: "example.org./a": conflicts with "Example.org/a" of routes[0]: `}},
		{"overlap", routes("/x", "/a/{x}", "/{y}/b"),
			[]string{`routes[2].match: "/{y}/b": conflicts with "/a/{x}" of routes[1]: /{y}/b and /a/{x} both match some paths, like "/a/b". But neither is more specific`}},
		{"overlap of methods", routes("GET /", "/a"), []string{`routes[1].match: conflicts with "GET /" of routes[0]: `}},
		{"a refused pattern conflicts with nothing", routes("a", "a"),
			[]string{"routes[0].match: has no path", "routes[1].match: has no path"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			table, err := policy.NewTable(tt.routes)
			if diff := diffErrors(err, tt.want...); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if (table == nil) != (tt.want != nil) {
				t.Errorf("table = %v", table)
			}
			if err != nil && (strings.Contains(err.Error(), ".go:") || strings.Contains(err.Error(), "registered at")) {
				t.Errorf("the message names a place in the source: %v", err)
			}
		})
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	tests := []struct{ pattern, want string }{
		{"", "has no path"},
		{"x", "has no path"},
		{"GET x", "has no path"},
		{" /x", `the method "" is empty`},
		{"get /x", "did you mean GET?"},
		{"G,T /x", `the method "G,T" is not a method`},
		{"/a b", `the method "/a" is not a method`},
		{"CONNECT /x", "CONNECT is never forwarded"},
		{"h:80/x", `the host has the port ":80"`},
		{"h:/x", `the host has the port ":"`},
		{"[::1]:80/x", `the host has the port ":80"`},
		{"[::1/x", "unclosed bracket"},
		{"[::g]/x", "no IPv6 address"},
		{"a@b/x", "the host may hold"},
		{"hôst/x", "the host may hold"},
		{"..h/x", "empty label"},
		{"{h}/x", "the host may hold"},
		{"//x", "can never match: the path holds an empty segment"},
		{"/a//b", "can never match: the path holds an empty segment"},
		{"/a/./b", "can never match: the path holds a segment"},
		{"/a/..;x/b", "can never match: the path holds a segment"},
		{"/a/%2e%2E", "can never match: the path holds a segment"},
		{"/a%2Fb", "can never match: the path holds an encoded slash"},
		{"/a%252Fb", "can never match: the path holds a slash or backslash that is encoded more than once"},
		{`/a\b`, "can never match: the path holds a backslash"},
		{"/a%00", "can never match: the path holds a control character"},
		{"/\xff", "can never match: the path is not valid UTF-8"},
		{"/100%", "write %25"},
		{"/a?b", "no query"},
		{"/a#b", "no fragment"},
		{"/{x}/{x}", `duplicate wildcard name "x"`},
		{"/{}", "empty wildcard"},
		{"/a{x}", "must start with '{'"},
		{"/{x}a", "must end with '}'"},
		{"/{x...}/a", "wildcard not at end"},
		{"/{$}/a", "{$} not at end"},
		{"/{a-b}", `bad wildcard name "a-b"`},
	}
	for _, tt := range tests {
		_, err := policy.NewTable(routes(tt.pattern))
		if diff := diffErrors(err, "routes[0].match: "+tt.want); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.pattern, diff)
		}
		if err != nil && strings.Contains(err.Error(), "at offset") { // of a pattern that this package composed
			t.Errorf("%q: the offset in %q misleads", tt.pattern, err)
		}
	}
}

// A policy that many references reach is described once.
func TestNewTableOfDeepPolicies(t *testing.T) {
	t.Parallel()
	specs := map[string]*policy.Spec{"0": {Roles: []string{"admin"}}}
	for i := range 64 {
		specs[strconv.Itoa(i+1)] = &policy.Spec{All: names(strconv.Itoa(i), strconv.Itoa(i))}
	}
	route := policyRoute(t, specs, names("64")...)
	d := route.Decide(&policy.Identity{Mechanism: policy.Session}, request(t, "GET", "h", "/"))
	if d.Outcome != policy.Forbid || d.Rule != "policy 0: roles" {
		t.Errorf("got %+v", d)
	}
}

// A table does not share memory with the routes of NewTable.
func TestTableCopiesRoutes(t *testing.T) {
	t.Parallel()
	mine := []policy.Route{{Name: "r", Pattern: "/", Mechanisms: []policy.Mechanism{policy.Session}}}
	table := newTable(t, mine...)
	mine[0].Name, mine[0].Mechanisms[0] = "other", policy.None
	m, ok := table.Match(request(t, "GET", "h", "/"))
	if !ok || m.Route.Name != "r" || m.Route.Public() {
		t.Errorf("got %+v, %t", m.Route, ok)
	}
}

// What an upstream may drop from a path must not select the route.
func TestCheckParameters(t *testing.T) {
	t.Parallel()
	table := newTable(t, routes("/", "/admin/", "/files/{name}", "GET /read/")...)
	for path, passes := range map[string]bool{
		"/":                    true,
		"/page;v=1":            true,
		"/page;v=1/more;w":     true,
		"/a/;/b":               true,
		"/;":                   true,
		"/admin/;x":            true,
		"/admin/page;x=y":      true,
		"/files/a;b":           true,
		"/admin;x=y/secrets":   false,
		"/admin;/secrets":      false,
		"/;x/admin/secrets":    false,
		"/;x/;y/admin/secrets": false,
		"/a;admin/secrets":     true,
		"/files;x/a":           false,
		"/read;x/a":            false,
		"/admin;x":             false,
		"/nothing;/admin/":     true,
	} {
		req := &policy.Request{Method: "GET", Host: "gw.example", Path: policy.Path{Raw: path, Decoded: path}}
		found, ok := table.Match(req)
		if !ok {
			t.Fatalf("%s: no route", path)
		}
		if err := table.CheckParameters(req, found); (err == nil) != passes {
			t.Errorf("%s, which matches %s: %v, want it to pass: %v", path, found.Route.Pattern, err, passes)
		}
	}
}
