package gateway

import (
	"testing"

	"authgate/gateway/explain"
)

const prefixConfig = baseConfig + `
  - {match: /wiki/, name: wiki, upstream: app, auth: [session], strip_prefix: /wiki}
  - {match: /open/, name: open, upstream: app, auth: [none], strip_prefix: /open}
  - {match: /deep/wiki/, name: deep, upstream: app, auth: [session], strip_prefix: /deep}
  - {match: /own/, name: own, upstream: app, auth: [none], strip_prefix: /own}
  - {match: /own, name: exact, upstream: app, auth: [none]}
  - {match: "GET /read/", name: read, upstream: app, auth: [none], strip_prefix: /read}
  - {match: /whole/, name: whole, upstream: app, auth: [none]}
`

// A request for the prefix that a route removes is led to the prefix with a slash, before
// authentication and with its query. Other paths go their usual way.
func TestPrefixWithoutSlash(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, prefixConfig, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:"))
	e := newExplainer(t, r.state.Load().config)
	alice := r.login(aliceIn)
	for _, c := range []struct{ method, target, place string }{
		{"GET", "/wiki", "/wiki/"},
		{"GET", "/wiki?a=b%2F..&c", "/wiki/?a=b%2F..&c"},
		{"GET", "/wiki?", "/wiki/?"},
		{"POST", "/wiki?x", "/wiki/?x"},
		{"GET", "/w%69ki", "/w%69ki/"},
		{"DELETE", "/open", "/open/"},
		{"HEAD", "/read", "/read/"},
	} {
		for _, header := range []string{"", alice.cookie, "Authorization: Bearer wrong", browser} {
			w := r.want(308, c.method, c.target, "", header)
			if got := w.Header().Get("Location"); got != c.place {
				t.Errorf("%s %s leads to %q, want %q", c.method, c.target, got, c.place)
			}
		}
		x, err := e.Explain(&explain.Request{Method: c.method, URL: c.target})
		if err != nil || x.Status != 308 || x.Route == "" || x.Path != "" {
			t.Errorf("explain %s: %+v, %v", c.target, x, err)
		}
		w := r.want(308, "GET", "/verify", "", asTraefik(c.method, "gw.example", c.target)...)
		if got := w.Header().Get("Location"); got != "https://gw.example"+c.place {
			t.Errorf("verify: %s %s leads to %q", c.method, c.target, got)
		}
		w = r.want(401, "GET", "/verify", "", asNginx(c.method, "gw.example", c.target)...) // it knows no redirect
		if got := w.Header().Get("Location"); got != "https://gw.example"+c.place {
			t.Errorf("verify by nginx: %s %s leads to %q", c.method, c.target, got)
		}
	}
	for _, c := range []struct {
		status int
		target string
		sent   string
	}{
		{200, "/wiki/", "/"},
		{200, "/deep/wiki", "/wiki"},
		{404, "/deep", ""},
		{200, "/own", "/own"},
		{200, "/whole", "/whole"},
		{400, "/wiki%2F", ""},
	} {
		r.want(c.status, "GET", c.target, "", alice.cookie)
		if c.sent != "" && r.upstream.Last().URL.RequestURI() != c.sent {
			t.Errorf("%s is forwarded as %s", c.target, r.upstream.Last().URL.RequestURI())
		}
	}
	r.want(404, "POST", "/read", "")
}
