package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The upstream gets the path and the query byte for byte, and headers as the route
// says.
func TestRewrite(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /api/, name: stripped, upstream: app, auth: [none], strip_prefix: /api}
  - {match: /headers/, upstream: app, auth: [none], `+
		`headers: {set: {X-Added: a, accept: text/plain}, remove: [X-Unwanted, Authorization]}}
  - {match: /open/, upstream: app, auth: [basic, session], forward_credentials: true}
`)
	for target, want := range map[string]string{
		"/public/?": "/public/?",
		"/public/a%20b;c=d/%C3%A9?x=%zz&&;y=a+b&%2F=": "/public/a%20b;c=d/%C3%A9?x=%zz&&;y=a+b&%2F=",
		"/publi%63/%25": "/publi%63/%25",
		"/api/x?y":      "/x?y",
		"/%61pi/%78":    "/%78",
	} {
		r.want(200, "GET", target, "")
		u := *r.upstream.Last().URL
		u.Scheme, u.Host = "http", "app.invalid" // as the balancer does
		if got := u.RequestURI(); got != want {
			t.Errorf("%s: the upstream is asked for %s, want %s", target, got, want)
		}
	}
	r.want(200, "GET", "/headers/", "", "X-Unwanted: x", "Authorization: Negotiate x", "Accept: text/html", "X-Other: y")
	got := r.upstream.Last().Header
	for name, want := range map[string][]string{
		"X-Added": {"a"}, "Accept": {"text/plain"}, "X-Unwanted": nil, "Authorization": nil, "X-Other": {"y"},
		"X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"gw.example"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if agent, there := got["User-Agent"]; !there || agent != nil {
		t.Errorf("Go's own User-Agent would be sent: %q, %t", agent, there)
	}
	for _, header := range [][]string{{basicHeader("service", "s3rvice"), "Cookie: a=b"}, {r.login(aliceIn).cookie}} {
		r.want(200, "GET", "/open/", "", header...)
		sent := request("GET", "/open/", "", header...).Header
		if got := r.upstream.Last().Header; got.Get("Authorization") != sent.Get("Authorization") ||
			got.Get("Cookie") != sent.Get("Cookie") {
			t.Errorf("forward_credentials: %v, want those of %v", got, sent)
		}
	}
}

// A client can neither make headers of the gateway hop-by-hop nor send trailers.
func TestRewriteHopByHop(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	q := request("POST", "/basic/", "x", basicHeader("service", "s3rvice"),
		"Connection: X-Auth-User, X-Forwarded-For, X-Request-Id, X-Mine", "X-Mine: x",
		"Te: trailers", "Keep-Alive: 5", "Trailer: X-Auth-Roles")
	q.Trailer = http.Header{"X-Auth-Roles": {"admin"}}
	r.wantOf(200, q)
	out := r.upstream.Last()
	for name, want := range map[string]string{
		"X-Auth-User": "service", "X-Forwarded-For": "192.0.2.7", "X-Mine": "",
		"Keep-Alive": "", "Connection": "", "Trailer": "", "Te": "trailers",
	} {
		if got := out.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if out.Header.Get("X-Request-Id") == "" || out.Trailer != nil {
		t.Errorf("X-Request-Id %q, trailer %v", out.Header.Get("X-Request-Id"), out.Trailer)
	}
}

// Shared caches must not give the response for one user to another.
func TestKeepPrivate(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	s := r.login(aliceIn)
	for _, c := range []struct {
		target     string
		says, want []string
	}{
		{"/session/", nil, []string{"private"}},
		{"/session/", []string{"public, max-age=60"}, []string{"public, max-age=60"}},
		{"/public/", nil, nil},
	} {
		r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
			answer := response(q, 200, http.Header{}, "")
			if c.says != nil {
				answer.Header["Cache-Control"] = c.says
			}
			return answer, nil
		}
		if got := r.do("GET", c.target, "", s.cookie).Header()["Cache-Control"]; !slices.Equal(got, c.want) {
			t.Errorf("%s where the upstream says %q: %q, want %q", c.target, c.says, got, c.want)
		}
	}
}

// A body over max_body is 413, whether or not its length is declared.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, baseConfig+"  - {match: /small/, upstream: app, auth: [none], max_body: 100000}\n"+
		"  - {match: /tiny/, upstream: app, auth: [none], max_body: 5}\n", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, " ", err)
	})
	for size, want := range map[int]int{0: 200, 100_000: 200, 100_001: 413, 5_000_000: 413} {
		for _, length := range []int{size, -1} {
			q := request("POST", "/small/", "")
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, size))), int64(length)
			if w := r.wantOf(want, q); want == 200 && w.Body.String() != fmt.Sprintf("%d <nil>", size) {
				t.Errorf("%d bytes, declared %d: the upstream got %s", size, length, w.Body)
			}
		}
	}
	for range 2 { // the second time, there is a connection for the fast path
		r.want(200, "POST", "/tiny/", "12345")
		r.want(413, "POST", "/tiny/", "123456")
	}
	r.want(200, "POST", "/public/", strings.Repeat("x", 200_000))
}
