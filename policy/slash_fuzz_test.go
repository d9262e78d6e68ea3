package policy_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authgate/policy"
)

// A path without a slash at its end matches the route to which a http.ServeMux
// leads, with or without a redirect.
func FuzzSlashLikeServeMux(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for range 300 {
		seed := make([]byte, 40)
		random.Read(seed) // never fails
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		var patterns []string
		for range 1 + d.roll(6) {
			var path strings.Builder
			for range d.roll(4) {
				path.WriteString("/" + d.one("a", "b", "{x}", "{y}"))
			}
			path.WriteString(d.one("", "/", "/", "/{$}", "/{rest...}"))
			pattern := d.one("", "", "", "GET ", "POST ") + d.one("", "", "h.example") + path.String()
			if _, err := policy.NewTable(routes(append(patterns, pattern)...)); err == nil {
				patterns = append(patterns, pattern)
			}
		}
		table := newTable(t, routes(patterns...)...)
		mux := http.NewServeMux()
		for _, pattern := range patterns {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Pattern", pattern) })
		}
		var target strings.Builder
		for range 1 + d.roll(4) {
			target.WriteString("/" + d.one("a", "b", "c", "a%20b"))
		}
		target.WriteString(d.one("", "", "/"))
		method, host := d.one("GET", "HEAD", "POST", "PUT"), d.one("h.example", "other.example")

		want := served(mux, method, host, target.String())
		got, ok := table.Match(request(t, method, host, target.String()))
		if ok != (want != "") || ok && got.Route.Pattern != want {
			t.Errorf("of %q, %s %s%s has the route %+v, a ServeMux leads to %q", patterns, method, host, target.String(), got.Route, want)
		}
	})
}

// served returns the pattern that serves a request, empty if none does.
func served(mux *http.ServeMux, method, host, target string) string {
	for range 2 {
		r := httptest.NewRequest(method, "http://"+host+target, nil)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if pattern := w.Header().Get("X-Pattern"); pattern != "" {
			return pattern
		}
		location, err := url.Parse(w.Header().Get("Location"))
		if err != nil || w.Code < 300 || w.Code > 399 {
			return ""
		}
		target = location.EscapedPath()
	}
	return ""
}
