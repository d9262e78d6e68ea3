package gateway

import (
	"net/http"
	"testing"
)

// A path without the slash of its route is the application's to answer: it may
// lead to the one with the slash, or the other way round. The route decides on
// both.
func TestPathWithoutItsSlash(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /, upstream: app, auth: [none]}
  - {match: /stripped/, upstream: app, auth: [none], strip_prefix: /stripped}
  - {match: /exact/, upstream: app, auth: [session]}
  - {match: /exact, upstream: app, auth: [none]}
`)
	r.upstream.answer = func(q *http.Request) (*http.Response, error) { // the other form is the right one
		if q.URL.Opaque == "/public/" {
			return response(q, http.StatusMovedPermanently, http.Header{"Location": {"/public"}}, ""), nil
		}
		return response(q, http.StatusOK, http.Header{}, ""), nil
	}
	for _, c := range []struct {
		method, target, header string
		status                 int
		forwarded, query       string
	}{
		{"GET", "/public", "", 200, "/public", ""},
		{"GET", "/public/", "", 301, "/public/", ""},
		{"POST", "/%70ublic?a=b", "", 200, "/%70ublic", "a=b"},
		{"GET", "/stripped?", "", 200, "/", ""},
		{"GET", "/stripped/", "", 200, "/", ""},
		{"GET", "/session", "", 401, "", ""},
		{"GET", "/session;x", "", 400, "", ""},
		{"GET", "/basic", basicHeader("service", "s3rvice"), 200, "/basic", ""},
		{"GET", "/basic", basicHeader("service", "wrong"), 401, "", ""},
		{"GET", "/exact", "", 200, "/exact", ""},
		{"GET", "/exact/", "", 401, "", ""},
	} {
		before := r.upstream.count()
		w := r.do(c.method, c.target, "", c.header)
		if w.Code != c.status || r.upstream.count()-before != min(len(c.forwarded), 1) {
			t.Errorf("%s %s: %d, and %d requests at the upstream; want %d", c.method, c.target, w.Code, r.upstream.count()-before, c.status)
			continue
		}
		if c.forwarded == "" {
			continue
		}
		if got := r.upstream.last().URL; got.Opaque != c.forwarded || got.RawQuery != c.query {
			t.Errorf("%s %s: the upstream is asked for %q with the query %q", c.method, c.target, got.Opaque, got.RawQuery)
		}
	}
}
