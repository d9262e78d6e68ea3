package policy_test

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"

	"authgate/policy"
)

func TestParseTargetWithSlashes(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]policy.Path{
		"/@scope%2fname":  {Decoded: "/@scope%2Fname", Slashed: "/@scope/name"},
		"/%40s%2Fn/a%20b": {Decoded: "/@s%2Fn/a b", Slashed: "/@s/n/a b"},
		"/a%2Fb%2fc/":     {Decoded: "/a%2Fb%2Fc/", Slashed: "/a/b/c/"},
		"/a/b%25":         {Decoded: "/a/b%"},
		"/a%2Fb%25":       {Decoded: "/a%2Fb%", Slashed: "/a/b%"},
		"/%C3%A9%2Fé":     {Decoded: "/é%2Fé", Slashed: "/é/é"},
		"/%2F":            {Decoded: "/%2F", Slashed: "//"},
		"/a%2F":           {Decoded: "/a%2F", Slashed: "/a/"},
		"/q/%2F/a%2f%2Fb": {Decoded: "/q/%2F/a%2F%2Fb", Slashed: "/q///a//b"},
	} {
		want.Raw = target
		if got, err := policy.ParseTargetWithSlashes(target); err != nil || got != want {
			t.Errorf("%q = %+v, %v; want %+v", target, got, err, want)
		}
	}
	for _, target := range []string{
		"/..%2Fa", "/a%2F..", "/a%2F.", "/a%2f..%2Fb", "/a%2F..;x/b", "/a%2F%2e%2e/b", "/a%2F%252e%252e/b", "/.%2Fa",
		"/a%252Fb", "/a%2F%252Fb", "/a%2Fb%5Cc", "/a%2F%5c", "/a%2Fb%00",
		"/a%2Fb//c", "/a%2Fb#c", "%2Fa", "/a%2Fb%ff", "/a%2",
	} {
		if got, err := policy.ParseTargetWithSlashes(target); !errors.As(err, new(*policy.TargetError)) ||
			got != (policy.Path{}) {
			t.Errorf("%q = %+v, %v; want that it is refused", target, got, err)
		}
	}
}

// An encoded slash beside another slash passes below one route, and is refused if the path leads elsewhere with
// the empty segments or without them.
func TestEncodedSlashAsSegment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target   string
		patterns []string
		passes   bool
	}{
		{"/api/queues/%2F/q", []string{"/api/"}, true},
		{"/api/queues/%2F", []string{"/api/", "/"}, true},
		{"/api/%2F%2Fq%2F", []string{"/api/"}, true},
		{"/api/queues/%2F/q", []string{"/api/", "/api/queues/q"}, false},        // merged
		{"/api/%2Fq", []string{"/api/", "/api/{host}/{queue}"}, false},          // not merged
		{"/api/queues/%2F/q", []string{"/api/", "/api/queues/{host}/q"}, false}, // kept
		{"/api/queues/%2F/q", []string{"/api/queues/{host}/q"}, false},          // to none
		{"/api/%2F%2561dmin", []string{"/api/", "/api/admin"}, false},           // decoded again
		{"/api/%2F;x/admin", []string{"/api/", "/api/admin"}, false},            // without parameters
		{"/;a%2Fb%3B", []string{"/", "/{x}/b/"}, false},                         // to //b, not merged
		{"/;a/b/%2Fc", []string{"/", "/b/{x}/c/"}, false},                       // to /b//c
		{"/a%2F%2561;%2Fc", []string{"/", "/{x}/a/{$}"}, false},                 // to /a%2Fa, then /a/a
	} {
		all := routes(c.patterns...)
		for i := range all {
			all[i].EncodedSlashes = policy.KeptSlashes
		}
		if _, ok := find(newTable(t, all...), c.target); ok != c.passes {
			t.Errorf("%q with %q passes: %t, want %t", c.target, c.patterns, ok, c.passes)
		}
	}
}

// slashTables are tables in which a slash more or less can lead to another route.
func slashTables(t testing.TB) []*policy.Table {
	t.Helper()
	var tables []*policy.Table
	for _, patterns := range [][]string{
		{"/"},
		{"/", "/admin/"},
		{"/{x}", "/admin/{y}", "/a/{x}/b"},
		{"/{x}/", "/{x}/admin/", "/a/b/{$}"},
		{"/{x}", "/{x}/{y}", "/admin/{y}"},
		{"/", "/a/{x}", "/a/admin", "/admin"},
		{"/a/", "/a/admin/{rest...}", "/admin/a"},
	} {
		all := routes(patterns...)
		for i := range all {
			all[i].EncodedSlashes = policy.KeptSlashes
		}
		tables = append(tables, newTable(t, all...))
	}
	return tables
}

// find returns the route of a target as the gateway finds it, false if it refuses
// the target.
func find(table *policy.Table, target string) (policy.Match, bool) {
	p, err := policy.ParseTargetWithSlashes(target)
	if err != nil {
		return policy.Match{}, false
	}
	found, err := table.Find(&policy.Request{Method: "GET", Host: "h", Path: p})
	return found, err == nil
}

// readings returns how servers read the path of a target: as segments, in which
// what is no separator is written as "%2F".
func readings(target string) map[string]string {
	raw, _, _ := strings.Cut(target, "?")
	r := map[string]string{}
	if u, err := url.ParseRequestURI(target); err == nil {
		r["net/url, Path"] = normal(u.Path)
		r["net/url, EscapedPath by segments"] = bySegments(u.EscapedPath(), decodeLeniently)
	}
	parsed := whatwg(raw)
	r["WHATWG, then segments decoded"] = bySegments(parsed, decodeLeniently)
	r["WHATWG, then the path decoded"] = normal(decodeLeniently(parsed))
	decoded := decodeLeniently(raw)
	r["WSGI and CGI, PATH_INFO"] = normal(decoded)
	twice := func(s string) string { return decodeLeniently(decodeLeniently(s)) }
	r["the same, decoded twice"] = normal(twice(raw))
	r["the same, decoded three times"] = normal(decodeLeniently(twice(raw)))
	r["segments decoded twice"] = bySegments(raw, twice)
	r["decoded twice and then parameters cut"] = normal(withoutParameters(twice(raw)))
	r["servlet, parameters cut and then decoded"] = normal(decodeLeniently(withoutParameters(raw)))
	r["servlet, decoded and then parameters cut"] = normal(withoutParameters(decoded))
	r["servlet, decoded by segments without parameters"] = bySegments(withoutParameters(raw), decodeLeniently)
	r["servlet, segments decoded and then parameters cut"] = bySegments(raw, func(segment string) string {
		segment, _, _ = strings.Cut(decodeLeniently(segment), ";")
		return segment
	})
	return r
}

// normal merges slashes and resolves dot segments, as servers do. Backslashes are
// slashes to some.
func normal(p string) string {
	p = strings.ReplaceAll(p, `\`, "/")
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// bySegments decodes the segments of a raw path one by one.
func bySegments(raw string, decode func(string) string) string {
	segments := strings.Split(raw, "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(decode(s), "/", "%2F")
	}
	return normal(strings.Join(segments, "/"))
}

// whatwg resolves dot segments by the WHATWG URL standard, section 4.4 (path
// state).
func whatwg(raw string) string {
	var out []string
	segments := strings.Split(strings.ReplaceAll(raw, `\`, "/"), "/")[1:]
	for i, s := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case "..":
			out = out[:max(0, len(out)-1)]
			if last {
				out = append(out, "")
			}
		case ".":
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}

// checkReadings fails the test if a server reads the target as the path of another
// route than the one whose policy the gateway applies. It returns how many tables accept the target.
func checkReadings(t *testing.T, tables []*policy.Table, target string) (accepted int) {
	t.Helper()
	servers := map[string]string{} // by what they read
	for _, table := range tables {
		found, ok := find(table, target)
		if !ok {
			continue
		}
		if accepted++; accepted == 1 {
			for server, reading := range readings(target) {
				servers[reading] = server
			}
		}
		for reading, server := range servers {
			req := &policy.Request{Method: "GET", Host: "h", Path: policy.Path{Raw: reading, Decoded: reading}}
			if other, ok := table.Match(req); !ok || other.Index != found.Index {
				t.Errorf("%q is decided by %s, but %s reads %q, which is for %v",
					target, found.Route.Pattern, server, reading, other.Route)
			}
		}
	}
	return accepted
}

// No short path with encoded slashes, dots, parameters and double encodings reaches
// a route around its policy, whichever server reads it.
func TestSlashesOfAllReadings(t *testing.T) {
	t.Parallel()
	tables := slashTables(t)
	parts := []string{
		"/", "%2F", "a", "admin", ".", "..", ";", ";x", "%252F", "%25", "%5C", "%2561", "61", "%253B",
	}
	accepted := 0
	var try func(target string, left int)
	try = func(target string, left int) {
		accepted += checkReadings(t, tables, target)
		if left == 0 || t.Failed() {
			return
		}
		for _, part := range parts {
			try(target+part, left-1)
		}
	}
	try("/", 4)
	parts = append(parts, "%2f", "b", "%2e", "%3B")
	try("/", 3)
	if accepted < 1000 {
		t.Errorf("only %d paths are accepted; the test shows nothing", accepted)
	}
}

// No server reads a path with encoded slashes as that of another route.
func FuzzSlashes(f *testing.F) {
	for _, s := range []string{
		"/@scope%2fname", "/a%2Fadmin", "/admin%2Fx", "/a/b%2Fc?d%2F..", "/a%2F..%2Fadmin", "/a%2F%2e%2e/admin",
		"/x;a%2Fadmin", "/a;%2Fadmin/", "/a%2Fb;c/d", "/a%252Fadmin", "/a%2F;/admin", "/;%2Fadmin",
		"/a%2F%3Badmin", "/a%25%32%46b", "/a%2Fb%5c..", "/%61%2Fb/", "/a%2F0;%2F0", "/a%2F0%3B%2F0;",
		"/%2561dmin/", "/a/%2561dmin", "/a%2F%2561dmin", "/%252561", "/x%253Ba/admin", "/%2561%2Fb",
	} {
		f.Add(s)
	}
	tables := slashTables(f)
	f.Fuzz(func(t *testing.T, target string) {
		plain, plainErr := policy.ParseTarget(target)
		p, err := policy.ParseTargetWithSlashes(target)
		if plainErr == nil && (err != nil || p != plain || p.Slashed != "") {
			t.Errorf("%q without encoded slashes: %+v, %v; want %+v", target, p, err, plain)
		}
		if err != nil {
			return
		}
		if p.Slashed != "" {
			raw := strings.NewReplacer("%2F", "/", "%2f", "/").Replace(p.Raw)
			for strings.Contains(raw, "//") {
				raw = strings.ReplaceAll(raw, "//", "/")
			}
			as, err := policy.ParseTarget(raw)
			if plainErr == nil || err != nil || normal(as.Decoded) != normal(p.Slashed) {
				t.Errorf("%q with slashes: %+v, %v; want %q", target, as, err, p.Slashed)
			}
			if strings.ReplaceAll(p.Decoded, "%2F", "/") != p.Slashed {
				t.Errorf("%q: %+v, whose readings differ in more than slashes", target, p)
			}
		}
		checkReadings(t, tables, target)
	})
}
