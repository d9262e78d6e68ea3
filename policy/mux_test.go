package policy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/policy"
)

// muxTable is a table made of a http.ServeMux, whose rules a policy.Table keeps.
// It is the reference for FuzzTableLikeServeMux.
type muxTable struct {
	mux      *http.ServeMux
	patterns []string // by route; empty if refused
	refused  []string // the errors, as of policy.NewTable
}

// muxRoute is the index of a route as a handler.
type muxRoute int

func (muxRoute) ServeHTTP(http.ResponseWriter, *http.Request) {}

// register adds a pattern to mux, which panics if it refuses one.
func register(mux *http.ServeMux, pattern string, i muxRoute) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = p.(error)
		}
	}()
	mux.Handle(pattern, i)
	return nil
}

func newMuxTable(patterns []string) *muxTable {
	m := &muxTable{mux: http.NewServeMux()}
	for i, pattern := range patterns {
		err := register(m.mux, pattern, muxRoute(i))
		if err != nil {
			m.refused = append(m.refused, fmt.Sprintf("routes[%d].match: %q: %s", i, pattern, m.why(pattern, err)))
			pattern = ""
		}
		m.patterns = append(m.patterns, pattern)
	}
	return m
}

// why returns the conflict with the first pattern, or the innermost cause.
func (m *muxTable) why(pattern string, err error) string {
	for i, other := range m.patterns {
		if other == "" {
			continue
		}
		pair := http.NewServeMux()
		pair.Handle(other, muxRoute(0))
		if conflict := register(pair, pattern, 0); conflict != nil {
			if _, why, found := strings.Cut(conflict.Error(), "\n"); found {
				return fmt.Sprintf("conflicts with %q of routes[%d]: %s", other, i, strings.ReplaceAll(why, "\n", " "))
			}
		}
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return err.Error()
}

// match returns the route of a request, following a redirect from "/app" to
// "/app/".
func (m *muxTable) match(req *policy.Request) (int, bool) {
	lookup := func(path string) (http.Handler, string) {
		return m.mux.Handler(&http.Request{Method: req.Method, Host: req.Host, URL: &url.URL{Path: path}})
	}
	handler, pattern := lookup(req.Path.Decoded)
	if _, ok := handler.(muxRoute); !ok && pattern != "" {
		handler, _ = lookup(req.Path.Decoded + "/")
	}
	i, ok := handler.(muxRoute)
	return int(i), ok
}

// patterns returns up to n patterns with canonical hosts, some of them invalid.
func (d *dice) patterns(n int) []string {
	var patterns []string
	for range 1 + d.roll(n) {
		var path strings.Builder
		for range d.roll(5) {
			path.WriteString("/" + d.one("a", "a", "b", "b", "x", "%61", "a%20b", "{x}", "{x}", "{y}", "{z}",
				"{x...}", "{$}", "{", "a{x}", "{x}a", "{}", "{...}", "{x-y}", "{$...}"))
		}
		path.WriteString(d.one("", "", "/", "/", "/{$}", "/{rest...}"))
		if path.Len() == 0 {
			path.WriteByte('/')
		}
		patterns = append(patterns, d.one("", "", "", "", "GET ", "HEAD ", "POST ")+
			d.one("", "", "", "h.example", "other.example", "[::1]")+path.String())
	}
	return patterns
}

// A table refuses the patterns that a http.ServeMux refuses, for the same reasons,
// and finds the same route for every request.
func FuzzTableLikeServeMux(f *testing.F) {
	addThrows(f, 2000, 200, [32]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		patterns := d.patterns(16)
		named := routes(patterns...)
		for i := range named {
			named[i].Name = strconv.Itoa(i)
		}
		mux := newMuxTable(patterns)
		_, err := policy.NewTable(named)
		var refused []string
		if all, ok := errors.AsType[policy.Errors](err); ok {
			for _, one := range all {
				refused = append(refused, one.Error())
			}
		}
		if !slices.Equal(refused, mux.refused) {
			t.Fatalf("%q:\nthe table refuses     %q,\na ServeMux would have %q", patterns, refused, mux.refused)
		}

		accepted := slices.DeleteFunc(mux.patterns, func(p string) bool { return p == "" })
		table, mux := newTable(t, routes(accepted...)...), newMuxTable(accepted)
		for range 1 + d.roll(20) {
			var target strings.Builder
			for range 1 + d.roll(5) {
				target.WriteString("/" + d.one("a", "a", "b", "b", "x", "c", "a%20b", "%61", "%257bx%257d"))
			}
			target.WriteString(d.one("", "", "/"))
			req := request(t, d.one("GET", "HEAD", "POST", "PUT", "CONNECT"),
				d.one("h.example", "h.example", "other.example", "[::1]", "unknown.example"),
				d.one(target.String(), target.String(), "/"))
			want, ok := mux.match(req)
			if req.Method == http.MethodConnect {
				want, ok = 0, false
			}
			if got, found := table.Match(req); found != ok || found && got.Index != want {
				t.Fatalf("of %q, %s %s%s has the route %+v, %t; a ServeMux finds %d, %t",
					accepted, req.Method, req.Host, req.Path.Raw, got, found, want, ok)
			}
		}
	})
}

// manyRoutes returns n routes as a configuration of many applications has them.
func manyRoutes(n int) []policy.Route {
	var patterns []string
	for i := 0; len(patterns) < n; i++ {
		app := fmt.Sprintf("/app-%d", i)
		patterns = append(patterns,
			app+"/", "GET "+app+"/assets/", app+"/admin", app+"/users/{id}/keys", app+"/files/{path...}", app+"/{$}",
			fmt.Sprintf("app-%d.example.org/", i), fmt.Sprintf("app-%d.example.org/admin/", i),
			fmt.Sprintf("POST app-%d.example.org/api/{id}", i), fmt.Sprintf("reports-%d.example.org/{tenant}/{year}", i))
	}
	return routes(patterns[:n]...)
}

// A lookup allocates nothing, in a large table too.
func TestMatchAllocatesNothing(t *testing.T) {
	table := newTable(t, manyRoutes(1000)...)
	for _, r := range [][3]string{
		{"GET", "h.example", "/app-7/page"},
		{"GET", "h.example", "/app-7"},
		{"HEAD", "h.example", "/app-9/assets/a/b/c.js"},
		{"PUT", "h.example", "/app-9/users/7/keys"},
		{"POST", "app-8.example.org", "/api/8"},
		{"GET", "h.example", "/nothing/here"},
	} {
		req := request(t, r[0], r[1], r[2])
		if n := testing.AllocsPerRun(100, func() { table.Match(req) }); n != 0 {
			t.Errorf("%v: %v allocations", r, n)
		}
	}
}

func BenchmarkNewTable(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		many := manyRoutes(n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := policy.NewTable(many); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	table, err := policy.NewTable(manyRoutes(10_000))
	if err != nil {
		b.Fatal(err)
	}
	for name, target := range map[string]string{
		"app": "/app-77/page/of/it", "slash": "/app-77", "wildcard": "/app-77/users/7/keys", "literal": "/app-77/admin",
	} {
		b.Run(name, func(b *testing.B) {
			path, err := policy.ParseTarget(target)
			if err != nil {
				b.Fatal(err)
			}
			req := &policy.Request{Method: "GET", Host: "h.example", Path: path}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := table.Match(req); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}
