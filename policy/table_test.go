package policy_test

import (
	"errors"
	"slices"
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
	tests := []struct {
		pattern  string
		requests []string
	}{
		{"/secret-resource", []string{
			"GET h/secret-resource", "GET h/secret%2Dresource", "GET h/%73ecret-resource?a=b",
			"POST h/secret-resource", "PROPFIND h/secret-resource",
		}},
		{"GET /read", []string{"GET h/read", "HEAD h/read"}},
		{"DELETE\t/read", []string{"DELETE h/read"}},
		{"/app/", []string{"GET h/app/", "GET h/app/x/y", "GET h/app/admin/x", "GET h/app", "POST h/%61pp?q=1"}},
		{"/app/admin", []string{"GET h/app/admin"}},
		{"/users/{id}", []string{"GET h/users/7", "GET h/users/a%20b"}},
		{"Example.ORG./", []string{"GET EXAMPLE.org.:8443/anything", "GET example.org/secret-resource"}},
		{"[2001:DB8:0::1]/", []string{"GET [2001:db8::1]:8443/"}},
		{"/docs/{rest...}", []string{"GET h/docs/a/b", "GET h/docs"}},
		{"/end/{$}", []string{"GET h/end/", "GET h/end"}},
		{"/caf%C3%A9", []string{"GET h/café", "GET h/caf%c3%a9"}},
		{"/100%25", []string{"GET h/100%25"}},
		{"GET /with space", []string{"GET h/with%20space"}},
		{"/q%3F", []string{"GET h/q%3F"}},
		{"api.example.org/", []string{"GET api.example.org/write"}},
		{"POST api.example.org/write", []string{"POST api.example.org/write"}},
		{"", []string{
			"GET h/Secret-resource", "GET h/secret-resource/", "GET h/secret-resource;x", "GET h/secret%252Dresource",
			"CONNECT h/secret-resource", " h/secret-resource", "POST h/read", "get h/read", "GET h/apple",
			"GET h/users/", "GET h/users/7/x", "GET sub.example.org/anything", "GET h/end/x", "GET h/q?", "GET h/",
		}},
	}
	var patterns []string
	for _, c := range tests[:len(tests)-1] {
		patterns = append(patterns, c.pattern)
	}
	table := newTable(t, routes(patterns...)...)
	for i, c := range tests {
		for _, r := range c.requests {
			method, rest, _ := strings.Cut(r, " ")
			slash := strings.Index(rest, "/")
			got, ok := table.Match(request(t, method, rest[:slash], rest[slash:]))
			if c.pattern == "" {
				if ok || got != (policy.Match{}) {
					t.Errorf("%s: got %+v, want no match", r, got)
				}
			} else if !ok || got.Index != i || got.Route != table.Routes()[i] || got.Route.Pattern != c.pattern {
				t.Errorf("%s: got %+v, %t; want %s", r, got, ok, c.pattern)
			}
		}
	}
}

// The first label of a host may be a wildcard for one label. The host itself wins over
// it, and it wins over no host, whatever the paths are.
func TestWildcardHosts(t *testing.T) {
	t.Parallel()
	patterns := []string{
		"/", "/deep/path", "*.Apps.example./", "a.apps.example/only",
		"POST *.apps.example/only", "*.apps.example/dir/", "*.b.apps.example/", "*.test/",
	}
	table := newTable(t, routes(patterns...)...)
	for asked, want := range map[string]string{
		"GET a.apps.example/":            "*.Apps.example./",
		"GET B.apps.EXAMPLE.:1/x":        "*.Apps.example./",
		"GET b.apps.example/":            "*.Apps.example./",
		"GET x_y.apps.example/deep/path": "*.Apps.example./",
		"GET a.apps.example/only":        "a.apps.example/only",
		"POST a.apps.example/only":       "a.apps.example/only",
		"POST c.apps.example/only":       "POST *.apps.example/only",
		"GET c.apps.example/only":        "*.Apps.example./",
		"GET c.apps.example/dir":         "*.apps.example/dir/",
		"GET a.b.apps.example/":          "*.b.apps.example/",
		"GET a.c.apps.example/":          "/",
		"GET apps.example/":              "/",
		"GET xapps.example/":             "/",
		"GET apps.example.evil/":         "/",
		"GET *.apps.example/":            "", // no host
		"GET a.test/":                    "*.test/",
		"GET test/deep/path":             "/deep/path",
		"GET [2001:db8::1]/":             "/",
		"GET 192.0.2.1/":                 "/",
	} {
		method, rest, _ := strings.Cut(asked, " ")
		slash := strings.Index(rest, "/")
		if want == "" {
			if host, err := policy.CanonicalHost(rest[:slash]); err == nil {
				t.Errorf("%s: the host is %q", asked, host)
			}
			continue
		}
		if got, ok := table.Match(request(t, method, rest[:slash], rest[slash:])); !ok || got.Route.Pattern != want {
			t.Errorf("%s: got %+v, %t; want %s", asked, got, ok, want)
		}
	}
	for pattern, want := range map[string]string{
		"*.Apps.example./x": "*.apps.example", "GET *.h/": "*.h", "*/": "", "a.*/": "", "*.0.2.1/": "", "/": "",
		"h": "", "h:80/": "", " h/": "", "GET\t h/": "h",
	} {
		if got := policy.PatternHost(pattern); got != want {
			t.Errorf("PatternHost(%q) is %q, want %q", pattern, got, want)
		}
	}
	_, err := policy.NewTable(routes("*.h/a", "*.H./a", "x.h/{y}/b", "*.h/a/{z}"))
	if diff := diffErrors(err, `routes[1].match: "*.H./a": conflicts with "*.h/a" of routes[0]: `); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWildcardHostAllocatesNothing(t *testing.T) {
	table := newTable(t, routes("*.apps.example/")...)
	q := &policy.Request{
		Method: "GET", Host: "a-long-name-for-a-host-of-an-application.apps.example", Path: policy.Path{Decoded: "/x"},
	}
	if n := testing.AllocsPerRun(100, func() { table.Match(q) }); n != 0 {
		t.Errorf("%v allocations", n)
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
	met := policyRoute(t, nil, inline(spec{Methods: []string{"GET"}})).Policy
	auth := func(ms ...policy.Mechanism) []policy.Route { return []policy.Route{{Pattern: "/", Mechanisms: ms}} }
	named := func(name, pattern string) policy.Route {
		return policy.Route{Name: name, Pattern: pattern, Mechanisms: session}
	}
	for _, c := range []struct {
		name   string
		routes []policy.Route
		want   []string
	}{
		{"no routes", nil, nil},
		{"public", auth(policy.None), nil},
		{"no auth", auth(), []string{"routes[0].auth: no mechanism is accepted"}},
		{"none after another", auth(policy.Basic, policy.None), nil},
		{"none before another", auth(policy.None, policy.Basic),
			[]string{"routes[0].auth[0]: it comes after all mechanisms"}},
		{"unknown", auth("Basic", "", "bearer"),
			[]string{`routes[0].auth[0]: "Basic" is not a mechanism`, `routes[0].auth[1]: "" is not a mechanism`}},
		{"duplicates", auth(policy.Basic, policy.Session, policy.Basic),
			[]string{`routes[0].auth[2]: "basic" is listed twice`}},
		{"none twice", auth(policy.None, policy.None), []string{`routes[0].auth[1]: "none" is listed twice`}},
		{"a policy on a public route",
			[]policy.Route{{Pattern: "/", Mechanisms: []policy.Mechanism{policy.None}, Policy: met}},
			[]string{"routes[0].policy: a public route has no identities"}},
		{"names", []policy.Route{named("a", "/1"), named("b", "/2"), named("a", "/3"), named("/4", "/5"), named("", "/4")},
			[]string{`routes[2].name: routes[0] already has the name "a"`,
				`routes[4].name: routes[3] already has the name "/4"`}},
		{"everything at once", []policy.Route{{Name: "a", Pattern: "/"}, {Name: "a", Pattern: "x"}},
			[]string{"routes[0].auth: no mechanism", "routes[1].match: has no path",
				"routes[1].name: already", "routes[1].auth: no mechanism"}},
		{"a pattern twice", routes("/a", "/a"),
			[]string{`routes[1].match: conflicts with "/a" of routes[0]: /a matches the same requests as /a`}},
		{"two spellings", routes("Example.org/a", "/b", "example.org./a"),
			[]string{`routes[2].match: "example.org./a": conflicts with "Example.org/a" of routes[0]: `}},
		{"overlap", routes("/x", "/a/{x}", "/{y}/b"),
			[]string{`routes[2].match: "/{y}/b": conflicts with "/a/{x}" of routes[1]: ` +
				`/{y}/b and /a/{x} both match some paths, like "/a/b". But neither is more specific`}},
		{"overlap of methods", routes("GET /", "/a"), []string{`routes[1].match: conflicts with "GET /" of routes[0]: `}},
		{"a refused pattern twice", routes("a", "a"),
			[]string{"routes[0].match: has no path", "routes[1].match: has no path"}},
	} {
		table, err := policy.NewTable(c.routes)
		if diff := diffErrors(err, c.want...); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if (table == nil) != (c.want != nil) {
			t.Errorf("%s: table %v", c.name, table)
		}
		if err != nil && (strings.Contains(err.Error(), ".go:") || strings.Contains(err.Error(), "registered at")) {
			t.Errorf("%s: the message names a place in the source: %v", c.name, err)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	for want, patterns := range map[string][]string{
		"has no path":                      {"", "x", "GET x"},
		"write it without: h.example/x":    {"https://h.example/x", "GET http://h.example/x"},
		`the method "" is empty`:           {" /x"},
		"did you mean GET?":                {"get /x"},
		`the method "G,T" is not a method`: {"G,T /x"},
		`the method "/a" is not a method`:  {"/a b"},
		"CONNECT is never forwarded":       {"CONNECT /x"},
		`the host has the port ":80"`:      {"h:80/x", "[::1]:80/x"},
		`the host has the port ":"`:        {"h:/x"},
		"unclosed bracket":                 {"[::1/x"},
		"no IPv6 address":                  {"[::g]/x"},
		"the host may hold":                {"a@b/x", "{h}/x"},
		"write it as xn--hst-kna.example":  {"hôst.example/x", "GET *.hôst.example/x", "HÔST.example/x"},
		"a * that is not its whole first label": {
			"*/x", "a.*.h/x", "a*.h/x", "*a.h/x", "*.*.h/x", "**.h/x", "h.*/x", "[*]/x",
		},
		"a * before an address":                        {"*.0.2.1/x", "*.1/x"},
		"empty label":                                  {"..h/x"},
		"can never match: the path holds an empty":     {"//x", "/a//b"},
		"can never match: the path holds a segment":    {"/a/./b", "/a/..;x/b", "/a/%2e%2E"},
		"can never match: the path holds an encoded":   {"/a%2Fb"},
		"slash or backslash that is encoded more":      {"/a%252Fb"},
		"can never match: the path holds a backslash":  {`/a\b`},
		"can never match: the path holds a control":    {"/a%00"},
		"can never match: the path is not valid UTF-8": {"/\xff"},
		"write %25":                              {"/100%"},
		"a pattern has no query and no fragment": {"/a?b", "/a#b"},
		`duplicate wildcard name "x"`:            {"/{x}/{x}"},
		"empty wildcard":                         {"/{}"},
		"must start with '{'":                    {"/a{x}"},
		"must end with '}'":                      {"/{x}a"},
		"wildcard not at end":                    {"/{x...}/a"},
		"{$} not at end":                         {"/{$}/a"},
		`bad wildcard name "a-b"`:                {"/{a-b}"},
	} {
		for _, pattern := range patterns {
			_, err := policy.NewTable(routes(pattern))
			if diff := diffErrors(err, "routes[0].match: "+want); diff != "" {
				t.Errorf("%q (-want +got):\n%s", pattern, diff)
			}
			if err != nil && strings.Contains(err.Error(), "at offset") { // of a pattern that this package composed
				t.Errorf("%q: the offset in %q misleads", pattern, err)
			}
		}
	}
}

// What an upstream may drop from a path must not select the route.
func TestCheckParameters(t *testing.T) {
	t.Parallel()
	table := newTable(t, routes("/", "/admin/", "/files/{name}", "GET /read/")...)
	good := []string{
		"/", "/page;v=1", "/page;v=1/more;w", "/a/;/b", "/;", "/admin/;x", "/admin/page;x=y",
		"/files/a;b", "/a;admin/secrets", "/nothing;/admin/", "/nothing;/%3B",
	}
	bad := []string{
		"/admin;x=y/secrets", "/admin;/secrets", "/;x/admin/secrets",
		"/;x/;y/admin/secrets", "/files;x/a", "/read;x/a", "/admin;x", "/files;/%3B",
	}
	for _, path := range slices.Concat(good, bad) {
		req := request(t, "GET", "gw.example", path)
		if _, err := table.Find(req); (err == nil) != slices.Contains(good, path) || errors.Is(err, policy.ErrNoRoute) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What a server that decodes a path twice, or until nothing is left to decode, reads must
// not select the route either. What stays in its route passes.
func TestCheckDecoding(t *testing.T) {
	t.Parallel()
	table := newTable(t, routes("/", "/admin/", "/files/{name}", "GET /read/", "/exact", "/%2561/")...)
	good := []string{
		"/", "/100%25", "/x/%2561dmin/", "/admin/%2561", "/files/%2561", "/a%252500", "/%25zz/x", "/%25", "/x%253Ba",
	}
	bad := []string{
		"/%2561dmin", "/%2561dmin/x", "/admi%256e/", "/e%2578act", "/file%2573/x", "/r%2565ad/",
		"/%252561dmin/", "/%25252561dmin/", "/%25%36%31dmin/", "/%2561", "/%2561/x", "/admin%253Bx/y", "/%2561dmin%253Bx/y",
	}
	for _, path := range slices.Concat(good, bad) {
		req := request(t, "GET", "gw.example", path)
		if _, err := table.Find(req); (err == nil) != slices.Contains(good, path) || errors.Is(err, policy.ErrNoRoute) {
			t.Errorf("%s: %v", path, err)
		}
	}
	only := newTable(t, routes("/{name}")...)
	req := request(t, "GET", "gw.example", "/%2561")
	if _, err := only.Find(req); err != nil {
		t.Error("/%2561 does not stay in /{name}")
	}
	exact := newTable(t, routes("/admin")...) // no route has the path as it came
	if _, err := exact.Find(request(t, "GET", "gw.example", "/%2561dmin")); !errors.As(err, new(*policy.TargetError)) {
		t.Errorf("/%%2561dmin beside /admin alone: %v, want that it is refused", err)
	}
	if _, err := exact.Find(request(t, "GET", "gw.example", "/%2562")); !errors.Is(err, policy.ErrNoRoute) {
		t.Errorf("/%%2562 beside /admin alone: %v, want no route", err)
	}
}
